// Attention as the newer models have it: sinks, a scale and a cap of scores.
#pragma once

#include <cstdint>
#include <utility>

#include "proto/graph.pb.h"

namespace oneflow {

// Gives each attention op of a graph a variable of sinks, for `groups` groups of `heads` heads, and
// caps and scales its scores.
inline void AddSinks(int64_t groups, int64_t heads, proto::Graph* graph) {
  proto::Graph edited = *graph;
  edited.clear_op();
  for (proto::Op op : graph->op()) {
    if (op.kind() == "attention") {
      proto::Op* sinks = edited.add_op();
      sinks->set_name(op.name() + ".sinks");
      sinks->set_kind("variable");
      sinks->set_stage(op.stage());
      if (op.has_block()) sinks->set_block(op.block());
      sinks->mutable_shape()->add_dim()->set_size(groups);
      sinks->mutable_shape()->add_dim()->set_size(heads);
      (*sinks->mutable_attr())["init"].set_s("normal");
      (*sinks->mutable_attr())["init_value"].set_f(1);
      op.add_input(sinks->name());  // the first behind v
      (*op.mutable_attr())["sinks"].set_b(true);
      (*op.mutable_attr())["scale"].set_f(0.9);
      (*op.mutable_attr())["soft_cap"].set_f(0.5);
    }
    *edited.add_op() = std::move(op);
  }
  *graph = std::move(edited);
}

}  // namespace oneflow
