// The body of product_kernels_<instruction set>.cc: the same code, compiled for vectors of
// ONEFLOW_VECTOR_BYTES into the namespace ONEFLOW_VECTOR_NAMESPACE. It must not use inline
// functions of other headers: the linker would keep one copy, perhaps one that this processor
// cannot run.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "actor_runtime/kernel/simd/product_kernels.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than the ABI's stay inside this file

namespace oneflow::ONEFLOW_VECTOR_NAMESPACE {
namespace {

// In this order: each uses those before it.
#include "actor_runtime/kernel/simd/vector_math.inc.h"

#include "actor_runtime/kernel/simd/pack.inc.h"

#include "actor_runtime/kernel/simd/multiply.inc.h"

#include "actor_runtime/kernel/simd/few_rows.inc.h"

template <typename T>
constexpr ProductKernels<T> Table() {
  return {
      .tile_rows = kTileRows,
      .tile_columns = kTileColumns<T>,
      .column_step = kTileColumns<T> / kTileVectors,
      .word_depth = Packed<T>::kDepth,
      .word_bytes = sizeof(WordType<T>),
      .pack_a = PackPanels<T, kTileRows>,
      .pack_b = PackPanels<T, kTileColumns<T>>,
      .multiply = Multiply<T>,
      .multiply_few = MultiplyFew<T>,
  };
}

}  // namespace

extern const ProductKernels<float> kFloatProduct;
extern const ProductKernels<double> kDoubleProduct;
extern const ProductKernels<Bf16> kBf16Product;
constinit const ProductKernels<float> kFloatProduct = Table<float>();
constinit const ProductKernels<double> kDoubleProduct = Table<double>();
constinit const ProductKernels<Bf16> kBf16Product = Table<Bf16>();

}  // namespace oneflow::ONEFLOW_VECTOR_NAMESPACE
