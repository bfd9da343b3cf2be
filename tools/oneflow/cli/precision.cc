#include "tools/oneflow/cli/precision.h"

namespace oneflow {

std::string PrecisionText(const proto::Plan& plan, Isa isa) {
  if (plan.recipe().precision() != proto::BF16 || plan.device_kind() == proto::CUDA) return "";
  if (isa == Isa::kAvx512Bf16) {
    return "precision bf16: this processor multiplies it with AVX512-BF16\n";
  }
  return Has(Isa::kAvx512Bf16)
             ? "precision bf16: products are emulated in f32, as --instruction_set asks for\n"
             : "precision bf16: this processor has not AVX512-BF16, products are emulated in f32\n";
}

}  // namespace oneflow
