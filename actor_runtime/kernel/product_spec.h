// ProductSpec: the matrix product of a kernel of the linear family or of matmul, on any device. The
// kinds' tensors keep contracted dimensions adjacent, and the other dimensions, too, so each kind
// is one product of two matrices. Internal to kernels.
//
//   const ProductSpec p = LinearProduct(setup);   // of linear, linear_gelu and linear_add
#pragma once

#include <cstdint>

#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

// out[m, n] (+)= a[m, k] * b[k, n], all dense; a is input `a_input`, stored [k, m] when
// transpose_a; b is input `b_input`, stored [n, k] when transpose_b. `bias_input` >= 0: its n
// elements are added to each row.
//
// `then` is applied to the result.
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

ProductSpec LinearProduct(const KernelSetup& setup);           // linear, linear_gelu, linear_add
ProductSpec LinearGradInputProduct(const KernelSetup& setup);  // and linear_gelu_grad_input
ProductSpec LinearGradWeightProduct(const KernelSetup& setup);
ProductSpec MatmulProduct(const KernelSetup& setup);
ProductSpec MatmulGradBProduct(const KernelSetup& setup);

// `batch` products of dense matrices, contiguous in memory: of batch_matmul.
struct BatchedProduct {
  int64_t batch = 0;
  ProductSpec product;
};
BatchedProduct BatchMatmulProduct(const KernelSetup& setup);

}  // namespace oneflow
