// Element types: those of proto/tensor.proto, as a C++ enum so that value headers stay free of
// protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace oneflow {

enum class DType : uint8_t { kF32 = 1, kF64 = 2, kI32 = 3, kBF16 = 4, kU8 = 5 };

constexpr size_t ElementBytes(DType t) {
  switch (t) {
    case DType::kF64: return 8;
    case DType::kBF16: return 2;
    case DType::kU8: return 1;
    default: return 4;
  }
}

constexpr bool IsFloat(DType t) { return t != DType::kI32 && t != DType::kU8; }

// The type in which sums and statistics of tensors of type `t` are kept.
constexpr DType AccumulationType(DType t) { return t == DType::kBF16 ? DType::kF32 : t; }

std::string_view Name(DType t);                        // "f32", "f64", "i32", "bf16", "u8"
absl::StatusOr<DType> ParseDType(std::string_view s);  // the inverse

}  // namespace oneflow
