#include "tools/oneflow/precision.h"

#include "actor_runtime/kernel/simd/isa.h"

namespace oneflow {

std::string PrecisionText(const proto::Plan& plan) {
  if (plan.train().precision() != proto::BF16) return "";
  return Has(Isa::kAvx512Bf16)
             ? "precision bf16: this processor multiplies it with AVX512-BF16\n"
             : "precision bf16: this processor has not AVX512-BF16, products are emulated in f32\n";
}

}  // namespace oneflow
