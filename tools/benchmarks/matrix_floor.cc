// The floor of a training step: the seconds that its matrix products alone take with oneDNN, all
// threads of one product together, nothing in between. By the CPU's clock, over threads: a busy
// machine hardly changes them.
//
//   matrix_floor THREADS f32|bf16 M,N,K,COUNT,TA,TB ...    -> seconds of the list, best of three
//                                                             each, and its operations
//
// bf16: of bf16 factors; the result is bf16 too, but f32 where TA is T (a weight's gradient).
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "tools/benchmarks/onednn_product.h"

namespace oneflow {
namespace {

double Seconds(const MatrixProduct& p, bool bf16, int threads) {
  // Room for f32. Read as bf16 these are small numbers, too.
  std::vector<float> a(p.m * p.k, 0.5f), b(p.k * p.n, 0.25f), c(p.m * p.n);
  const ProductTypes types = !bf16                  ? ProductTypes::kF32
                             : p.transpose_a == 'T' ? ProductTypes::kBf16ToF32
                                                    : ProductTypes::kBf16;
  const std::function<void()> call = OneDnnProduct(p, types, a.data(), b.data(), c.data());
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    call();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best / threads;
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: matrix_floor THREADS f32|bf16 M,N,K,COUNT,TA,TB ...\n");
    return 2;
  }
  const int threads = std::atoi(argv[1]);
  omp_set_num_threads(threads);
  const bool bf16 = std::string(argv[2]) == "bf16";
  double seconds = 0, flops = 0;
  for (int i = 3; i < argc; ++i) {
    MatrixProduct p{};
    long count = 0;
    if (std::sscanf(argv[i], "%ld,%ld,%ld,%ld,%c,%c", &p.m, &p.n, &p.k, &count, &p.transpose_a,
                    &p.transpose_b) != 6) {
      std::fprintf(stderr, "matrix_floor: %s is not M,N,K,COUNT,TA,TB\n", argv[i]);
      return 2;
    }
    const double times = static_cast<double>(count);
    seconds += times * Seconds(p, bf16, threads);
    flops += times * 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) *
             static_cast<double>(p.k);
  }
  std::printf("%.6f %.4g\n", seconds, flops);
  return 0;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) { return oneflow::Main(argc, argv); }
