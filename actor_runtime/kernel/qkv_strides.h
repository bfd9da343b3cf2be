// Where the queries, keys and values of a group of heads are: in tensors of their own, q[b, t, g,
// r, d], k[b, s, g, d] and v[b, s, g, d], or packed in one, qkv[b, t, 3, g, d] (parts first) or
// qkv[b, t, g, r + 2, d]. The r query heads of a group are side by side everywhere. Internal to
// kernel/ and cuda/kernel/.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {

// Samples, queries, keys, groups, query heads of a group, width of a head.
struct QkvSizes {
  int64_t b, t, s, g, r, d;
};

// The factor of scores of heads of width d, from the attribute `scale`.
template <typename T>
T FindScale(double attribute, int64_t d) {
  return attribute == 0 ? T(1) / std::sqrt(T(d)) : T(attribute);
}

// Of queries (0), keys (1) and values (2): the first element, and elements from one sample,
// position or group to the next.
struct QkvStrides {
  std::array<int64_t, 3> offset, sample, row, group;

  int64_t At(int part, int64_t of_sample, int64_t of_group) const {
    return offset[part] + of_sample * sample[part] + of_group * group[part];
  }
};

// `q` of 5 dimensions, or of 4 where a group has one head.
inline QkvSizes SeparateSizes(const Dims& q, const Dims& k) {
  return {q[0], q[1], k[1], q[2], q.size() == 5 ? q[3] : 1, q.back()};
}
inline QkvSizes PackedSizes(const Dims& qkv, bool parts_first) {
  return parts_first ? QkvSizes{qkv[0], qkv[1], qkv[1], qkv[3], 1, qkv[4]}
                     : QkvSizes{qkv[0], qkv[1], qkv[1], qkv[2], qkv[3] - 2, qkv[4]};
}

inline QkvStrides SeparateStrides(const QkvSizes& n) {
  const int64_t q = n.g * n.r * n.d, kv = n.g * n.d;
  return {{0, 0, 0}, {n.t * q, n.s * kv, n.s * kv}, {q, kv, kv}, {n.r * n.d, n.d, n.d}};
}
inline QkvStrides PackedStrides(const QkvSizes& n, bool parts_first) {
  const int64_t group = parts_first ? n.d : (n.r + 2) * n.d;
  const int64_t row = n.g * (n.r + 2) * n.d, sample = n.t * row;
  const int64_t part = parts_first ? n.g * n.d : n.d;  // from keys to values
  const int64_t keys = parts_first ? part : n.r * n.d;
  return {{0, keys, keys + part}, {sample, sample, sample}, {row, row, row}, {group, group, group}};
}

}  // namespace oneflow
