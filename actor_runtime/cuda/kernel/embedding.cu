// Tables and positions. Under sharding a device holds some rows (or columns) of a table: an id
// outside its rows gives a row of zeros, so that the sum over devices is the full result.

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/map.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kPack = PackSize<float>();

// A piece of a table, and the tokens that look into it.
struct TableSizes {
  int64_t first, rows, width;  // of the piece
  int64_t tokens;
  float scale;  // of what it gives, and of the gradient
};

// S is the type of the table, Y that of the rows it gives.
template <int kSize, typename S, typename Y>
__global__ void __launch_bounds__(kThreads)
    EmbeddingKernel(TableSizes s, bool accumulate, Y* y, const S* table, const int32_t* ids) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= s.tokens * s.width) return;
  const int64_t row = ids[i / s.width] - s.first;
  Floats<kSize> values{};
  if (row >= 0 && row < s.rows) values = LoadPack<kSize>(table + row * s.width + i % s.width);
#pragma unroll
  for (int j = 0; j < kSize; ++j) values.at[j] *= s.scale;
  PutPack<kSize>(y + i, values, accumulate);
}

// Ids that a block looks through at a time, a pack of them a thread.
constexpr int kIds = 4, kScan = kThreads * kIds;

// The positions of an id: bit l of at[i][w] for id 4 (32 w + l) + i of the scanned ids.
struct FoundIds {
  unsigned at[kIds][kThreads / kWarp];

  __device__ bool IsAny() const {
    unsigned any = 0;
    for (int w = 0; w < kThreads / kWarp; ++w) any |= Any(w);
    return any != 0;
  }
  // Threads of warp w that found one at least.
  __device__ unsigned Any(int w) const { return at[0][w] | at[1][w] | at[2][w] | at[3][w]; }
};

// Finds which of ids [begin, begin + kScan) below `end` equal `id`; `begin` is a multiple of kIds.
// Every thread of the block calls it; all of them see the result.
__device__ inline void FindIds(const int32_t* ids, int64_t begin, int64_t end, int32_t id,
                               FoundIds& found) {
  const int64_t first = begin + static_cast<int64_t>(threadIdx.x) * kIds;
  bool same[kIds];
  if (first + kIds <= end) {
    const auto pack = *reinterpret_cast<const Pack<int32_t, kIds>*>(ids + first);
#pragma unroll
    for (int i = 0; i < kIds; ++i) same[i] = pack.at[i] == id;
  } else {
#pragma unroll
    for (int i = 0; i < kIds; ++i) same[i] = first + i < end && ids[first + i] == id;
  }
  __syncthreads();  // The last result has been read.
#pragma unroll
  for (int i = 0; i < kIds; ++i) {
    const unsigned lanes = __ballot_sync(kAllLanes, same[i]);
    if (LaneIndex() == 0) found.at[i][WarpIndex()] = lanes;
  }
  __syncthreads();
}

// A block is a token and kThreads packs of columns. The first token of its id adds up the rows of
// all that have it, in the order of tokens; the blocks of the others end where they see the first.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    EmbeddingGradKernel(TableSizes s, bool accumulate, float* table, const int32_t* ids,
                        const float* dy) {
  __shared__ FoundIds found;
  const int64_t token = blockIdx.x;
  const int32_t id = ids[token];
  const int64_t row = id - s.first;
  if (row < 0 || row >= s.rows) return;
  for (int64_t begin = 0; begin < token; begin += kScan) {
    FindIds(ids, begin, token, id, found);
    if (found.IsAny()) return;
  }
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * kSize;
  const bool here = column < s.width;
  float* to = table + row * s.width + column;
  Floats<kSize> sum{};
  if (here && accumulate) sum = LoadPack<kSize>(to);
  // No token before this one has its id.
  for (int64_t begin = token / kIds * kIds; begin < s.tokens; begin += kScan) {
    FindIds(ids, begin, s.tokens, id, found);
    for (int w = 0; w < kThreads / kWarp && here; ++w) {
      for (unsigned rest = found.Any(w); rest != 0; rest &= rest - 1) {
        const int lane = __ffs(static_cast<int>(rest)) - 1;
        for (int i = 0; i < kIds; ++i) {
          if ((found.at[i][w] >> lane & 1) == 0) continue;
          const int64_t same = begin + (w * kWarp + lane) * kIds + i;
          const Floats<kSize> term = LoadPack<kSize>(dy + same * s.width + column);
          // The product is rounded before the sum, on every device.
#pragma unroll
          for (int j = 0; j < kSize; ++j) sum.at[j] += __fmul_rn(s.scale, term.at[j]);
        }
      }
    }
  }
  if (here) StorePack<kSize>(to, sum);
}

TableSizes FindTableSizes(const KernelSetup& s, const Slice& table, int64_t tokens) {
  return {table.begin[0], table.size[0], table.size[1], tokens,
          static_cast<float>(DoubleAttr(s, "scale", 1))};
}

absl::StatusOr<Kernel> MakeEmbedding(const KernelSetup& s) {
  const Slice& table = In(s, 0).slice;
  const TableSizes sizes = FindTableSizes(s, table, Elements(In(s, 1)));
  return ForStoredAs(s, In(s, 0).dtype, s.out[0].dtype, [&]<typename S, typename Y>(S, Y) {
    return ForPacks<kPack>(sizes.width, [&]<int kSize>(Size<kSize>) {
      return Kernel([s = sizes](const KernelCall& call) {
        const int64_t n = s.tokens * s.width;
        if (n == 0) return absl::OkStatus();
        return Launch("embedding", &EmbeddingKernel<kSize, S, Y>, ElementsShape(n, kSize),
                      FindStream(call), s, call.accumulate, call.output<Y>(0), call.input<S>(0),
                      call.input<int32_t>(1));
      });
    });
  });
}

absl::StatusOr<Kernel> MakeEmbeddingGrad(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  const Slice& table = s.out[0].slice;
  const TableSizes sizes = FindTableSizes(s, table, Elements(In(s, 0)));
  return ForPacks<kPack>(sizes.width, [&]<int kSize>(Size<kSize>) {
    return Kernel([s = sizes](const KernelCall& call) -> absl::Status {
      float* y = call.output<float>(0);
      if (!call.accumulate) {
        RETURN_IF_ERROR(Map(call, "embedding_grad", Zero(), s.rows * s.width, y));
      }
      if (s.tokens == 0 || s.rows * s.width == 0) return absl::OkStatus();
      LaunchShape shape{MakeGrid(s.tokens), dim3(kThreads)};
      shape.grid.y = static_cast<unsigned>(DivideUp(s.width, kThreads * kSize));
      return Launch("embedding_grad", &EmbeddingGradKernel<kSize>, shape, FindStream(call), s,
                    call.accumulate, y, call.input<int32_t>(0), call.input<float>(1));
    });
  });
}

// The positions and columns of an x[b, t, H] slice in a piece of a table[T, H].
struct PositionMap {
  int64_t batch, length, width;  // of the slice of x
  int64_t first_row, rows;       // table row of position 0 of the slice; rows of the piece
  int64_t first_column, table_width;
};

absl::StatusOr<PositionMap> MapPositions(const KernelSetup& s, const Slice& x, const Slice& table) {
  PositionMap m{.batch = x.size[0],
                .length = x.size[1],
                .width = x.size[2],
                .first_row = x.begin[1] - table.begin[0],
                .rows = table.size[0],
                .first_column = x.begin[2] - table.begin[1],
                .table_width = table.size[1]};
  if (m.width > 0 && (m.first_column < 0 || m.first_column + m.width > m.table_width)) {
    return absl::InternalError(s.name + ": the table's piece has not got the columns of the other");
  }
  return m;
}

// fn(Size<kSize>()) with packs if the rows of both are multiples of a pack.
template <typename Fn>
auto ForColumns(const PositionMap& m, Fn fn) {
  return ForPacks<kPack>(m.width | m.first_column | m.table_width, fn);
}

// Position p takes row at + p, past the table's end the last one. `position`: on the device, what
// `at` is then; null: m.first_row. A position outside of the table cannot be refused from here, and
// shows as numbers that are none.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    PositionalKernel(PositionMap m, bool accumulate, float* y, const float* x, const float* table,
                     const int32_t* position) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= m.batch * m.length * m.width) return;
  const int64_t at = position == nullptr ? m.first_row : static_cast<int64_t>(*position);
  const int64_t c = i % m.width, p = i / m.width % m.length;
  Floats<kSize> sum = LoadPack<kSize>(x + i);
  if (at >= 0 && at < m.rows) {
    const int64_t row = at + p < m.rows ? at + p : m.rows - 1;
    const Floats<kSize> term = LoadPack<kSize>(table + row * m.table_width + m.first_column + c);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum.at[j] += term.at[j];
  } else {
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum.at[j] = NAN;
  }
  PutPack<kSize>(y + i, sum, accumulate);
}

template <int kSize>
__global__ void __launch_bounds__(kThreads)
    PositionalGradKernel(PositionMap m, bool accumulate, float* table, const float* dy) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= m.rows * m.table_width) return;
  const int64_t p = i / m.table_width - m.first_row, c = i % m.table_width - m.first_column;
  Floats<kSize> sum{};
  if (accumulate) sum = LoadPack<kSize>(table + i);
  if (p >= 0 && p < m.length && c >= 0 && c < m.width) {
    for (int64_t b = 0; b < m.batch; ++b) {
      const Floats<kSize> term = LoadPack<kSize>(dy + (b * m.length + p) * m.width + c);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sum.at[j] += term.at[j];
    }
  }
  StorePack<kSize>(table + i, sum);
}

absl::StatusOr<Kernel> Positional(const KernelSetup& s, const PositionMap& map, bool has_position) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  return ForColumns(map, [&]<int kSize>(Size<kSize>) {
    return Kernel([m = map, has_position](const KernelCall& call) {
      const int64_t n = m.batch * m.length * m.width;
      if (n == 0) return absl::OkStatus();
      return Launch("positional_embedding", &PositionalKernel<kSize>, ElementsShape(n, kSize),
                    FindStream(call), m, call.accumulate, call.output<float>(0),
                    call.input<float>(0), call.input<float>(1),
                    has_position ? call.input<int32_t>(2) : nullptr);
    });
  });
}

absl::StatusOr<Kernel> MakePositionalEmbedding(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const PositionMap map, MapPositions(s, In(s, 0).slice, In(s, 1).slice));
  if (map.length > 0 && (map.first_row < 0 || map.first_row + map.length > map.rows)) {
    return absl::InternalError(s.name + ": the table's piece has not got the positions of x");
  }
  return Positional(s, map, /*has_position=*/false);
}

absl::StatusOr<Kernel> MakePositionalEmbeddingAt(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const PositionMap map, MapPositions(s, In(s, 0).slice, In(s, 1).slice));
  return Positional(s, map, /*has_position=*/true);
}

absl::StatusOr<Kernel> MakePositionalEmbeddingGrad(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  ASSIGN_OR_RETURN(const PositionMap map, MapPositions(s, In(s, 0).slice, s.out[0].slice));
  return ForColumns(map, [&]<int kSize>(Size<kSize>) {
    return Kernel([m = map](const KernelCall& call) {
      const int64_t n = m.rows * m.table_width;
      if (n == 0) return absl::OkStatus();
      return Launch("positional_embedding_grad", &PositionalGradKernel<kSize>,
                    ElementsShape(n, kSize), FindStream(call), m, call.accumulate,
                    call.output<float>(0), call.input<float>(0));
    });
  });
}

}  // namespace

KernelTable EmbeddingTable() {
  return {{"embedding", MakeEmbedding},
          {"embedding_grad", MakeEmbeddingGrad},
          {"positional_embedding", MakePositionalEmbedding},
          {"positional_embedding_at", MakePositionalEmbeddingAt},
          {"positional_embedding_grad", MakePositionalEmbeddingGrad}};
}

}  // namespace oneflow::cuda
