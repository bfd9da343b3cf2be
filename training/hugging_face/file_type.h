// The element types of tensors in files of Hugging Face that models have, and their conversion to
// and from f32, the type of variables.
//
//   Widen(FileType::kBF16, bytes, values);                      // exact
//   if (const auto bad = Narrow(FileType::kF16, values, bytes)) ... values[*bad] is too large ...
//
// Guarantees: Widen is exact; Narrow rounds to nearest, ties to even, and is the inverse of Widen
// for every bit pattern: bf16 -> f32 -> bf16 gives the same bytes, NaNs included. Neither
// allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace oneflow {

enum class FileType : uint8_t { kF32, kBF16, kF16 };

constexpr int64_t ElementBytes(FileType type) { return type == FileType::kF32 ? 4 : 2; }

// "f32", "bf16", "f16": as on the command line.
std::string_view Name(FileType type);
// "F32", "BF16", "F16": as in a safetensors header.
std::string_view SafetensorsName(FileType type);
// The inverse of Name.
absl::StatusOr<FileType> ParseFileType(const std::string& where, std::string_view name);

// Requires as many elements in `from` as in `to`.
void Widen(FileType type, std::span<const std::byte> from, std::span<float> to);
// Stops at the first finite value that would become infinite, and returns its index.
std::optional<size_t> Narrow(FileType type, std::span<const float> from, std::span<std::byte> to);

}  // namespace oneflow
