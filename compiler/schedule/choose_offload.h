// Chooses which activations rest in the host's memory between forward and backward.
//
// Candidates are registers that a forward writes and its backward reads. They rank by bytes of the
// device that a second of the link saves, those with the longest time between the two first. A
// candidate whose time, from its writing to the first reader of the backward, is shorter than the
// copies of its use take, out and in, stays: the backward would wait for it.
//
//   :SHARE   the first ones, up to this share of the bytes of all candidates
//   :all     all of them, also those that come back too late
//   neither  as many of the first ones as do not make the step longer, by a play of the program
//            with copies on the clock of the cost model
//
// The choice moves no bit: only copies are added.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "compiler/lower/lowered.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/model/offload.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct OffloadSetting {
  const proto::Plan& plan;  // variables, mesh and groups
  const proto::Cluster& cluster;
  const Schedule& schedule;
  int stages = 1;
  Offload::Activations activations;
  int ahead = 1;  // uses that wait for the link at most, beside the present one
};

// Adds the chosen registers to lowered->to_host, and a note. `seconds`: of a firing, by actor.
absl::Status ChooseOffload(const OffloadSetting& setting, const std::vector<double>& seconds,
                           Lowered* lowered);

}  // namespace oneflow
