#include "planning/simulate/step_parts.h"

#include <algorithm>
#include <map>

#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

constexpr double kRounded = 1e-12;  // of a step: a rounding, not a part
constexpr std::string_view kComputeParts[] = {"products", "attention", "other compute", "update"};

std::string_view FindComputeWork(const proto::Actor& actor) {
  const absl::StatusOr<AttrMap> attrs = AttrsFromProto(actor.attr(), actor.name());
  const OpDef* def = attrs.ok() ? FindOpDef(actor.kernel(), *attrs) : nullptr;
  if (def == nullptr) return "other compute";
  switch (def->FindKernelClass()) {
    case KernelClass::kProducts: return "products";
    case KernelClass::kAttention: return "attention";
    default: return "other compute";
  }
}

}  // namespace

std::vector<std::string_view> FindWork(const proto::Plan& plan, const SimulatedRun& run) {
  const proto::Program& program = plan.program(static_cast<int>(run.net.program_index));
  std::vector<bool> updates(program.actor_size(), false);
  for (const proto::Segment& segment : program.segment()) {
    for (const int actor : segment.actor()) updates[actor] = segment.name() == "U";
  }
  std::vector<std::string_view> work;
  for (size_t a = 0; a < run.net.specs.size(); ++a) {
    const auto actor = static_cast<int>(run.net.specs[a].actor);
    switch (run.doing[a]) {
      case Doing::kHost: work.emplace_back("host"); break;
      case Doing::kCopying: work.emplace_back("copy"); break;
      case Doing::kExchangingWithinStage: work.emplace_back("exchange"); break;
      case Doing::kExchangingBetweenStages: work.emplace_back("transfer"); break;
      case Doing::kComputing:
        work.push_back(updates[actor] ? "update" : FindComputeWork(program.actor(actor)));
        break;
    }
  }
  return work;
}

std::vector<StepPart> FindStepParts(const proto::Plan& plan, const SimulatedRun& run,
                                    const Utilization& use) {
  const double step = run.StepSeconds(), stages = static_cast<double>(use.devices.size());
  const std::vector<std::string_view> work = FindWork(plan, run);
  std::map<std::string_view, double> kernels;
  double all = 0, compute = 0, copies = 0;
  for (size_t a = 0; a < work.size(); ++a) {
    if (run.doing[a] != Doing::kComputing) continue;
    const double seconds =
        static_cast<double>(run.net.firings[a]) * run.FiringSeconds(static_cast<int32_t>(a));
    kernels[work[a]] += seconds;
    all += seconds;
  }
  for (const DeviceTime& device : use.devices) {
    compute += device.compute / stages;
    copies += device.exposed_copy / stages;
  }
  std::vector<StepPart> parts;
  // Kernels that run beside each other share the time in which any of them runs.
  for (const std::string_view name : kComputeParts) {
    if (all > 0) parts.push_back({std::string(name), compute * kernels[name] / all});
  }
  const double bubble = use.bubble * step, exposed = std::max(0.0, step - compute - bubble);
  const double copied = MovesToHost(run) ? std::min(copies, exposed) : 0;
  parts.push_back({"exposed exchange", exposed - copied});
  parts.push_back({"exposed copy", copied});
  parts.push_back({"bubble", bubble});
  std::erase_if(parts, [&](const StepPart& part) { return part.seconds <= kRounded * step; });
  return parts;
}

}  // namespace oneflow
