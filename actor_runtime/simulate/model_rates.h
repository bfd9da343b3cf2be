// ModelRates: the rates of a simulated step relative to its devices' peaks, by the formulas of
// Megatron-LM (Narayanan et al., SC'21, and Korthikanti et al., 2022).
//
//   ASSIGN_OR_RETURN(ModelRates rates, FindModelRates(plan, "train", cluster, run.StepSeconds()));
//   if (rates.mfu) std::printf("MFU %.1f %%\n", 100 * *rates.mfu);
//
// Model FLOPs are those of the forward's matrix products, times three if there is a backward: for a
// GPT of l layers, hidden size h, sequence length s, V words and a batch of B sequences 72 B s l
// h^2 (1 + s / (6 h) + V / (12 l h)). Attention counts as the equivalent dense products, even if
// its kernel skips the masked half. Work that several devices repeat counts once. Hardware FLOPs
// add the forward's products that the plan recomputes. Other operations (sums, normalization, the
// update) count as none.
//
// MFU, model FLOPs utilization, is model FLOPs over the FLOPs that all devices could compute in the
// time of the step at their peak for each product's type; HFU is the same ratio for hardware FLOPs.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct ModelRates {
  double model_flops = 0, hardware_flops = 0;  // of a step, all devices
  double model_flops_a_device_second = 0;      // 0 where a step takes no time
  std::optional<double> mfu, hfu;              // none where the cluster does not say the peak
};

// The rates of a step of `program` that takes `step_seconds`. Requires a plan that passed
// VerifyPlan; NOT_FOUND if there is no such program.
absl::StatusOr<ModelRates> FindModelRates(const proto::Plan& plan, std::string_view program,
                                          const proto::Cluster& cluster, double step_seconds);

}  // namespace oneflow
