// The samples of all kinds of ops (OpDef::samples), and others, as small graphs with one op on
// sources: for the tests of this folder. All sizes are even and, if possible, different, so that a
// wrong dimension shows.
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

struct SampleInput {
  Dims dims;
  DType dtype = DType::kF32;
};

struct Sample {
  std::string kind;
  std::vector<SampleInput> inputs;
  AttrMap attrs;
};

// Makes the graph: sources "in0", "in1", ... and the op "op", without shapes of its outputs.
Graph MakeGraph(const Sample& sample);
inline OpId SampleOp(const Graph& graph) { return static_cast<OpId>(graph.ops.size()) - 1; }

// Returns the samples of all rows, in f32.
const std::vector<Sample>& Samples();
// The kind and inputs of a sample: "linear [2,4,6] [6,8]".
std::string ToString(const Sample& sample);

std::string ToString(const Signature& row);   // "S(0) B -> S(0)"
std::string TableText(const Sample& sample);  // a line for each row

}  // namespace oneflow
