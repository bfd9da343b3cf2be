// A matrix product by oneDNN: the peer of our products, and the floor of a step.
#pragma once

#include <functional>

namespace oneflow {

// c[m, n] = a b, with a stored [k, m] if transpose_a is 'T', b stored [n, k] if transpose_b is 'T'.
struct MatrixProduct {
  long m, n, k;
  char transpose_a, transpose_b;
};

enum class ProductTypes { kF32, kBf16ToF32, kBf16 };  // of the factors, and of c

// A call of the product on these matrices, on as many threads as OpenMP has: dnnl_sgemm for f32,
// the matmul primitive, made here once, for bf16.
std::function<void()> OneDnnProduct(const MatrixProduct& product, ProductTypes types, void* a,
                                    void* b, void* c);

}  // namespace oneflow
