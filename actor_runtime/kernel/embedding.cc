// Tables and positions. Under sharding a device holds some rows (or columns) of a table: an id
// outside its rows gives a row of zeros, so that the sum over devices is the full result.
#include <algorithm>
#include <type_traits>

#include "absl/status/status.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// A row of a table times `scale`, as it is or as f32; zeros where `from` is null.
template <typename T, typename S, typename Y>
void PutTableRow(const VectorKernels<T, S>& v, T scale, const S* from, Y* to, int64_t width,
                 bool accumulate) {
  if (from == nullptr) {
    if (!accumulate) std::fill_n(to, width, Y{});
  } else if constexpr (std::is_same_v<S, Y>) {
    v.multiply(scale, from, to, width, accumulate);
  } else {
    v.multiply_wide(scale, from, to, width, accumulate);
  }
}

// T is the type of computation, S that of the table, Y that of the output.
template <typename T, typename S, typename Y>
Kernel EmbeddingKernel(const KernelSetup& s) {
  const Slice& table = In(s, 0).slice;
  const int64_t first = table.begin[0], rows = table.size[0], width = table.size[1];
  const int64_t tokens = Elements(In(s, 1));
  const T scale = static_cast<T>(DoubleAttr(s, "scale", 1));
  return [=, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
    const S* from = call.input<S>(0);
    const int32_t* ids = call.input<int32_t>(1);
    Y* y = call.output<Y>(0);
    ForPieces(call, tokens, RowPiece(width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = ids[i] - first;
        const bool here = row >= 0 && row < rows;
        PutTableRow(v, scale, here ? from + row * width : nullptr, y + i * width, width,
                    call.accumulate);
      }
    });
    return absl::OkStatus();
  };
}

absl::StatusOr<Kernel> MakeEmbedding(const KernelSetup& s) {
  if (In(s, 0).dtype == DType::kBF16) {
    return s.out[0].dtype == DType::kBF16 ? EmbeddingKernel<float, Bf16, Bf16>(s)
                                          : EmbeddingKernel<float, Bf16, float>(s);
  }
  return ForFloats(s, s.out[0].dtype,
                   [&]<typename T>(T) -> Kernel { return EmbeddingKernel<T, T, T>(s); });
}

// y += scale x, for at most kMostColumns. The product is rounded before the sum, on every device.
constexpr int64_t kMostColumns = 512;
template <typename T>
void AddScaled(const VectorKernels<T>& v, T scale, const T* x, T* y, int64_t n) {
  if (scale == T(1)) return v.accumulate(x, y, n);
  T products[kMostColumns];
  v.multiply(scale, x, products, n, false);
  v.accumulate(products, y, n);
}

// Rows are added in the order of tokens; threads share the columns, so no sum is split.
absl::StatusOr<Kernel> MakeEmbeddingGrad(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    const Slice& table = s.out[0].slice;
    const int64_t first = table.begin[0], rows = table.size[0], width = table.size[1];
    const int64_t tokens = Elements(In(s, 0));
    const T scale = static_cast<T>(DoubleAttr(s, "scale", 1));
    return [=, &v = *VectorFor<T>(s.isa)](const KernelCall& call) {
      const int32_t* ids = call.input<int32_t>(0);
      const T* dy = call.input<T>(1);
      T* y = call.output<T>(0);
      if (!call.accumulate) {
        ForPieces(call, rows * width, 8 * kPiece,
                  [&](int64_t begin, int64_t end) { std::fill(y + begin, y + end, T(0)); });
      }
      ForPieces(call, width, ColumnPiece(width), [&](int64_t begin, int64_t end) {
        for (int64_t i = 0; i < tokens; ++i) {
          const int64_t row = ids[i] - first;
          if (row < 0 || row >= rows) continue;
          AddScaled(v, scale, dy + i * width + begin, y + row * width + begin, end - begin);
        }
      });
      return absl::OkStatus();
    };
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

absl::StatusOr<Kernel> MakePositionalEmbedding(const KernelSetup& s) {
  const absl::StatusOr<PositionMap> map = MapPositions(s, In(s, 0).slice, In(s, 1).slice);
  if (!map.ok()) return map.status();
  if (map->length > 0 && (map->first_row < 0 || map->first_row + map->length > map->rows)) {
    return absl::InternalError(s.name + ": the table's piece has not got the positions of x");
  }
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    return [m = *map, &v = *VectorFor<T>(s.isa)](const KernelCall& call) {
      const T *x = call.input<T>(0), *table = call.input<T>(1);
      T* y = call.output<T>(0);
      ForPieces(call, m.batch * m.length, RowPiece(m.width), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = table + (m.first_row + i % m.length) * m.table_width + m.first_column;
          v.add(x + i * m.width, row, y + i * m.width, m.width, call.accumulate);
        }
      });
      return absl::OkStatus();
    };
  });
}

// Position p of x takes row position + p of the table; positions past its end take the last row.
absl::StatusOr<Kernel> MakePositionalEmbeddingAt(const KernelSetup& s) {
  const absl::StatusOr<PositionMap> map = MapPositions(s, In(s, 0).slice, In(s, 1).slice);
  if (!map.ok()) return map.status();
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    return [m = *map, name = s.name,
            &v = *VectorFor<T>(s.isa)](const KernelCall& call) -> absl::Status {
      const T *x = call.input<T>(0), *table = call.input<T>(1);
      const int64_t position = *call.input<int32_t>(2);
      if (position < 0 || position >= m.rows) {
        return InputError(name, "position " + std::to_string(position) +
                                    " is outside of a table of " + std::to_string(m.rows));
      }
      T* y = call.output<T>(0);
      ForPieces(call, m.batch * m.length, RowPiece(m.width), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = std::min(position + i % m.length, m.rows - 1);
          const T* row = table + at * m.table_width + m.first_column;
          v.add(x + i * m.width, row, y + i * m.width, m.width, call.accumulate);
        }
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakePositionalEmbeddingGrad(const KernelSetup& s) {
  const absl::StatusOr<PositionMap> map = MapPositions(s, In(s, 0).slice, s.out[0].slice);
  if (!map.ok()) return map.status();
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    return [m = *map, &v = *VectorFor<T>(s.isa)](const KernelCall& call) {
      const T* dy = call.input<T>(0);
      T* table = call.output<T>(0);
      ForPieces(call, m.rows, RowPiece(m.table_width), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          T* row = table + r * m.table_width;
          if (!call.accumulate) std::fill_n(row, m.table_width, T(0));
          const int64_t position = r - m.first_row;
          if (position < 0 || position >= m.length) continue;
          for (int64_t b = 0; b < m.batch; ++b) {
            v.accumulate(dy + (b * m.length + position) * m.width, row + m.first_column, m.width);
          }
        }
      });
      return absl::OkStatus();
    };
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

}  // namespace oneflow
