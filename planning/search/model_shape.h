// The numbers of a model that the degrees of a mesh depend on.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/graph.pb.h"

namespace oneflow {

struct ModelShape {
  int blocks = 0;           // 0: not a model of blocks
  int64_t sequence = 0;     // tokens; 0: it reads none
  int64_t hidden = 0;       // elements of a position; 0: not known
  int64_t experts = 0;      // of a mixture; 0: none
  int64_t top_k = 0;        // experts that a token is sent to
  double slots = 0;         // of its queues, relative to even routing; 0: as many as may be needed
  int64_t slot_groups = 0;  // that the graph queues experts in, which devices divide; 0: as they do
  // Most parts of the dimensions that all axes `tensor` split: heads, words, ...; 0: not known.
  int64_t most_tensor = 0;
  // Groups of heads that share keys and values, and the query heads of each; 0: not grouped.
  int64_t groups = 0, group_heads = 0;
};

ModelShape FindModelShape(const proto::Graph& graph);

// The factors of an axis `tensor` of this degree, by the rules of annotate_model.h: {8}, or {8, 2}
// for 16 devices where there are 8 groups; none where the model cannot be split so.
std::vector<int> FindTensorFactors(const ModelShape& shape, int degree);

}  // namespace oneflow
