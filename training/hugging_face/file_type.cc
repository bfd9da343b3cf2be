#include "training/hugging_face/file_type.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;

float WidenF16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
  if (exponent == 0) {
    // A multiple of the smallest denormal number.
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  const uint32_t wide = exponent == 0x1f ? kInfinity : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | mantissa << 13);
}

uint16_t NarrowToF16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), size = bits & 0x7fffffff;
  const uint32_t sign = bits >> 16 & 0x8000;
  uint32_t half = 0;
  if (size > kInfinity) {
    // Quiet where the kept bits alone would be infinity, or where bits are lost.
    const bool exact = (size & 0x1fff) == 0;
    half = 0x7c00 | (size >> 13 & 0x3ff) | (exact ? 0 : 0x200);
  } else if (size >= 0x47800000) {
    half = 0x7c00;
  } else if (size < 0x38800000) {
    // The last binary digit of numbers from 0.5 on is 2^-24, that of denormal halves: the addition
    // rounds there.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
  } else {
    half = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

uint16_t NarrowToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return (bits & 0xffff) == 0 ? static_cast<uint16_t>(bits >> 16) : ToBf16(x).bits;
}

}  // namespace

std::string_view Name(FileType type) {
  switch (type) {
    case FileType::kF32: return "f32";
    case FileType::kBF16: return "bf16";
    case FileType::kF16: return "f16";
  }
  return "";
}

std::string_view SafetensorsName(FileType type) {
  switch (type) {
    case FileType::kF32: return "F32";
    case FileType::kBF16: return "BF16";
    case FileType::kF16: return "F16";
  }
  return "";
}

absl::StatusOr<FileType> ParseFileType(const std::string& where, std::string_view name) {
  for (const FileType type : {FileType::kF32, FileType::kBF16, FileType::kF16}) {
    if (name == Name(type)) return type;
  }
  return InputError(where, "no such element type", "use bf16, f32 or f16");
}

void Widen(FileType type, std::span<const std::byte> from, std::span<float> to) {
  if (type == FileType::kF32) {
    std::memcpy(to.data(), from.data(), to.size_bytes());
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from.data() + 2 * i, 2);
    to[i] = type == FileType::kBF16 ? ToFloat(Bf16{bits}) : WidenF16(bits);
  }
}

std::optional<size_t> Narrow(FileType type, std::span<const float> from, std::span<std::byte> to) {
  if (type == FileType::kF32) {
    std::memcpy(to.data(), from.data(), from.size_bytes());
    return std::nullopt;
  }
  const uint16_t infinity = type == FileType::kBF16 ? 0x7f80 : 0x7c00;
  for (size_t i = 0; i < from.size(); ++i) {
    const uint16_t bits = type == FileType::kBF16 ? NarrowToBf16(from[i]) : NarrowToF16(from[i]);
    if ((bits & 0x7fff) == infinity && std::isfinite(from[i])) return i;
    std::memcpy(to.data() + 2 * i, &bits, 2);
  }
  return std::nullopt;
}

}  // namespace oneflow
