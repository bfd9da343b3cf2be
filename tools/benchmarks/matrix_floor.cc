// The floor of a training step: the seconds that its matrix products alone take with oneDNN, all
// threads of one product together, nothing in between.
//
//   matrix_floor THREADS M,N,K,COUNT,TA,TB ...    -> seconds of the whole list, best of three
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "dnnl.hpp"

namespace {

struct Product {
  long m, n, k, count;
  char transpose_a, transpose_b;
};

double Seconds(const Product& p) {
  std::vector<float> a(p.m * p.k, 0.5f), b(p.k * p.n, 0.25f), c(p.m * p.n);
  const long lda = p.transpose_a == 'T' ? p.m : p.k, ldb = p.transpose_b == 'T' ? p.k : p.n;
  double best = 1e30;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    dnnl_sgemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, 1, a.data(), lda, b.data(), ldb, 0,
               c.data(), p.n);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best * static_cast<double>(p.count);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: matrix_floor THREADS M,N,K,COUNT,TA,TB ...\n");
    return 2;
  }
  omp_set_num_threads(std::atoi(argv[1]));
  double seconds = 0, flops = 0;
  for (int i = 2; i < argc; ++i) {
    Product p{};
    if (std::sscanf(argv[i], "%ld,%ld,%ld,%ld,%c,%c", &p.m, &p.n, &p.k, &p.count, &p.transpose_a,
                    &p.transpose_b) != 6) {
      std::fprintf(stderr, "matrix_floor: %s is not M,N,K,COUNT,TA,TB\n", argv[i]);
      return 2;
    }
    seconds += Seconds(p);
    flops += 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
             static_cast<double>(p.count);
  }
  std::printf("%.6f %.4g\n", seconds, flops);
  return 0;
}
