// Shapes of queries, keys and values, for the definitions of attention. Internal to op/.
#pragma once

#include <cmath>
#include <string>

#include "absl/status/statusor.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {

struct QkvShapes {
  Shape q, k, v;  // q[b, t, g, r, d] or q[b, t, g, d]; k, v[b, s, g, d]

  bool grouped() const { return q.rank() == 5; }
  const Dims& keys() const { return k.dims; }
};

// Shapes of the parts of a packed tensor: qkv[b, t, 3, heads, d], or qkv[b, t, g, r + 2, d] unless
// `parts_first`.
inline absl::StatusOr<QkvShapes> SplitQkv(const Tensor& qkv, bool parts_first) {
  const Shape& shape = qkv.shape;
  if (parts_first) {
    RETURN_IF_ERROR(ExpectQkv(qkv));
    const Shape part = Join(Part(shape, 0, 2), Part(shape, 3, 5));
    return QkvShapes{part, part, part};
  }
  if (shape.rank() != 5 || shape.dims[3] < 3) {
    return Mismatch(
        Describe("qkv", qkv) + " must be [batch, seq, groups, heads of a group + 2, head_dim]",
        "make it with a linear whose w is [hidden, groups, heads + 2, head_dim], or "
        "set \"parts_first\"");
  }
  const Shape group = Part(shape, 0, 3), d = Part(shape, 4, 5), kv = Join(group, d);
  return QkvShapes{Join(Join(group, Shape{shape.dims[3] - 2}), d), kv, kv};
}

// Checks that queries fit their keys and values, which are tensors of an op.
inline absl::Status ExpectQueriesAndKeys(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Dims& d = q.shape.dims;
  if (d.size() != 4 && d.size() != 5) {
    return Mismatch(Describe("q", q) +
                    " must be [batch, seq, groups, heads of a group, head_dim], or without the "
                    "fourth where each group has one head");
  }
  if (k.shape.rank() != 4) {
    return Mismatch(Describe("k", k) + " must be [batch, seq, groups, head_dim]");
  }
  RETURN_IF_ERROR(ExpectDims("k", k, {d[0], k.shape.dims[1], d[2], d.back()},
                             "as follows from " + Describe("q", q)));
  return ExpectDims("v", v, k.shape.dims, "that of " + Describe("k", k));
}

// The shape of lse for queries q: lse[b, g, r, t] or lse[b, g, t].
inline Shape LseShape(const Shape& q) {
  return Join(Join(Part(q, 0, 1), Part(q, 2, q.rank() - 1)), Part(q, 1, 2));
}

// Checks the attributes of scores: `window`, `scale` and `soft_cap` are at least 0, which stands
// for those of none.
inline absl::Status ExpectScores(const Op& op) {
  const int64_t window = AttrInt(op, "window");
  if (window < 0) {
    return Mismatch("attribute \"window\" is " + std::to_string(window),
                    "use the number of positions that a query sees, or 0 for all");
  }
  const auto expect = [&op](const char* name, const char* hint) {
    const double value = AttrDouble(op, name);
    if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
    return Mismatch("attribute \"" + std::string(name) + "\" is " + std::to_string(value), hint);
  };
  RETURN_IF_ERROR(expect("scale", "use a factor of scores, or 0 for 1 / sqrt(head_dim)"));
  return expect("soft_cap", "use the limit of scores, or 0 for none");
}

}  // namespace oneflow
