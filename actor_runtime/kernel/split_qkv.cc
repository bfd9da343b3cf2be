// Copies of queries, keys and values out of a packed qkv, and back. A task is some positions.
#include <algorithm>
#include <array>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/qkv_strides.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// The runs of contiguous elements that a position has in qkv, `runs` of each part.
struct PackedRows {
  int64_t positions, row;  // elements from one position to the next
  int64_t runs, apart;     // in qkv, from one run of a part to the next
  std::array<int64_t, 3> offset, length;

  // copy(in qkv, part, in the part, elements) for each run of positions [begin, end).
  template <typename Copy>
  void ForRuns(int64_t begin, int64_t end, Copy copy) const {
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t run = 0; run < runs; ++run) {
        for (int part = 0; part < 3; ++part) {
          copy(p * row + run * apart + offset[part], part, (p * runs + run) * length[part],
               length[part]);
        }
      }
    }
  }
};

PackedRows FindRows(const KernelSetup& s, const Dims& qkv) {
  const bool parts_first = BoolAttr(s, "parts_first");
  const QkvSizes n = PackedSizes(qkv, parts_first);
  const QkvStrides strides = PackedStrides(n, parts_first);
  PackedRows rows{n.b * n.t, strides.row[0], n.g, strides.group[0], strides.offset, {}};
  rows.length = {n.r * n.d, n.d, n.d};
  if (parts_first) {  // all heads of a part are side by side
    rows.runs = 1;
    rows.length = {n.g * n.d, n.g * n.d, n.g * n.d};
  }
  return rows;
}

template <typename T, typename S>
void CopyRun(const S* from, S* to, int64_t n, bool accumulate) {
  if (!accumulate) {
    std::copy_n(from, n, to);
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = Rounded<S>(T(Widen(to[i])) + T(Widen(from[i])));
}

absl::StatusOr<Kernel> MakeSplitQkv(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = FindRows(s, In(s, 0).local())](const KernelCall& call) {
      ForPieces(call, r.positions, RowPiece(r.row), [&](int64_t begin, int64_t end) {
        const S* qkv = call.input<S>(0);
        r.ForRuns(begin, end, [&](int64_t packed, int part, int64_t at, int64_t n) {
          CopyRun<T>(qkv + packed, call.output<S>(part) + at, n, call.accumulate);
        });
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeJoinQkv(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = FindRows(s, s.out[0].local())](const KernelCall& call) {
      ForPieces(call, r.positions, RowPiece(r.row), [&](int64_t begin, int64_t end) {
        S* qkv = call.output<S>(0);
        r.ForRuns(begin, end, [&](int64_t packed, int part, int64_t at, int64_t n) {
          CopyRun<T>(call.input<S>(part) + at, qkv + packed, n, call.accumulate);
        });
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable SplitQkvTable() { return {{"join_qkv", MakeJoinQkv}, {"split_qkv", MakeSplitQkv}}; }

}  // namespace oneflow
