// The instruction sets that the CPU kernels are compiled for, from the least to the most: each has
// what those before it have.
#pragma once

namespace oneflow {

enum class Isa { kBaseline, kAvx2, kAvx512, kAvx512Bf16 };

// Whether this processor has it.
bool Has(Isa isa);

}  // namespace oneflow
