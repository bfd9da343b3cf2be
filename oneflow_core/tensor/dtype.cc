#include "oneflow_core/tensor/dtype.h"

#include <string>

#include "oneflow_core/base/status.h"

namespace oneflow {

std::string_view Name(DType t) {
  switch (t) {
    case DType::kF32: return "f32";
    case DType::kF64: return "f64";
    case DType::kI32: return "i32";
    case DType::kBF16: return "bf16";
    case DType::kU8: return "u8";
  }
  return "?";
}

absl::StatusOr<DType> ParseDType(std::string_view s) {
  for (const DType t : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kU8}) {
    if (s == Name(t)) return t;
  }
  return InputError("element type \"" + std::string(s) + "\"", "is not known",
                    "use f32, f64, i32, bf16 or u8");
}

}  // namespace oneflow
