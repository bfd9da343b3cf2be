// Graphs written by hand as passes leave them, boxing and all, for tests: one line an op.
//
//   GraphForTest b("data=2");
//   const TensorId dw = b.Add(Phase::kBackward, "matmul_grad_b", "dw", {}, {P()});
//   b.Add(Phase::kUpdate, "all_reduce", "dw.all_reduce", {dw}, {B()});
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct GraphForTest {
  Graph graph;
  int stage = 0;     // of what is added next
  Dims dims = {16};  // the same

  explicit GraphForTest(const std::string& mesh) { graph.mesh = *ParseMesh(mesh); }

  // Adds an op of one output; nothing checks that it may read these inputs.
  TensorId Add(Phase phase, std::string kind, std::string name, std::vector<TensorId> inputs,
               NdSbp sbp) {
    const OpId id = graph.AddOp(std::move(kind), std::move(name), std::move(inputs), {});
    Op& op = graph.ops[id];
    op.phase = phase;
    op.stage = stage;
    Tensor& tensor = graph.tensors[op.outputs[0]];
    tensor.shape = Shape(dims);
    tensor.sbp = std::move(sbp);
    return op.outputs[0];
  }
};

}  // namespace oneflow
