// Measures the kernels of one plan: a cluster of this machine for a prediction of that plan, in a
// fraction of a second. `oneflow calibrate` measures a machine for any plan, and better.
//
//   KernelSetups setups;
//   options.on_kernel = [&](const KernelSetup& s) { setups.Add(s); };   // of RuntimeOptions
//   ... Runtime::Create(plan, options) ...
//   ASSIGN_OR_RETURN(proto::Cluster cluster, MeasurePlan(plan, setups, {.devices = 2}));
//
// Kernels are called with small numbers, so one whose time depends on its values is measured with
// these. Links between processes are not measured.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The kernels that a runtime makes, by name and kind of the actor.
class KernelSetups {
 public:
  // Keeps the first of a name and kind.
  void Add(const KernelSetup& setup);
  // Null where there is none of that name and kind, or one of several sources.
  const KernelSetup* Find(const std::string& name, const std::string& kind) const;

 private:
  std::map<std::pair<std::string, std::string>, KernelSetup> setups_;
};

struct MeasurePlanOptions {
  int threads = 1;          // kernel threads of a device
  int devices = 1;          // of this process: all work while kernels are timed
  double matrix_flops = 0;  // of one device, in f32; 0: unknown
  double seconds = 0.2;     // to spend on kernels, about; the costliest are measured first
};

// Kernels of program "train" that no time is left for are timed by those that were measured
// (oneflow_core/cost/kernel_cost.h). Requires a plan for CPUs that passed VerifyPlan.
absl::StatusOr<proto::Cluster> MeasurePlan(const proto::Plan& plan, const KernelSetups& setups,
                                           const MeasurePlanOptions& options);

}  // namespace oneflow
