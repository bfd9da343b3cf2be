// SBP: the layout of a logical tensor on the devices along a mesh axis (OneFlow, arXiv:2110.15032,
// sec. 3.1).
//
//   B     the tensor is replicated: every coordinate holds all of it
//   S(i)  coordinate c holds the c-th part along dimension i (the first n mod p parts get one more)
//   P     the tensor is the sum of all parts;  Pmax: the maximum
//
// nd-SBP is one Sbp for each mesh axis. When several axes split the same dimension, the axis that
// comes first in the mesh splits first (outermost).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

struct Sbp {
  enum Kind : uint8_t { kBroadcast, kSplit, kPartialSum, kPartialMax };
  Kind kind = kBroadcast;
  int8_t dim = 0;  // only for kSplit

  bool operator==(const Sbp&) const = default;
  bool split() const { return kind == kSplit; }
  bool broadcast() const { return kind == kBroadcast; }
  bool partial() const { return kind == kPartialSum || kind == kPartialMax; }
};

inline constexpr Sbp B() { return {Sbp::kBroadcast, 0}; }
inline constexpr Sbp S(int dim) { return {Sbp::kSplit, static_cast<int8_t>(dim)}; }
inline constexpr Sbp P() { return {Sbp::kPartialSum, 0}; }
inline constexpr Sbp PMax() { return {Sbp::kPartialMax, 0}; }

using NdSbp = std::vector<Sbp>;  // one for each axis of the mesh, stage axis included (always B)

std::string ToString(Sbp sbp);                        // "B", "S(1)", "P", "Pmax"
std::string ToString(const NdSbp& sbp);               // "B"; "(S(0),B)" when it has several axes
absl::StatusOr<Sbp> ParseSbp(std::string_view text);  // inverse of ToString(Sbp)

}  // namespace oneflow
