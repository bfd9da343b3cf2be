#include "planning/measure/plan_times.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <vector>

#include "actor_runtime/device/cores.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/cost/host_cost.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/measure/actor_plans.h"
#include "planning/measure/actor_time.h"
#include "planning/measure/kernel_time.h"
#include "planning/measure/memory_rate.h"

namespace oneflow {
namespace {

constexpr int kChainLength = 64;
constexpr double kActorSeconds = 0.01;  // to spend on each of two kinds of plan
constexpr int64_t kCopyElements = int64_t{1} << 16;
constexpr int64_t kHostBytes = int64_t{1} << 25;

bool HasOneSourceEach(const KernelSetup& setup) {
  return std::all_of(setup.in.begin(), setup.in.end(),
                     [](const auto& sources) { return sources.size() == 1; });
}

// Devices that find no core take turns: so many work at once, and each takes so much longer.
struct Turns {
  int devices = 1;
  double longer = 1;
};

Turns MakeTurns(const MeasurePlanOptions& options) {
  const int at_once = std::clamp(Cores() / options.threads, 1, options.devices);
  return {at_once, static_cast<double>(options.devices) / at_once};
}

// A call that some actors of the program make.
struct Call {
  CallWork work;
  const KernelSetup* setup = nullptr;
  double seconds = 0;  // of all of these actors, once each, as the roofline has it
};

// The costliest first.
absl::StatusOr<std::vector<Call>> FindCalls(const proto::Plan& plan, const proto::Program& program,
                                            const KernelSetups& setups, const KernelCost& cost) {
  std::map<std::tuple<std::string, DType, double, double>, Call> calls;
  for (const proto::Actor& actor : program.actor()) {
    if (actor.has_boxing() || actor.has_exchange() || FindHostCopy(actor.kernel())) continue;
    const KernelSetup* setup = setups.Find(actor.name(), actor.kernel());
    if (setup == nullptr) continue;
    ASSIGN_OR_RETURN(const CallWork work,
                     FindCallWork(plan, program, FindFacts(plan, program), actor));
    Call& call = calls[{work.kernel, work.dtype, work.flops, work.bytes}];
    call.work = work;
    call.setup = setup;
    call.seconds += cost.Roofline(work);
  }
  std::vector<Call> sorted;
  for (auto& [key, call] : calls) sorted.push_back(std::move(call));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Call& a, const Call& b) { return a.seconds > b.seconds; });
  return sorted;
}

void AddTime(const CallWork& work, double seconds, proto::Device* device) {
  proto::KernelTime* entry = device->add_kernel_time();
  entry->set_kernel(work.kernel);
  entry->set_dtype(ToProto(work.dtype));
  entry->set_flops(work.flops);
  entry->set_bytes(work.bytes);
  entry->set_seconds(seconds);
}

// Exchanges within a process take the time of copies and sums.
absl::Status MeasureCopies(int threads, const Turns& turns, double budget, proto::Device* device) {
  const TimedInput input{{kCopyElements}};
  for (const TimedOp& op :
       {TimedOp{kCopyKernel, {input}, {}}, TimedOp{kSumKernel, {input, input}, {}}}) {
    ASSIGN_OR_RETURN(const KernelTime time, TimeKernel(op, threads, budget, turns.devices));
    AddTime({op.kind, DType::kF32, time.flops, time.bytes}, time.seconds * turns.longer, device);
  }
  return absl::OkStatus();
}

// One thread of each device copies to the host's arena, and back.
absl::Status MeasureHostLink(const Turns& turns, double budget, proto::HostLink* link) {
  ASSIGN_OR_RETURN(const MemoryRate memory, MeasureMemory(turns.devices, kHostBytes, budget));
  const double copied = memory.copy / 2 / turns.devices / turns.longer;
  link->set_to_host(copied);
  link->set_from_host(copied);
  return absl::OkStatus();
}

bool CopiesToHost(const proto::Program& program) {
  return std::any_of(program.actor().begin(), program.actor().end(),
                     [](const proto::Actor& a) { return FindHostCopy(a.kernel()).has_value(); });
}

}  // namespace

void KernelSetups::Add(const KernelSetup& setup) {
  if (HasOneSourceEach(setup)) setups_.try_emplace({setup.name, setup.kind}, setup);
}

const KernelSetup* KernelSetups::Find(const std::string& name, const std::string& kind) const {
  const auto setup = setups_.find({name, kind});
  return setup == setups_.end() ? nullptr : &setup->second;
}

absl::StatusOr<proto::Cluster> MeasurePlan(const proto::Plan& plan, const KernelSetups& setups,
                                           const MeasurePlanOptions& options) {
  ASSIGN_OR_RETURN(const proto::Program* program, FindProgramByFlag(plan, "train"));
  proto::Cluster cluster;
  proto::Device& device = *cluster.mutable_device();
  device.set_kernel_threads(options.threads);
  if (options.matrix_flops > 0) device.set_peak_flops(options.matrix_flops);
  ASSIGN_OR_RETURN(const std::vector<Call> calls,
                   FindCalls(plan, *program, setups, KernelCost(device)));
  const auto start = std::chrono::steady_clock::now();
  const double budget = options.seconds / static_cast<double>(calls.size() + 2);
  const Turns turns = MakeTurns(options);
  RETURN_IF_ERROR(MeasureCopies(options.threads, turns, budget, &device));
  if (CopiesToHost(*program)) {
    RETURN_IF_ERROR(MeasureHostLink(turns, budget, cluster.mutable_host_link()));
  }
  for (const Call& call : calls) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() > options.seconds) break;
    const TimedKernel kernel{*call.setup, call.work.flops, call.work.bytes};
    const absl::StatusOr<KernelTime> time =
        TimeSetup(kernel, options.threads, budget, turns.devices);
    // A kernel that refuses made-up values is timed by the others.
    if (time.ok()) AddTime(call.work, time->seconds * turns.longer, &device);
  }
  ASSIGN_OR_RETURN(const double chain, TimeStep(ChainOfActors(kChainLength), kActorSeconds));
  device.set_firing_seconds(chain / kChainLength);
  ASSIGN_OR_RETURN(const double trip, TimeStep(PingPong(), kActorSeconds));
  proto::Level* level = cluster.add_level();
  level->set_name("process");
  level->set_size(options.devices);
  level->set_latency(trip / 2);
  return cluster;
}

}  // namespace oneflow
