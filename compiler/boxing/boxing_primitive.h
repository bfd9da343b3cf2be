// The primitive (oneflow_core/tensor/primitive.h) between two nd-SBPs, the devices that it reads,
// and the elements that it receives. Pure geometry. Not a pass: boxing_path searches the
// primitives, and insert_boxing and lower_to_actors write them down.
//
//   kind            changes            reads          moves, over all p devices of an axis
//   slice           B -> S(i)          -              0
//   zero_fill       B or S -> P, Pmax  -              0
//   all_gather      S(i) -> B          its axis       (p-1) T
//   reduce_scatter  P, Pmax -> S(i)    its axis       (p-1) T
//   all_reduce      P, Pmax -> B       its axis       p (p-1) T, in one step: 2 (p-1) T where p = 2
//   all_to_all      S(i) -> S(j)       its axis       (p-1)/p T
//   all_to_all      any of B and S to any other on several axes at once: what each device lacks
//
// A tensor has T bytes; each row is of one group along an axis. P -> B in 2 (p-1) T is
// reduce_scatter, then all_gather. zero_fill keeps each part and fills the rest of the tensor with
// the neutral element: 0 for a sum, the lowest number for a maximum.
//
// Several axes may split one dimension: the first in the mesh splits outermost. A primitive on one
// axis is possible if no later axis splits the dimension that it splits or joins. Otherwise its
// peers along that axis do not hold the data that it needs, and only all_to_all over both axes
// reaches it. A value that is P on some axes and Pmax on others is the maximum of sums: sums are
// taken first.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"

namespace oneflow {

struct BoxingPrimitive {
  std::string_view kind;   // "": no primitive does it
  std::vector<int> along;  // mesh axes whose devices are read, ascending; empty: local
};

// Returns the one primitive from one nd-SBP to a different one. Requires as many entries as mesh
// axes.
BoxingPrimitive PrimitiveBetween(const Mesh& mesh, const NdSbp& from, const NdSbp& to);

// A tensor and the primitive that is applied to it.
struct BoxingMove {
  const Mesh& mesh;
  const Dims& dims;
  const NdSbp &from, &to;
  const BoxingPrimitive& primitive;
};

// Elements that the device at `c` receives from others.
int64_t ReceivedAt(const BoxingMove& move, const Coordinate& c);

// Elements that the device which receives most receives. Exact on axes of up to 16 devices. On
// longer axes only the first device, the last one and the first with a smaller ragged part are
// examined.
int64_t MostReceived(const BoxingMove& move);

}  // namespace oneflow
