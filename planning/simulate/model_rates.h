// ModelRates: the rates of a simulated step relative to its devices' peaks, by the formulas of
// Megatron-LM (Narayanan et al., SC'21, and Korthikanti et al., 2022).
//
//   ASSIGN_OR_RETURN(ModelRates rates, FindModelRates(plan, "train", cluster, run.StepSeconds()));
//   if (rates.mfu) std::printf("MFU %.1f %%\n", 100 * *rates.mfu);
//
// docs/performance.md (Model FLOPs and hardware FLOPs) defines both. They sum what the rows of the
// ops count of each actor (OpDef::counted_flops): all products that the model asks for, forward and
// backward; and those of the forward that the plan, or a kernel, computes once more.
//
// MFU, model FLOPs utilization, is model FLOPs over the FLOPs that all devices could compute in the
// time of the step at their peak for each product's type; HFU is the same ratio for hardware FLOPs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct ModelRates {
  double model_flops = 0, hardware_flops = 0;  // of a step, all devices
  double model_flops_a_device_second = 0;      // 0 where a step takes no time
  std::optional<double> mfu, hfu;              // none where the cluster does not say the peak
  double mfu_hidden = 0, hfu_hidden = 0;       // of them: pairs of attention that causality hides
  double hidden_flops = 0;                     // of model_flops: of these pairs
  bool has_window = false;                     // attention counts the pairs of a window alone
  // Of the model; active are those that a token reads, fewer than all in a mixture of experts.
  double parameters = 0, active_parameters = 0;
};

// The rates of a step of `program` that takes `step_seconds`. Requires a plan that passed
// VerifyPlan; NOT_FOUND if there is no such program.
absl::StatusOr<ModelRates> FindModelRates(const proto::Plan& plan, std::string_view program,
                                          const proto::Cluster& cluster, double step_seconds);

// What an MFU of these rates counts, where it may be misread: "t² pairs, 12.3 % of it hidden by
// causality; 3.35 billion of 30.5 billion parameters active". The first part is there if a window
// limits attention or at least 5 % are hidden, unless WhyAboveAll tells of them; the second for a
// mixture of experts; else "".
std::string WhatCounts(const ModelRates& rates);

// Why an MFU or HFU, of which `hidden` is hidden, is above 1; "" if it is not.
std::string WhyAboveAll(double utilization, double hidden);

}  // namespace oneflow
