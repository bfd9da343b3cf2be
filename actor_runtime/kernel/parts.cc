// Parts of a tensor along a dimension, taken and joined: copies of runs.
#include <algorithm>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/part_rows.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// copy(part, all) for each run of part `index`: the element where it begins in the part, and in
// the tensor with all parts.
template <typename Copy>
void CopyRuns(const KernelCall& call, const PartRows& p, int64_t index, Copy copy) {
  if (p.run == 0) return;
  ForPieces(call, p.rows, RowPiece(p.run), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      copy(row * p.run, (row * p.parts + index) * p.run);
    }
  });
}

absl::StatusOr<Kernel> MakeTake(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename S>(auto, S) -> Kernel {
    return [p = FindPartRows(s, In(s, 0), IntAttr(s, "parts")),
            index = IntAttr(s, "index")](const KernelCall& call) {
      const S* x = call.input<S>(0);
      S* y = call.output<S>(0);
      CopyRuns(call, p, index,
               [&](int64_t part, int64_t all) { std::copy_n(x + all, p.run, y + part); });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeJoin(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename S>(auto, S) -> Kernel {
    const auto parts = static_cast<int64_t>(s.in.size());
    return [p = FindPartRows(s, s.out[0], parts)](const KernelCall& call) {
      S* y = call.output<S>(0);
      for (int64_t i = 0; i < p.parts; ++i) {
        const S* x = call.input<S>(static_cast<int>(i));
        CopyRuns(call, p, i,
                 [&](int64_t part, int64_t all) { std::copy_n(x + part, p.run, y + all); });
      }
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable PartsTable() { return {{"join_parts", MakeJoin}, {"take_part", MakeTake}}; }

}  // namespace oneflow
