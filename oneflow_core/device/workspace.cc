#include "oneflow_core/device/workspace.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "glog/logging.h"
#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow {
namespace {

struct Shapes {
  const std::vector<Dims>& in;
  const std::vector<Dims>& out;
};

// One matrix product of the first two inputs, by all threads together. For an m x k and a k x n
// tensor and an m x n result, whatever the roles, m k n follow from the three numbers of elements.
int64_t OneProduct(const Shapes& s, int /*threads*/) {
  const double mk = static_cast<double>(Product(s.in[0]));
  const double kn = static_cast<double>(Product(s.in[1]));
  const double mn = static_cast<double>(Product(s.out[0]));
  if (mk == 0 || kn == 0 || mn == 0) return 0;  // an empty piece: nothing to multiply
  const auto m = std::llround(std::sqrt(mk / kn * mn)), n = std::llround(std::sqrt(kn / mk * mn));
  const auto k = std::llround(std::sqrt(mk / mn * kn));
  // Kernels may compute the transpose of the result instead.
  return std::max(ProductWorkspace(m, n, k), ProductWorkspace(n, m, k));
}

// Each thread multiplies matrices of its own: a[..., m, k] or a[..., k, m], out[..., m, n].
int64_t BatchOfProducts(const Shapes& s, int threads) {
  if (Product(s.in[0]) == 0 || Product(s.in[1]) == 0) return 0;
  const Dims& a = s.in[0];
  const int64_t n = s.out[0].back(), m = s.out[0][s.out[0].size() - 2];
  return threads * ProductWorkspace(m, n, a.back() * a[a.size() - 2] / m);
}

int64_t Attention(const Dims& qkv, int threads) {
  return AttentionWorkspace(qkv[1], qkv[4], threads);
}
int64_t Forward(const Shapes& s, int threads) { return Attention(s.in[0], threads); }
int64_t Backward(const Shapes& s, int threads) { return Attention(s.in[1], threads); }

int64_t CachedAttention(const Shapes& s, int threads) {
  const Dims &cache = s.in[0], &qkv = s.in[1];
  return threads * CachedAttentionWorkspacePerThread(qkv[1], cache[3], cache[4]);
}

int64_t Softmax(const Shapes& s, int threads) {
  return threads * SoftmaxWorkspacePerThread(s.in[0]);
}

struct Row {
  std::string_view kernel;
  int64_t (*bytes)(const Shapes& shapes, int threads);
};

// Kernels that are not here need none.
constexpr Row kCpu[] = {
    {"batch_matmul", BatchOfProducts},
    {"cached_attention", CachedAttention},
    {"causal_attention", Forward},
    {"causal_attention_grad", Backward},
    {"causal_softmax", Softmax},
    {"linear", OneProduct},
    {"linear_add", OneProduct},
    {"linear_gelu", OneProduct},
    {"linear_gelu_grad_input", OneProduct},
    {"linear_grad_input", OneProduct},
    {"linear_grad_weight", OneProduct},
    {"matmul", OneProduct},
    {"matmul_grad_b", OneProduct},
};

int64_t LibraryProduct(const Shapes& /*s*/, int /*threads*/) { return kLibraryProductScratch; }

// dy[lead..., o...], dbias[o...].
int64_t ColumnSums(const Shapes& s, int /*threads*/) {
  const int64_t width = Product(s.out[0]);
  return width == 0 ? 0 : ColumnSumsScratch(Product(s.in[0]) / width, width);
}

int64_t CudaLayerNormGradWeight(const Shapes& s, int /*threads*/) {
  const Dims& x = s.in[1];
  const int64_t width = x.empty() ? 1 : x.back();
  return width == 0 ? 0 : LayerNormGradWeightScratch(Product(x) / width, width);
}

int64_t CudaSumSquares(const Shapes& s, int /*threads*/) {
  return SumSquaresScratch(Product(s.in[0]));
}

int64_t CudaAttentionGrad(const Shapes& s, int /*threads*/) {
  const Dims& qkv = s.in[1];
  return AttentionGradScratch(qkv[0], qkv[3], qkv[1]);
}

constexpr Row kCuda[] = {
    {"batch_matmul", LibraryProduct},
    {"causal_attention_grad", CudaAttentionGrad},
    {"layer_norm_grad_weight", CudaLayerNormGradWeight},
    {"linear", LibraryProduct},
    {"linear_add", LibraryProduct},
    {"linear_gelu", LibraryProduct},
    {"linear_gelu_grad_input", LibraryProduct},
    {"linear_grad_bias", ColumnSums},
    {"linear_grad_input", LibraryProduct},
    {"linear_grad_weight", LibraryProduct},
    {"matmul", LibraryProduct},
    {"matmul_grad_b", LibraryProduct},
    {"sum_squares", CudaSumSquares},
};

}  // namespace

int64_t WorkspaceBytes(proto::DeviceKind device, std::string_view kernel,
                       const std::vector<Dims>& in, const std::vector<Dims>& out, int threads) {
  const std::span<const Row> rows = device == proto::CUDA ? kCuda : std::span<const Row>(kCpu);
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.kernel == kernel; });
  return row == rows.end() ? 0 : row->bytes({in, out}, threads);
}

}  // namespace oneflow
