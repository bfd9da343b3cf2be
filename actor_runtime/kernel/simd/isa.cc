#include "actor_runtime/kernel/simd/isa.h"

namespace oneflow {

bool Has(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kBaseline: return true;
    case Isa::kAvx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::kAvx512Bf16: return Has(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16");
  }
#endif
  return isa == Isa::kBaseline;
}

Isa BestIsa() {
  Isa best = Isa::kBaseline;
  for (const Isa isa : kIsas) best = Has(isa) ? isa : best;
  return best;
}

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline: return "baseline";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Bf16: return "avx512_bf16";
  }
  return "";
}

}  // namespace oneflow
