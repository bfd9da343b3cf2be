#include "tools/benchmarks/onednn_product.h"

#include <cstdint>

#include "dnnl.hpp"

namespace oneflow {
namespace {

dnnl::memory::desc Described(int64_t rows, int64_t columns, dnnl::memory::data_type type,
                             char transpose) {
  using Tag = dnnl::memory::format_tag;
  return {{rows, columns}, type, transpose == 'T' ? Tag::ba : Tag::ab};
}

std::function<void()> Matmul(const MatrixProduct& p, bool rounded, void* a, void* b, void* c) {
  using Type = dnnl::memory::data_type;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto a_desc = Described(p.m, p.k, Type::bf16, p.transpose_a);
  const auto b_desc = Described(p.k, p.n, Type::bf16, p.transpose_b);
  const auto c_desc = Described(p.m, p.n, rounded ? Type::bf16 : Type::f32, 'N');
  const dnnl::matmul matmul(
      dnnl::matmul::primitive_desc(dnnl::matmul::desc(a_desc, b_desc, c_desc), engine));
  return [=, stream = dnnl::stream(engine), a = dnnl::memory(a_desc, engine, a),
          b = dnnl::memory(b_desc, engine, b), c = dnnl::memory(c_desc, engine, c)]() mutable {
    matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
  };
}

}  // namespace

std::function<void()> OneDnnProduct(const MatrixProduct& p, ProductTypes types, void* a, void* b,
                                    void* c) {
  if (types != ProductTypes::kF32) return Matmul(p, types == ProductTypes::kBf16, a, b, c);
  const long lda = p.transpose_a == 'T' ? p.m : p.k, ldb = p.transpose_b == 'T' ? p.k : p.n;
  return [=] {
    dnnl_sgemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, 1, static_cast<const float*>(a), lda,
               static_cast<const float*>(b), ldb, 0, static_cast<float*>(c), p.n);
  };
}

}  // namespace oneflow
