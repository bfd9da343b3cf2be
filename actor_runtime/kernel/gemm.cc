#include "actor_runtime/kernel/gemm.h"

#include <algorithm>
#include <cstring>

#include "oneflow_core/op/workspace.h"

namespace oneflow {
namespace {

int64_t DivUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return DivUp(a, b) * b; }

// How one block product is cut into tasks. Results do not depend on it, so it may look at the
// threads.
struct Cut {
  int64_t rows, columns;  // of a task
};

template <typename T>
Cut CutFor(const VectorKernels<T>& v, int64_t m, int64_t n, int threads) {
  const int64_t most = kProductRows / v.tile_rows * v.tile_rows;
  if (threads == 1) return {most, n};
  const int64_t want = 3 * threads;  // tasks, so that a late thread costs little
  const int64_t rows = std::min(most, RoundUp(DivUp(m, want), v.tile_rows));
  // Fewer than a few tiles of rows: packing them would cost more than it shares; cut columns too.
  const int64_t tall = std::max<int64_t>(rows, std::min<int64_t>(most, 4 * v.tile_rows));
  const int64_t column_tasks = std::max<int64_t>(1, want / DivUp(m, tall));
  return {tall, RoundUp(DivUp(n, column_tasks), v.tile_columns)};
}

// Runs tasks on a pool, or here.
struct Runner {
  ThreadPool* pool;
  int threads() const { return pool == nullptr ? 1 : pool->threads(); }
  template <typename F>
  void operator()(int64_t tasks, F fn) const {
    if (pool != nullptr) return pool->ParallelFor(static_cast<int>(tasks), fn);
    for (int64_t t = 0; t < tasks; ++t) fn(static_cast<int>(t), 0);
  }
};

// A product of one block of b, `depth` x `columns`, packed in `right`, with all rows of a.
template <typename T>
void MultiplyBlock(const VectorKernels<T>& v, const GemmArgs<T>& g, int64_t p, int64_t depth,
                   int64_t j, int64_t columns, const T* right, T* left, int64_t left_size,
                   const Runner& run) {
  const Cut cut = CutFor(v, g.m, columns, run.threads());
  const int64_t column_tasks = DivUp(columns, cut.columns);
  const bool accumulate = g.accumulate || p > 0;
  run(DivUp(g.m, cut.rows) * column_tasks, [&](int task, int thread) {
    const int64_t i = task / column_tasks * cut.rows, first = task % column_tasks * cut.columns;
    const int64_t rows = std::min(cut.rows, g.m - i), n = std::min(cut.columns, columns - first);
    T* packed = left + thread * left_size;
    v.pack_a({g.a.data + i * g.a.row + p * g.a.col, g.a.row, g.a.col}, rows, depth, packed);
    v.multiply(packed, right + first * depth, rows, n, depth, g.c + i * g.c_row + j + first,
               g.c_row, accumulate);
  });
}

template <typename T>
void PackBlock(const VectorKernels<T>& v, const GemmArgs<T>& g, int64_t p, int64_t depth, int64_t j,
               int64_t columns, T* right, const Runner& run) {
  const int64_t strip = run.threads() == 1 ? columns : 4 * v.tile_columns;
  run(DivUp(columns, strip), [&](int task, int) {
    const int64_t first = task * strip;
    v.pack_b({g.b.data + p * g.b.row + (j + first) * g.b.col, g.b.row, g.b.col}, depth,
             std::min(strip, columns - first), right + first * depth);
  });
}

template <typename T>
void Run(const VectorKernels<T>& v, const GemmArgs<T>& g, std::byte* scratch, const Runner& run) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    for (int64_t i = 0; i < g.m && !g.accumulate; ++i) std::fill_n(g.c + i * g.c_row, g.n, T(0));
    return;
  }
  const int64_t most_depth = std::min<int64_t>(kProductDepthBytes / sizeof(T), g.k);
  const int64_t most_columns = std::min(kProductColumns, g.n);
  const int64_t right_bytes =
      RoundUp(most_depth * RoundUp(most_columns, v.tile_columns) * sizeof(T), 64);
  const int64_t left_bytes =
      RoundUp(most_depth * RoundUp(std::min(kProductRows, g.m), v.tile_rows) * sizeof(T), 64);
  T* right = reinterpret_cast<T*>(scratch);
  T* left = reinterpret_cast<T*>(scratch + right_bytes);
  for (int64_t j = 0; j < g.n; j += kProductColumns) {
    const int64_t columns = std::min(kProductColumns, g.n - j);
    for (int64_t p = 0; p < g.k; p += most_depth) {
      const int64_t depth = std::min(most_depth, g.k - p);
      PackBlock(v, g, p, depth, j, columns, right, run);
      MultiplyBlock(v, g, p, depth, j, columns, right, left,
                    left_bytes / static_cast<int64_t>(sizeof(T)), run);
    }
  }
}

// Below this many multiply-adds waking a helper costs more than it saves.
constexpr int64_t kWorthSharing = 1 << 18;

}  // namespace

template <typename T>
void Gemm(const VectorKernels<T>& vector, const GemmArgs<T>& args, std::byte* scratch,
          ThreadPool& pool) {
  const bool share = pool.threads() > 1 && args.m * args.n * args.k >= kWorthSharing;
  Run(vector, args, scratch, Runner{share ? &pool : nullptr});
}

template <typename T>
void GemmSerial(const VectorKernels<T>& vector, const GemmArgs<T>& args, std::byte* scratch) {
  Run(vector, args, scratch, Runner{nullptr});
}

template void Gemm(const VectorKernels<float>&, const GemmArgs<float>&, std::byte*, ThreadPool&);
template void Gemm(const VectorKernels<double>&, const GemmArgs<double>&, std::byte*, ThreadPool&);
template void GemmSerial(const VectorKernels<float>&, const GemmArgs<float>&, std::byte*);
template void GemmSerial(const VectorKernels<double>&, const GemmArgs<double>&, std::byte*);

}  // namespace oneflow
