#include "compiler/compare_plans.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

// The seconds of boxing as the cluster has them.
absl::Status PriceBoxing(const proto::Cluster& cluster, proto::Plan* plan) {
  for (int p = 0; p < plan->program_size(); ++p) {
    const proto::Program& program = plan->program(p);
    proto::ProgramFacts* facts = plan->mutable_facts()->mutable_program(p);
    ASSIGN_OR_RETURN(const std::vector<double> seconds,
                     ActorSeconds(*plan, program, *facts, cluster));
    for (const proto::Actor& actor : program.actor()) {
      if (actor.has_boxing()) facts->mutable_actor(actor.id())->set_seconds(seconds[actor.id()]);
    }
  }
  return absl::OkStatus();
}

// The program of which the step counts: the first that the graph gives.
std::string MainProgram(const proto::Plan& plan) {
  for (const char* name : {"train", "run", "prefill"}) {
    if (FindProgram(plan, name) != nullptr) return name;
  }
  return "";
}

}  // namespace

bool ComparesPlans(const CompileOptions& options) {
  return options.step_seconds != nullptr && options.mesh.devices() > 1 &&
         options.cluster.level_size() > 0 && options.cluster.device().kind() != proto::Device::CPU;
}

CompileOptions WithoutCluster(const CompileOptions& options) {
  CompileOptions without = options;
  without.cluster.Clear();
  proto::Device* device = without.cluster.mutable_device();
  device->set_memory_bytes(options.cluster.device().memory_bytes());
  device->set_kernel_threads(options.cluster.device().kernel_threads());
  without.step_seconds = nullptr;
  return without;
}

absl::StatusOr<proto::Plan> FasterPlan(const CompileOptions& options,
                                       absl::StatusOr<proto::Plan> known,
                                       absl::StatusOr<proto::Plan> unknown) {
  if (!unknown.ok() || (!known.ok() && !absl::IsResourceExhausted(known.status()))) return known;
  std::string note = "compiled as for an unknown cluster: the plan for this one does not fit";
  if (known.ok()) {
    if (known->fingerprint() == unknown->fingerprint()) return known;
    const std::string program = MainProgram(*known);
    const absl::StatusOr<double> with = options.step_seconds(*known, program);
    const absl::StatusOr<double> without = options.step_seconds(*unknown, program);
    if (!with.ok() || !without.ok() || *with <= *without) return known;
    note = absl::StrCat(
        "compiled as for an unknown cluster: simulated on this one, its step takes ",
        TimeText(*without), ", and ", TimeText(*with), " with what is chosen for this one");
  }
  RETURN_IF_ERROR(PriceBoxing(options.cluster, &*unknown));
  unknown->mutable_facts()->add_note(note);
  return unknown;
}

}  // namespace oneflow
