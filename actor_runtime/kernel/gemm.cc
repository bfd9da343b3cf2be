#include "actor_runtime/kernel/gemm.h"

#include <algorithm>

#include <glog/logging.h>

#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

int64_t DivUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return DivUp(a, b) * b; }

// The size of parts that split n evenly, in multiples of `unit`, `most` at most (but one unit).
int64_t EvenPart(int64_t n, int64_t most, int64_t unit) {
  const int64_t units = DivUp(n, unit);
  return DivUp(units, DivUp(units, std::max<int64_t>(1, most / unit))) * unit;
}

// A product is split into blocks c[rows, columns] += a[rows, depth] b[depth, columns]. `depth`, a
// function of k and the type, fixes the order of sums; the other sizes change no bits.
struct BlockSizes {
  int64_t rows, columns, depth;
};

template <typename T>
BlockSizes SizesFor(const ProductKernels<T>& p, int64_t m, int64_t n, int64_t k, bool rounded) {
  const int64_t words = EvenPart(DivUp(k, p.word_depth), kProductDepthBytes / p.word_bytes, 1);
  const int64_t most = kProductBlockBytes / (words * p.word_bytes);  // lanes
  BlockSizes s{
      .rows = 0, .columns = EvenPart(n, most, p.tile_columns), .depth = words * p.word_depth};
  int64_t most_rows = most;
  if (rounded && s.depth < k) {  // the sums of a block wait in the workspace
    const int64_t row_bytes = s.columns * static_cast<int64_t>(sizeof(SumType<T>));
    most_rows = std::min(most, kProductBlockBytes / row_bytes);
  }
  s.rows = EvenPart(m, most_rows, p.tile_rows);
  return s;
}

// Rows and columns of a task of a block product.
struct TaskSizes {
  int64_t rows, columns;
};

// Both operands of a task stay in the second-level cache.
constexpr int64_t kTaskBytes = 600 << 10;
// Tasks for each thread, at least: so a late thread costs little.
constexpr int64_t kTasksPerThread = 24;

// Results do not depend on tasks, so they may depend on threads.
template <typename T>
TaskSizes TasksFor(const ProductKernels<T>& p, int64_t rows, int64_t columns, int64_t lane_bytes,
                   int threads) {
  const int64_t most = kTaskBytes / 2 / lane_bytes;  // lanes
  TaskSizes s{EvenPart(rows, most, p.tile_rows), EvenPart(columns, most, p.tile_columns)};
  if (threads == 1) return s;
  while (DivUp(rows, s.rows) * DivUp(columns, s.columns) < kTasksPerThread * threads) {
    if (s.columns >= s.rows && s.columns > p.tile_columns) {
      s.columns = RoundUp(s.columns / 2, p.tile_columns);
    } else if (s.rows > p.tile_rows) {
      s.rows = RoundUp(s.rows / 2, p.tile_rows);
    } else {
      break;
    }
  }
  return s;
}

// Runs tasks on a pool, or here.
struct Runner {
  ThreadPool* pool;
  int threads() const { return pool == nullptr ? 1 : pool->threads(); }
  template <typename F>
  void operator()(int64_t tasks, F fn) const {
    if (pool != nullptr) {
      return pool->ParallelFor(static_cast<int>(tasks), [&](int task, int) { fn(task); });
    }
    for (int64_t t = 0; t < tasks; ++t) fn(t);
  }
};

// An operand is read in place only if its rows are at most this far apart; else it is packed. Rows
// farther apart touch too many pages, and many strides map to few sets of the first-level cache:
// 3,072 bytes to 4 of 64, which halves the rate of an Intel Ice Lake. Packing costs an AMD Zen 4 up
// to 3 %.
constexpr int64_t kNearBytes = 1024;

// One operand of a product: its lanes (rows of a, columns of b) are packed block by block, or read
// in place.
template <typename T>
struct Operand {
  Strided<T> from;  // element (lane, k)
  typename ProductKernels<T>::Pack pack;
  int tile;  // lanes of a panel
  int word_depth, word_bytes;
  bool in_place = false;
  std::byte* packed = nullptr;  // room for a block

  // True if the inner loops can read all of this operand, `lanes` x `depth`, in place: word after
  // word, `step` lanes side by side, or, if `rows`, also lane after lane.
  bool CanStay(int64_t lanes, int64_t depth, int step, bool rows) const {
    if (lanes % step != 0 || depth % word_depth != 0) return false;
    const bool fits = from.row == 1 ? word_depth == 1 : rows && from.row % word_depth == 0;
    const int64_t stride = std::max(from.row, from.col) * static_cast<int64_t>(sizeof(T));
    return fits && stride <= kNearBytes;
  }
  int64_t Words(int64_t depth) const { return DivUp(depth, word_depth); }

  // Packs lanes from `lane` on, which is number `at` of the block.
  void PackLanes(int64_t lane, int64_t at, int64_t lanes, int64_t k, int64_t depth) const {
    pack(from.At(lane, k), lanes, depth, packed + at * Words(depth) * word_bytes);
  }
  // The view of those lanes that the inner loops read.
  Panels View(int64_t lane, int64_t at, int64_t k, int64_t depth) const {
    const int64_t words = Words(depth);
    if (!in_place) return {packed + at * words * word_bytes, tile * words, 1, tile};
    const auto* data = reinterpret_cast<const std::byte*>(from.At(lane, k).data);
    if (from.row == 1) return {data, tile, 1, from.col};
    return {data, tile * from.row / word_depth, from.row / word_depth, 1};
  }
};

template <typename T, typename C>
void Finish(const GemmArgs<T, C>& g, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) (*g.finished)(row + i, column, columns);
}

template <typename T, typename C>
struct BlockedProduct {
  using Sum = SumType<T>;
  static constexpr bool kRounded = !std::is_same_v<C, Sum>;

  struct Block {
    int64_t row, rows, column, columns, k, depth;
  };

  const ProductKernels<T>& p;
  const GemmArgs<T, C>& g;
  const Runner& run;
  const BlockSizes size;
  Operand<T> left, right;
  Sum* sums;  // of a block, if c cannot hold them

  BlockedProduct(const ProductKernels<T>& kernels, const GemmArgs<T, C>& args, std::byte* scratch,
                 const Runner& runner)
      : p(kernels),
        g(args),
        run(runner),
        size(SizesFor(p, g.m, g.n, g.k, kRounded)),
        left{g.a, p.pack_a, p.tile_rows, p.word_depth, p.word_bytes},
        right{g.b.Transposed(), p.pack_b, p.tile_columns, p.word_depth, p.word_bytes} {
    const int64_t lane_bytes = DivUp(size.depth, p.word_depth) * p.word_bytes;
    left.in_place = left.CanStay(g.m, g.k, p.tile_rows, true);
    right.in_place = right.CanStay(g.n, g.k, p.column_step, false);
    left.packed = scratch;
    right.packed = left.packed + RoundUp(size.rows * lane_bytes, 64);
    sums = reinterpret_cast<Sum*>(right.packed + RoundUp(size.columns * lane_bytes, 64));
  }

  void Run() const {
    // True if a packed block serves for all columns, or for all rows.
    const bool keep_right = size.depth >= g.k, keep_left = keep_right && size.rows >= g.m;
    for (int64_t j = 0; j < g.n; j += size.columns) {
      for (int64_t i = 0; i < g.m; i += size.rows) {
        for (int64_t k = 0; k < g.k; k += size.depth) {
          const Block b{i, std::min(size.rows, g.m - i), j, std::min(size.columns, g.n - j),
                        k, std::min(size.depth, g.k - k)};
          Pack(b, !left.in_place && (j == 0 || !keep_left),
               !right.in_place && (i == 0 || !keep_right));
          Multiply(b);
        }
      }
    }
  }

  // Packs the operands of a block, some panels a task.
  void Pack(const Block& b, bool pack_left, bool pack_right) const {
    constexpr int64_t kLanes = 96;
    const int64_t rows = RoundUp(kLanes, p.tile_rows), columns = RoundUp(kLanes, p.tile_columns);
    const int64_t left_tasks = pack_left ? DivUp(b.rows, rows) : 0;
    const int64_t right_tasks = pack_right ? DivUp(b.columns, columns) : 0;
    run(left_tasks + right_tasks, [&](int64_t task) {
      if (task < left_tasks) {
        const int64_t i = task * rows;
        left.PackLanes(b.row + i, i, std::min(rows, b.rows - i), b.k, b.depth);
      } else {
        const int64_t j = (task - left_tasks) * columns;
        right.PackLanes(b.column + j, j, std::min(columns, b.columns - j), b.k, b.depth);
      }
    });
  }

  void Multiply(const Block& b) const {
    const int64_t words = DivUp(b.depth, p.word_depth);
    const TaskSizes task_size = TasksFor(p, b.rows, b.columns, words * p.word_bytes, run.threads());
    // Row after row: a thread's share is rows, which the loops before and after give it, too.
    const int64_t column_tasks = DivUp(b.columns, task_size.columns);
    run(DivUp(b.rows, task_size.rows) * column_tasks, [&](int64_t task) {
      const int64_t i = task / column_tasks * task_size.rows;
      const int64_t j = task % column_tasks * task_size.columns;
      const int64_t rows = std::min(task_size.rows, b.rows - i);
      const int64_t columns = std::min(task_size.columns, b.columns - j);
      p.multiply(left.View(b.row + i, i, b.k, b.depth), right.View(b.column + j, j, b.k, b.depth),
                 rows, columns, words, MakeTarget(b, i, j));
      if (g.finished && IsLast(b)) Finish(g, b.row + i, rows, b.column + j, columns);
    });
  }

  // True if the sums are complete after this block.
  bool IsLast(const Block& b) const { return b.k + b.depth == g.k; }

  // For the part of a block at (row, column).
  ProductTarget<Sum> MakeTarget(const Block& b, int64_t row, int64_t column) const {
    const bool last = IsLast(b);
    ProductTarget<Sum> to{.add = b.k > 0 || g.accumulate};
    if (last && g.bias != nullptr) to.bias = g.bias + b.column + column;
    C* c = g.c + (b.row + row) * g.c_row + b.column + column;
    if constexpr (kRounded) {
      to.sums = sums + row * size.columns + column;
      to.sums_row = size.columns;
      to.rounded = last ? c : nullptr;
      to.rounded_row = g.c_row;
    } else {
      to.sums = c;
      to.sums_row = g.c_row;
    }
    return to;
  }
};

// A product of few rows takes as long as reading b, which is therefore read in place. Blocks have
// the same depth as those of other products, and so the same bits.
template <typename T, typename C>
class FewRowsProduct {
 public:
  FewRowsProduct(const ProductKernels<T>& kernels, const GemmArgs<T, C>& args, std::byte* scratch,
                 const Runner& runner)
      : p_(kernels),
        g_(args),
        run_(runner),
        depth_(SizesFor(kernels, g_.m, g_.n, g_.k, kRounded).depth),
        sums_(reinterpret_cast<Sum*>(scratch)) {}

  void Run() const {
    const int64_t most = kProductBlockBytes / static_cast<int64_t>(sizeof(Sum)) / g_.m;
    const int64_t width = kRounded ? EvenPart(g_.n, most, p_.tile_columns) : g_.n;
    for (int64_t j = 0; j < g_.n; j += width) RunColumns(j, std::min(width, g_.n - j));
  }

 private:
  using Sum = SumType<T>;
  static constexpr bool kRounded = !std::is_same_v<C, Sum>;
  // Tasks for each thread, of equal sizes: so a late thread costs less, unless columns are so few
  // that memory is read in short runs.
  static constexpr int64_t kTasks = 4, kLongRun = 256;
  static constexpr int64_t kMost = 1024;  // columns of a task
  static constexpr int64_t kLine = 32;    // columns, so that threads share no line of a cache

  // The sums of so many columns fit the workspace.
  void RunColumns(int64_t first, int64_t columns) const {
    const int64_t threads = run_.threads();
    const int64_t each = std::clamp<int64_t>(columns / (threads * kLongRun), 1, kTasks);
    const int64_t tasks = std::max(each * threads, DivUp(columns, kMost));
    const int64_t width = RoundUp(DivUp(columns, tasks), kLine);
    run_(DivUp(columns, width), [&](int64_t task) {
      const int64_t j = task * width, n = std::min(width, columns - j);
      for (int64_t k = 0; k < g_.k; k += depth_) {
        p_.multiply_few(g_.a.At(0, k), g_.b.At(k, first + j), g_.m, n, std::min(depth_, g_.k - k),
                        MakeTarget(k, first + j, sums_ + j, columns));
      }
      if (g_.finished) Finish(g_, 0, g_.m, first + j, n);
    });
  }

  ProductTarget<Sum> MakeTarget(int64_t k, int64_t column, Sum* sums, int64_t sums_row) const {
    const bool last = k + depth_ >= g_.k;
    ProductTarget<Sum> to{.add = k > 0 || g_.accumulate};
    if (last && g_.bias != nullptr) to.bias = g_.bias + column;
    if constexpr (kRounded) {
      to.sums = sums;
      to.sums_row = sums_row;
      to.rounded = last ? g_.c + column : nullptr;
      to.rounded_row = g_.c_row;
    } else {
      to.sums = g_.c + column;
      to.sums_row = g_.c_row;
    }
    return to;
  }

  const ProductKernels<T>& p_;
  const GemmArgs<T, C>& g_;
  const Runner& run_;
  const int64_t depth_;
  Sum* const sums_;  // if c cannot hold them
};

// A sum of nothing.
template <typename T, typename C>
void PutEmptySums(const GemmArgs<T, C>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      C& c = g.c[i * g.c_row + j];
      const auto bias = g.bias == nullptr ? 0 : g.bias[j];
      if constexpr (std::is_same_v<C, Bf16>) {
        c = ToBf16(bias);
      } else {
        c = (g.accumulate ? c : 0) + bias;
      }
    }
  }
}

template <typename T, typename C>
void Run(const ProductKernels<T>& kernels, const GemmArgs<T, C>& args, std::byte* scratch,
         const Runner& run) {
  CHECK(!args.accumulate || !(std::is_same_v<C, Bf16>)) << "only sums accumulate";
  if (args.m == 0 || args.n == 0) return;
  if (args.k == 0) {
    PutEmptySums(args);
    if (args.finished) Finish(args, 0, args.m, 0, args.n);
    return;
  }
  if (args.m <= kFewRows) return FewRowsProduct<T, C>(kernels, args, scratch, run).Run();
  BlockedProduct<T, C>(kernels, args, scratch, run).Run();
}

// Below this many multiply-adds, waking another thread costs more than it saves.
constexpr int64_t kWorthSharing = 1 << 18;

}  // namespace

template <typename T, typename C>
void Gemm(const ProductKernels<T>& kernels, const GemmArgs<T, C>& args, std::byte* scratch,
          ThreadPool& pool) {
  const bool share = pool.threads() > 1 && args.m * args.n * args.k >= kWorthSharing;
  Run(kernels, args, scratch, Runner{share ? &pool : nullptr});
}

template <typename T, typename C>
void GemmSerial(const ProductKernels<T>& kernels, const GemmArgs<T, C>& args, std::byte* scratch) {
  Run(kernels, args, scratch, Runner{nullptr});
}

#define ONEFLOW_GEMM(T, C)                                                                      \
  template void Gemm(const ProductKernels<T>&, const GemmArgs<T, C>&, std::byte*, ThreadPool&); \
  template void GemmSerial(const ProductKernels<T>&, const GemmArgs<T, C>&, std::byte*);
ONEFLOW_GEMM(float, float)
ONEFLOW_GEMM(double, double)
ONEFLOW_GEMM(Bf16, float)
ONEFLOW_GEMM(Bf16, Bf16)
#undef ONEFLOW_GEMM

}  // namespace oneflow
