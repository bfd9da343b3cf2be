// Chooses which activations rest in the host's memory between forward and backward.
//
// Candidates are registers that a forward writes and its backward reads. A stage takes one of each
// block, then a second one, and so on. In a block it first takes those that save most bytes of the
// device for a second of the link. Among blocks it first takes those with the longest time between
// the two uses. A candidate stays if its block's copies, out and in, take longer than the time
// between its two uses: the backward would wait for it.
//
//   :SHARE   the first ones, up to this share of the bytes of a stage's candidates
//   :all     all of them, also those that come back too late
//   neither  the first ones, as long as the step does not become longer, by a play of the program
//            with copies on the clock of the cost model
//
// The choice moves no bit: only copies are added.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "compiler/lower/lowered.h"
#include "compiler/schedule/schedule.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct OffloadSetting {
  const proto::Plan& plan;  // variables, mesh and groups
  const proto::Cluster& cluster;
  const Schedule& schedule;
  int stages = 1;
  const proto::Offload::Activations& activations;
  int ahead = 1;  // uses that wait for the link at most, beside the present one
};

// Adds the chosen registers to lowered->to_host, and a note. `seconds`: of a firing, by actor.
absl::Status ChooseOffload(const OffloadSetting& setting, const std::vector<double>& seconds,
                           Lowered* lowered);

}  // namespace oneflow
