// The first rung of the search: what a plan group takes and needs, by formulas from the costs of
// one device.
//
// One device computes a short model alone (OneDeviceSpec): no stages, nothing sharded. The devices
// that a part of the batch is split over share that work. Two readings follow:
//
//   FindLeastSeconds, FindLeastBytes   of every plan of the group: the work divided evenly, no
//                                      exchanges, with a margin, since kernels that split their
//                                      work compute no faster
//   FindLikelyCosts                    as a rule: with exchanges (Hockney's model, link_cost.h),
//                                      the head, the update
//
// For M micro-batches that take W seconds through P stages of v chunks (docs/search.md, The bound)
//
//   step >= W / (v (1 - q^P)),  q = 1 - 1 / (v M).
#pragma once

#include <limits>
#include <vector>

#include "compiler/compile.h"
#include "planning/search/candidate.h"
#include "planning/search/model_shape.h"
#include "planning/search/short_plan.h"
#include "planning/search/stage_costs.h"

namespace oneflow {

// One device with all that the devices of a part of the batch compute.
ShortPlanSpec OneDeviceSpec(const PlanRequest& given, const proto::Recipe& group,
                            int block_class = 0);

// `one`: the costs of OneDeviceSpec of each kind of blocks (stage_costs.h). No plan of the group
// needs fewer bytes of a device, whatever its stages and their mixes of policies are: blocks, half
// of the tables of words, and the head, as if all were split that may be. `blocks`: of the model.
double FindLeastBytes(const PlanRequest& given, const proto::Recipe& group,
                      const std::vector<const ShortCosts*>& one, const ClassCounts& blocks);

// By the formula above, with recompute none, no plan of the group takes less seconds.
double FindLeastSeconds(const PlanRequest& given, const proto::Recipe& group,
                        const std::vector<const ShortCosts*>& one, const ClassCounts& blocks);

// The likely costs of a kind, with the policy of recompute that `one` was measured with and `group`
// says. `shape`: of a model whose blocks are all of its class.
ShortCosts FindLikelyCosts(const PlanRequest& given, const ModelShape& shape,
                           const proto::Recipe& group, const ShortCosts& one);

// By policy, the mean of the costs of the model's blocks. `likely`: of each kind.
std::vector<ShortCosts> FindMeanCosts(const std::vector<ShortCosts>& likely,
                                      const ClassCounts& blocks);

// A group's best plan by formulas: the longest stage sets the pace, and the first and the last one
// need most. Takes microseconds.
struct FormulaPlan {
  double seconds = std::numeric_limits<double>::infinity();  // infinite: none fits
  double bytes = 0;                                          // of a device; least, if none fits
};
// `likely`: the mean costs with each policy of recompute. `uniform`: all blocks have the same; else
// blocks may be divided. `capacity`: bytes of a device; 0: no limit.
FormulaPlan FindFormulaPlan(const proto::Recipe& group, const std::vector<ShortCosts>& likely,
                            int blocks, bool uniform, double capacity);

// `measured`, the costs of a short plan with one policy, moved to another: by the difference of
// what formulas say of blocks with these.
ShortCosts WithOtherPolicy(const ShortCosts& measured, const ShortCosts& likely,
                           const ShortCosts& likely_other);

}  // namespace oneflow
