#include "oneflow_core/op/linear_row_stats_dims.h"

#include <algorithm>

#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

}  // namespace

int64_t UsualLogitRows(int64_t width, int64_t element_bytes) {
  return std::max(kLogitRows, RoundUp(width / element_bytes, kLogitRows));
}

LogitPieces FindLogitPieces(const LocalOp& op) {
  const Dims &x = op.in[0], &w = op.in[1];
  const auto element_bytes = static_cast<int64_t>(ElementBytes(op.dtype));
  LogitPieces p{.rows = CountElements(x, 0, static_cast<int>(x.size()) - 1),
                .width = x.back(),
                .vocab = w[0]};
  const int64_t pieces = AttrInt(op, "pieces");
  const int64_t of_piece = pieces > 0 ? (p.rows + pieces - 1) / pieces  //
                                      : UsualLogitRows(p.width, element_bytes);
  p.of_piece = std::min(p.rows, RoundUp(of_piece, kLogitRows));
  p.logit_bytes = RoundUp(p.of_piece * p.vocab * element_bytes, 64);
  return p;
}

int64_t LogitProductWorkspace(const LogitPieces& p) {
  if (p.Empty()) return 0;
  return std::max({ProductWorkspace(p.of_piece, p.vocab, p.width),
                   ProductWorkspace(p.of_piece, p.width, p.vocab),
                   ProductWorkspace(p.vocab, p.width, p.of_piece)});
}

}  // namespace oneflow
