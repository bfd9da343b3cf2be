// A kernel that is one matrix product of its two first inputs. Internal to kernel/.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

// out[m, n] (+)= a[m, k] * b[k, n], all dense, of the types that gemm.h multiplies; a is input
// `a_input`, stored [k, m] when transpose_a; b is input `b_input`, stored [n, k] when transpose_b.
// `bias_input` >= 0: its n elements, of the type of sums, are added to each row.
//
// `then` is done to every piece of the result as soon as it is there, in the bits of the kernel of
// that name on the whole of it.
struct ProductSpec {
  enum class Then : uint8_t {
    kNothing,
    kGelu,      // output 1 = gelu(out)
    kGeluGrad,  // out = gelu_grad(out, input 2)
    kAdd,       // out = input 2 + out; not for a bf16 out
  };
  int64_t m = 0, n = 0, k = 0;
  int a_input = 0, b_input = 1, bias_input = -1;
  bool transpose_a = false, transpose_b = false;
  Then then = Then::kNothing;
};

absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup, const ProductSpec& product);

}  // namespace oneflow
