// Our matrix product against oneDNN's, shape by shape, both sides alternating: GFLOP/s of each and
// the ratio (ours / oneDNN's: above 1 is faster), medians.
//
//   matrix_products THREADS f32|bf16 M,N,K,TA,TB[,rounded] ...
//
// c[M, N] = a b with a stored [K, M] if TA is T, b stored [N, K] if TB is T. bf16: the factors are
// bf16; c is f32, or bf16 where `rounded` is given. f32 is measured against dnnl_sgemm, bf16
// against the matmul primitive.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "actor_runtime/kernel/gemm.h"
#include "oneflow_core/device/cpu_scratch.h"
#include "planning/measure/repeat.h"
#include "tools/benchmarks/onednn_product.h"

namespace oneflow {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Aligned memory full of small numbers.
template <typename T>
class Matrix {
 public:
  explicit Matrix(int64_t n) : memory_(n + 64) {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = reinterpret_cast<T*>((at + 63) / 64 * 64);
    for (int64_t i = 0; i < n; ++i) {
      const float x = static_cast<float>(i % 17) / 16 - 0.5f;
      if constexpr (std::is_same_v<T, Bf16>) {
        data_[i] = ToBf16(x);
      } else {
        data_[i] = static_cast<T>(x);
      }
    }
  }
  T* data() { return data_; }

 private:
  std::vector<T> memory_;
  T* data_;
};

template <typename T>
Strided<T> View(const T* data, int64_t rows, int64_t columns, char transpose) {
  return transpose == 'T' ? Strided<T>{data, 1, rows} : Strided<T>{data, columns, 1};
}

// Seconds of one call, from `calls` in a row. The pause lets the other side's threads stop
// spinning.
double Seconds(int calls, const std::function<void()>& call) {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  call();
  const double start = Now();
  for (int i = 0; i < calls; ++i) call();
  return (Now() - start) / calls;
}

template <typename T, typename C>
void Compare(const MatrixProduct& s, ThreadPool& pool) {
  Matrix<T> a(s.m * s.k), b(s.k * s.n);
  Matrix<C> c(s.m * s.n);
  Matrix<std::byte> scratch(ProductWorkspace(s.m, s.n, s.k));
  const GemmArgs<T, C> args{.m = s.m,
                            .n = s.n,
                            .k = s.k,
                            .a = View<T>(a.data(), s.m, s.k, s.transpose_a),
                            .b = View<T>(b.data(), s.k, s.n, s.transpose_b),
                            .c = c.data(),
                            .c_row = s.n};
  auto ours = [&] { Gemm(*ProductKernelsFor<T>(BestIsa()), args, scratch.data(), pool); };
  constexpr ProductTypes kTypes = std::is_same_v<T, float>   ? ProductTypes::kF32
                                  : std::is_same_v<C, float> ? ProductTypes::kBf16ToF32
                                                             : ProductTypes::kBf16;
  const std::function<void()> theirs = OneDnnProduct(s, kTypes, a.data(), b.data(), c.data());
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n * s.k);
  const int calls = static_cast<int>(std::clamp(5e9 / flops, 1.0, 200.0));
  std::vector<double> our_seconds, their_seconds;
  for (int round = 0; round < 9; ++round) {
    our_seconds.push_back(Seconds(calls, ours));
    their_seconds.push_back(Seconds(calls, theirs));
  }
  const double x = flops / Median(our_seconds) * 1e-9, y = flops / Median(their_seconds) * 1e-9;
  std::printf("%5ld x %5ld, k %5ld, %c%c %7.1f %7.1f %6.3f\n", s.m, s.n, s.k, s.transpose_a,
              s.transpose_b, x, y, x / y);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: matrix_products THREADS f32|bf16 M,N,K,TA,TB[,rounded] ...\n");
    return 2;
  }
  const int threads = std::atoi(argv[1]);
  const bool bf16 = std::string(argv[2]) == "bf16";
  omp_set_num_threads(threads);
  ThreadPool pool(threads);
  for (int i = 3; i < argc; ++i) {
    MatrixProduct s{};
    if (std::sscanf(argv[i], "%ld,%ld,%ld,%c,%c", &s.m, &s.n, &s.k, &s.transpose_a,
                    &s.transpose_b) != 5) {
      std::fprintf(stderr, "matrix_products: %s is not M,N,K,TA,TB[,rounded]\n", argv[i]);
      return 2;
    }
    const bool rounded = std::string(argv[i]).ends_with(",rounded");
    if (!bf16) {
      Compare<float, float>(s, pool);
    } else if (rounded) {
      Compare<Bf16, Bf16>(s, pool);
    } else {
      Compare<Bf16, float>(s, pool);
    }
  }
  return 0;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) { return oneflow::Main(argc, argv); }
