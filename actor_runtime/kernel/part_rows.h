// The elements that take_part and join_parts copy. Internal to kernel/ and cuda/kernel/.
#pragma once

#include <cstdint>

#include "actor_runtime/kernel/support.h"

namespace oneflow {

// A tensor with all parts is `rows` rows of `parts` runs of `run` elements; one part has a run of
// each. Rows are blocks of the dimension, of all dimensions before it.
struct PartRows {
  int64_t rows = 0, parts = 1, run = 0;

  int64_t elements() const { return rows * run; }  // of a part
};

// `all`: the port of the tensor with all parts.
inline PartRows FindPartRows(const KernelSetup& s, const Port& all, int64_t parts) {
  const auto dim = static_cast<int>(IntAttr(s, "dim"));
  const Dims local = all.local();
  const int64_t of_block = all.dims[dim] / (IntAttr(s, "blocks", 1) * parts);
  PartRows p{.parts = parts, .run = of_block * DimsProduct(local, dim + 1)};
  if (p.run > 0) p.rows = Product(local) / (parts * p.run);
  return p;
}

}  // namespace oneflow
