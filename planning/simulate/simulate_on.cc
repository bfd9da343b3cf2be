#include "planning/simulate/simulate_on.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/trace.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/verify/verify_plan.h"
#include "planning/simulate/process_traffic.h"

namespace oneflow {
namespace {

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

int64_t CountDevices(const proto::Plan& plan) {
  int64_t devices = 1;
  for (const proto::Mesh::Axis& axis : plan.mesh().axis()) devices *= axis.size();
  return devices;
}

// The part of the processors that exchanges of a device keep busy, summed up over time.
class UsageOverTime {
 public:
  void Add(const SimulatedRun::Span& span, double usage, double later = 0) {
    if (usage == 0 || span.end <= span.begin) return;
    changes_.push_back({span.begin + later, usage});
    changes_.push_back({span.end + later, -usage});
  }
  // Once all have been added.
  void Sum() {
    std::sort(changes_.begin(), changes_.end());
    double usage = 0, sum = 0, before = 0;
    for (const auto& [time, change] : changes_) {
      sum += usage * (time - before);
      usage += change;
      before = time;
      points_.push_back({time, usage, sum});
    }
  }
  bool empty() const { return points_.empty(); }
  // Seconds of all processors that exchanges took while `span` went on. Fast if spans come nearly
  // in the order of their begins.
  double Within(const SimulatedRun::Span& span) {
    while (begin_ > 0 && points_[begin_ - 1].time > span.begin) --begin_;
    begin_ = Next(begin_, span.begin);
    return At(Next(begin_, span.end), span.end) - At(begin_, span.begin);
  }

 private:
  struct Point {
    double time = 0, usage = 0, sum = 0;  // usage: from here on; sum: up to here
  };
  // The first point after `time`, from the given one on.
  size_t Next(size_t from, double time) const {
    while (from < points_.size() && points_[from].time <= time) ++from;
    return from;
  }
  // `next`: the first point after `time`.
  double At(size_t next, double time) const {
    if (next == 0) return 0;
    const Point& last = points_[next - 1];
    return last.sum + last.usage * (time - last.time);
  }

  std::vector<std::pair<double, double>> changes_;  // time, of the usage
  std::vector<Point> points_;
  size_t begin_ = 0;  // the first point after the begin of the latest span
};

// Adds the slowdown by concurrent exchanges to the seconds of each kernel. Returns true if there
// was any. `usage`: by actor of the program, like `seconds`.
bool AddInterference(const SimulatedRun& run, const std::vector<double>& usage,
                     std::vector<double>* seconds) {
  std::vector<UsageOverTime> devices(run.net.own.size());
  // Takes each stored firing, nearly in the order of their begins (one may wait to be issued), and
  // the repeat in whose period it is; null: in none.
  const auto for_firings = [&run](const auto& take) {
    std::vector<int64_t> next(run.first.begin(), run.first.end() - 1);
    auto repeat = run.repeats.begin();
    for (int64_t i = 0; i < static_cast<int64_t>(run.order.size()); ++i) {
      if (repeat != run.repeats.end() && i == repeat->end) ++repeat;
      const bool in_period = repeat != run.repeats.end() && i >= repeat->first;
      const int32_t actor = run.order[i];
      take(actor, run.spans[next[actor]++], in_period ? &*repeat : nullptr);
    }
  };
  using Span = SimulatedRun::Span;
  using Repeat = SimulatedRun::Repeat;
  for_firings([&](int32_t a, const Span& span, const Repeat* repeat) {
    const double of = usage[run.net.specs[a].actor];
    if (of == 0) return;
    UsageOverTime& device = devices[run.net.specs[a].rank];
    device.Add(span, of);
    if (repeat == nullptr) return;
    // Kernels of the stored period may end in the next one, and those after all repeats begin
    // beside exchanges of the last one.
    device.Add(span, of, repeat->seconds);
    if (repeat->times > 1) {
      device.Add(span, of, static_cast<double>(repeat->times) * repeat->seconds);
    }
  });
  for (UsageOverTime& device : devices) device.Sum();
  std::vector<double> lost(run.net.specs.size(), 0);
  for_firings([&](int32_t a, const Span& span, const Repeat* repeat) {
    UsageOverTime& device = devices[run.net.specs[a].rank];
    if (run.doing[a] != Doing::kComputing || device.empty()) return;
    lost[a] += device.Within(span) * static_cast<double>(repeat == nullptr ? 1 : repeat->times + 1);
  });
  bool any = false;
  for (size_t a = 0; a < run.net.specs.size(); ++a) {
    if (lost[a] <= 0) continue;
    const int64_t firings = run.CountFirings(static_cast<int32_t>(a));
    (*seconds)[run.net.specs[a].actor] += lost[a] / static_cast<double>(firings);
    any = true;
  }
  return any;
}

// Defaults for a cluster that gives none: proto/cluster.proto.
constexpr double kLatency = 1e-6, kBandwidth = 1e10;

}  // namespace

absl::StatusOr<proto::Cluster> WithProcesses(proto::Cluster cluster, const proto::Plan& plan,
                                             int processes) {
  ASSIGN_OR_RETURN(const int each, RanksAProcess(plan, processes));
  if (processes > 1 && cluster.level_size() == 1) {
    return InputError(absl::StrCat("--processes=", processes),
                      "the cluster file has one level: it does not say what joins processes",
                      "measure it: oneflow calibrate --processes=2 --out=FILE");
  }
  if (cluster.level_size() == 0) {
    for (const char* name : {"process", "host"}) {
      proto::Level* level = cluster.add_level();
      level->set_name(name);
      level->set_latency(kLatency);
      level->set_bandwidth(kBandwidth);
    }
  }
  cluster.mutable_level(0)->set_size(each);
  return cluster;
}

absl::StatusOr<int> ProcessesOn(const proto::Cluster& cluster, const proto::Plan& plan) {
  const bool joined = cluster.device().kind() == proto::Device::CPU && cluster.level_size() > 1 &&
                      plan.device_kind() == proto::CPU;
  if (!joined) return 1;
  ASSIGN_OR_RETURN(const int ranks, RanksAProcess(plan, 1));
  const int each = std::min(ranks, cluster.level(0).size());
  if (each > 0 && ranks % each == 0) return ranks / each;
  return InputError(
      "cluster",
      absl::StrCat("its processes of ", each, " devices cannot hold the plan's ", ranks, " evenly"),
      "give --processes=N, a number that divides them");
}

CoreSharing FindCoreSharing(const proto::Cluster& cluster, const proto::Plan& plan) {
  CoreSharing sharing;
  if (cluster.device().kind() != proto::Device::CPU) return sharing;
  int64_t devices = CountDevices(plan);
  if (cluster.level_size() > 2) {
    const int64_t process = std::max(1, cluster.level(0).size());
    devices = std::min(devices, process * std::max(1, cluster.level(1).size()));
  }
  const int64_t threads = devices * std::max(1, plan.kernel_threads());
  sharing.threads = static_cast<int>(std::min<int64_t>(threads, std::numeric_limits<int>::max()));
  sharing.cores = cluster.cores();
  return sharing;
}

absl::Status CheckDevices(const proto::Cluster& cluster, const Mesh& mesh) {
  if (cluster.device().kind() == proto::Device::CPU) return absl::OkStatus();
  int64_t devices = 1;
  std::string sizes;
  for (const proto::Level& level : cluster.level()) {
    if (level.size() <= 0) return absl::OkStatus();
    devices *= level.size();
    sizes = absl::StrCat(level.name().empty() ? "level" : level.name(), " of ", level.size(),
                         sizes.empty() ? "" : " x ", sizes);
  }
  if (cluster.level().empty() || mesh.devices() <= devices) return absl::OkStatus();
  return InputError(absl::StrCat("cluster ", cluster.name()),
                    absl::StrCat("has ", devices, " devices (", sizes, "), and the mesh ",
                                 ToString(mesh), " has ", mesh.devices()),
                    "compile for a smaller mesh, or raise the size of the cluster's outermost "
                    "level in its file; without a size it is unlimited");
}

namespace {

// Requires a program that is known to be live.
absl::StatusOr<SimulatedRun> SimulateLive(const proto::Cluster& cluster, const proto::Plan& plan,
                                          std::string_view program,
                                          const std::vector<FarTraffic>& far,
                                          SimulateOptions options) {
  ASSIGN_OR_RETURN(const proto::Program* found, FindProgramByFlag(plan, program));
  ASSIGN_OR_RETURN(const std::vector<ActorTime> times,
                   ActorTimes(plan, *found, FindFacts(plan, *found), cluster, far));
  const double slowdown = FindCoreSharing(cluster, plan).slowdown();
  for (const ActorTime& time : times) {
    options.actor_seconds.push_back(time.worker * slowdown);
    options.link_seconds.push_back(time.link);
  }
  options.worker_a_device = cluster.device().kind() == proto::Device::CPU;
  if (options.worker_a_device && cluster.level_size() > 0) {
    options.message_seconds = cluster.level(0).latency();
  }
  if (!options.worker_a_device) options.issue_seconds = cluster.device().firing_seconds();
  // The same whether or not the run that is asked for skips periods.
  SimulateOptions alone = options;
  alone.skip_after = std::min(alone.skip_after, kSkipAfter);
  ASSIGN_OR_RETURN(SimulatedRun run, Simulate(plan, program, alone));
  std::vector<double> usage;
  for (const ActorTime& time : times) usage.push_back(time.processor_usage);
  const bool slower = AddInterference(run, usage, &options.actor_seconds);
  if (!slower && alone.skip_after == options.skip_after) return run;
  return Simulate(plan, program, options);
}

}  // namespace

absl::StatusOr<SimulatedRun> SimulateOn(const proto::Cluster& cluster, const proto::Plan& plan,
                                        std::string_view program, int64_t steps, int64_t skip_after,
                                        int64_t most_firings) {
  RETURN_IF_ERROR(VerifyPlan(plan));
  return SimulateProved(cluster, plan, program, steps, skip_after, most_firings);
}

absl::StatusOr<SimulatedRun> SimulateProved(const proto::Cluster& cluster, const proto::Plan& plan,
                                            std::string_view program, int64_t steps,
                                            int64_t skip_after, int64_t most_firings) {
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(plan.mesh(), "plan"));
  RETURN_IF_ERROR(CheckDevices(cluster, mesh));
  RETURN_IF_ERROR(FindProgramByFlag(plan, program).status());
  ASSIGN_OR_RETURN(const int processes, ProcessesOn(cluster, plan));
  std::vector<FarTraffic> far;
  if (processes > 1) {
    ASSIGN_OR_RETURN(far, FindFarTraffic(plan, program, processes));
  }
  return SimulateLive(cluster, plan, program, far,
                      {.steps = steps, .skip_after = skip_after, .most_firings = most_firings});
}

proto::ProcessTrace SimulatedTrace(const proto::Plan& plan, const SimulatedRun& run,
                                   int64_t first_step) {
  CHECK(run.repeats.empty()) << "a trace has every firing";
  Trace trace(static_cast<int64_t>(run.order.size()));
  trace.Begin(run.net, first_step, run.options.steps);
  std::vector<int64_t> fired(run.net.specs.size(), 0);
  for (const int32_t actor : run.order) {
    const int64_t firing = fired[actor]++;
    const SimulatedRun::Span& span = run.FindSpan(actor, firing);
    trace.buffer(run.net.stream_of[actor])
        ->Add({Nanoseconds(span.begin), Nanoseconds(span.end), firing, actor});
  }
  proto::ProcessTrace part = trace.ToProto(plan);
  part.set_predicted(true);
  return part;
}

}  // namespace oneflow
