// The layout of each variable in program "train", and the times of its exchanges: read from the
// actors and the registers of a plan, which are what runs.
//
//   for (const VariableLayouts& v : FindVariableLayouts(plan)) ...
//
//   states      the master and the moments: persistent registers
//   weights     at rest: the parts that the micro-batches read, gather, or cast to gather
//   gathers     exchanges from there to the readers: in the segment P once a step, in F, B and W
//               with every micro-batch
//   gradients   the registers that add up over the micro-batches
//   reductions  of a gradient: before it is added up with every micro-batch, after that once a step
//   copies      of parts that rest in the host's memory into the device's, as gathers
#pragma once

#include <set>
#include <vector>

#include "proto/plan.pb.h"

namespace oneflow {

struct VariableLayouts {
  const proto::Variable* variable = nullptr;
  // Registers of the lowest stage first; among those of equal type and layout only the first.
  std::vector<const proto::Register*> states, weights, gradients;
  // Mesh axes.
  std::set<int> gathered_once, gathered_each_micro_batch;
  std::set<int> reduced_once, reduced_each_micro_batch;
  std::set<int> sliced_each_micro_batch;  // of a gradient that is no sum over them
  int gathers_a_micro_batch = 0;          // of the stage that gathers most
  // Exchanges of its stream by which a gather may be ahead of the compute that reads it; 0: none.
  int ahead = 0;
  bool states_on_host = false;  // moments rest in the host's memory
  bool host_updates = false;    // the host's processors compute the update
  // The weight is copied in once a step, or with every micro-batch as often as it is gathered.
  bool copied_once = false;
  int copies_a_micro_batch = 0;
};

// Returns layouts by variable of the plan; moments are part of their weight's. Empty if the plan
// has no program "train", or one that is not well-formed.
std::vector<VariableLayouts> FindVariableLayouts(const proto::Plan& plan);

}  // namespace oneflow
