// The instruction sets that the CPU kernels are compiled for, in ascending order: each includes
// those before it.
#pragma once

#include <string_view>

namespace oneflow {

enum class Isa { kBaseline, kAvx2, kAvx512, kAvx512Bf16 };
inline constexpr Isa kIsas[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

// True if this processor has it.
bool Has(Isa isa);
// The highest instruction set of this processor.
Isa BestIsa();
// "baseline", "avx2", "avx512" or "avx512_bf16".
std::string_view Name(Isa isa);

}  // namespace oneflow
