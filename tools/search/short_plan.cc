#include "tools/search/short_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "actor_runtime/simulate/simulate_on.h"
#include "compiler/schedule/fit_warm_ups.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "tools/search/shorten_model.h"

namespace oneflow {
namespace {

// One in the middle shows what all of them do.
constexpr int kMostStages = 3;
// Of which some are in the steady part of a step.
constexpr int64_t kMicroBatches = 8;

// A segment of the compute stream of a stage.
struct Timed {
  double seconds = 0;  // of a micro-batch: from its first firing's begin to its last one's end
  double firings = 0;  // of a micro-batch
};

// What one short plan shows of a stage.
struct StageRun {
  Timed forward, backward, weights;
  double bytes = 0, saved = 0, kept = 0, host_bytes = 0;
  double held = 0, held_for_weights = 0;
};

struct ShortRun {
  std::vector<StageRun> stages;
  double link = 0;
  double each_micro_batch = 0, each_step = 0;
};

// The most micro-batches between F and B, and those between B and W at that time, in units of all
// chunks of a stage; a micro-batch between B and W weighs `kept`.
struct Held {
  double forward = 0, weights = 0;
};
Held CountHeld(const StageOrder& order, int chunks, bool splits, double kept) {
  Held now, most;
  double best = -1;
  const double part = 1.0 / chunks;
  for (const Task& task : Unrolled(order)) {
    if (task.part == Part::kForward) now.forward += part;
    if (task.part == Part::kBackward) {
      // The bytes of both are there while it runs.
      if (splits) now.weights += part;
      now.forward -= part;
    }
    const double bytes = now.forward + kept * now.weights;
    if (bytes > best + 1e-9) {
      best = bytes;
      most = now;
    }
    if (task.part == Part::kWeights) now.weights -= part;
  }
  return most;
}

// The cluster on which a short plan's kernels take as long as those of all `devices`.
proto::Cluster ClusterOfShort(const proto::Cluster& cluster, int64_t devices) {
  proto::Cluster result = cluster;
  result.mutable_spread()->set_slower(FindSlowdown(cluster, devices) - 1);
  result.mutable_spread()->set_slow_share(1);
  if (cluster.device().kind() != proto::Device::CPU) {
    result.mutable_device()->set_firing_seconds(0);  // added later: it is a bound, not a sum
  }
  return result;
}

int ShortStages(const CompileOptions& given, const Mesh& mesh) {
  const bool cpu = given.cluster.device().kind() == proto::Device::CPU;
  return cpu ? mesh.stages() : std::min(mesh.stages(), kMostStages);
}

CompileOptions ShortOptions(const CompileOptions& given, const Family& family,
                            const std::string& recompute, int blocks) {
  CompileOptions options = CandidateOptions(given, {family, {.recompute = recompute}});
  const int stages = ShortStages(given, family.mesh);
  for (Mesh::Axis& axis : options.mesh.axes) {
    if (axis.name == "pipe") axis.size = stages;
  }
  options.cluster = ClusterOfShort(given.cluster, family.mesh.devices());
  options.cluster.mutable_device()->clear_memory_bytes();
  const int64_t size = given.train.batch() / family.micro_batches;
  const int64_t micro_batches = std::min(family.micro_batches, kMicroBatches);
  options.train.set_micro_batches(micro_batches);
  options.train.set_batch(micro_batches * size);
  if (family.chunks > 1) {
    options.train.set_schedule("1f1b");
    options.train.set_chunks(0);
  }
  options.stage_layers.assign(stages, blocks);
  options.fill_memory = false;
  return options;
}

double Begin(const SimulatedRun& run, int stage, const proto::Segment& segment, int64_t firing) {
  const int32_t first = run.net.Find(stage, segment.actor(0));
  return run.FindSpan(first, firing).begin;
}

double End(const SimulatedRun& run, int stage, const proto::Segment& segment, int64_t firing) {
  const int32_t last = run.net.Find(stage, segment.actor(segment.actor_size() - 1));
  return run.FindSpan(last, firing).end;
}

// The shortest of a step: one that waited for nothing of another stage.
Timed TimeSegment(const SimulatedRun& run, const proto::Segment& segment, int64_t micro_batches) {
  double least = std::numeric_limits<double>::infinity();
  const int stage = segment.stage();
  for (int64_t m = 0; m < micro_batches; ++m) {
    const int64_t firing = micro_batches + m;  // of the second step
    least = std::min(least, End(run, stage, segment, firing) - Begin(run, stage, segment, firing));
  }
  return {least, static_cast<double>(segment.actor_size())};
}

// Bytes of what F writes for B or W, and of what W reads.
void CountSaved(const proto::Plan& plan, const proto::Program& program,
                std::vector<StageRun>* stages) {
  enum { kForward = 1, kBackward = 2, kWeights = 4 };
  std::vector<int> part(program.actor_size(), 0);
  for (const proto::Segment& segment : program.segment()) {
    const int of = segment.name() == "F"   ? kForward
                   : segment.name() == "B" ? kBackward
                   : segment.name() == "W" ? kWeights
                                           : 0;
    for (const int actor : segment.actor()) part[actor] = of;
  }
  const int first = plan.persistent_size();
  std::vector<int> written(program.register__size(), 0), read(program.register__size(), 0);
  for (const proto::Actor& actor : program.actor()) {
    for (const int id : actor.output()) {
      if (id >= first) written[id - first] = part[actor.id()];
    }
  }
  for (const proto::Actor& actor : program.actor()) {
    for (const proto::Input& input : actor.input()) {
      if (input.register_() >= first) read[input.register_() - first] |= part[actor.id()];
    }
  }
  for (int r = 0; r < program.register__size(); ++r) {
    const proto::Register& reg = program.register_(r);
    if (reg.memory_kind() == proto::HOST) continue;
    StageRun& stage = (*stages)[reg.stage()];
    const auto bytes = static_cast<double>(reg.slot_bytes());
    // What comes from another stage or from an exchange is written by no segment of compute.
    const bool before = written[r] == kForward || (written[r] == 0 && (read[r] & kForward) != 0);
    if (before && (read[r] & (kBackward | kWeights)) != 0) stage.saved += bytes;
    if (written[r] != kWeights && (read[r] & kWeights) != 0) stage.kept += bytes;
  }
}

PipeSeconds SecondsOf(const ShortRun& run) {
  PipeSeconds seconds;
  for (const StageRun& stage : run.stages) {
    seconds.stages.push_back(
        {stage.forward.seconds, stage.backward.seconds, stage.weights.seconds});
  }
  seconds.links.assign(run.stages.size(), run.link);
  return seconds;
}

// The time of a step when the orders of the schedule are played.
absl::StatusOr<double> PlayedSeconds(const Schedule& schedule, const PipeSeconds& seconds,
                                     int64_t micro_batches) {
  const int stages = static_cast<int>(seconds.stages.size());
  const auto play = [&](int64_t m) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const PlayedSteps steps,
                     PlayOrders(MakeOrders(schedule, stages, m), schedule.chunks, seconds));
    double end = 0;
    for (const PlayedStep& stage : steps[0]) end = std::max(end, stage.end);
    return end;
  };
  const int64_t period = Period(schedule, stages);
  int64_t few = FewMicroBatches(schedule, stages, micro_batches) + 2 * period;
  few += ((micro_batches - few) % period + period) % period;
  if (few + period >= micro_batches) return play(micro_batches);
  ASSIGN_OR_RETURN(const double of_few, play(few));
  ASSIGN_OR_RETURN(const double of_more, play(few + period));
  return of_few + (of_more - of_few) * static_cast<double>((micro_batches - few) / period);
}

absl::StatusOr<ShortRun> RunShort(const GraphSource& source, const CompileOptions& given,
                                  const Family& family, const std::string& recompute,
                                  int blocks) {
  const CompileOptions options = ShortOptions(given, family, recompute, blocks);
  const int stages = options.mesh.stages();
  GraphSource shorter{{}, source.file, {}};
  ASSIGN_OR_RETURN(shorter.graph, WithBlocks(source.graph, stages * blocks));
  ASSIGN_OR_RETURN(const proto::Plan plan, DraftPlan(shorter, options));
  ASSIGN_OR_RETURN(const SimulatedRun run,
                   SimulateProved(options.cluster, plan, "train", /*steps=*/2));
  const proto::Program& program = *FindProgram(plan, "train");
  const int64_t m = options.train.micro_batches();
  ShortRun result{std::vector<StageRun>(stages)};
  for (const proto::Segment& segment : program.segment()) {
    StageRun& stage = result.stages[segment.stage()];
    if (segment.name() == "F") stage.forward = TimeSegment(run, segment, m);
    if (segment.name() == "B") stage.backward = TimeSegment(run, segment, m);
    if (segment.name() == "W") stage.weights = TimeSegment(run, segment, m);
  }
  for (const proto::Actor& actor : program.actor()) {
    if (actor.kernel() != "receive") continue;
    const int32_t at = run.net.Find(actor.stage(), actor.id());
    if (run.CountFirings(at) < 2 * m) continue;
    result.link = std::max(result.link, run.FiringSeconds(at));
  }
  CountSaved(plan, program, &result.stages);
  ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(options.train, stages));
  const PipeSeconds seconds = SecondsOf(result);
  const bool splits = schedule.splits_backward && stages > 1;
  if (splits) {
    const StageTimes times{
        .seconds = seconds, .micro_batches = m, .overlap = options.train.no_global_norm()};
    schedule.warm_ups = FitWarmUps(times, schedule.extra_in_flight);
  }
  const std::vector<StageOrder> orders = MakeOrders(schedule, stages, m);
  for (int s = 0; s < stages; ++s) {
    StageRun& stage = result.stages[s];
    stage.bytes = static_cast<double>(plan.facts().lower_bound_bytes(s));
    if (plan.facts().lower_bound_bytes_size() > stages) {
      stage.host_bytes = static_cast<double>(plan.facts().lower_bound_bytes(stages + s));
    }
    const Held held =
        CountHeld(orders[s], 1, splits, stage.saved > 0 ? stage.kept / stage.saved : 0);
    stage.held = held.forward;
    stage.held_for_weights = held.weights;
  }
  ASSIGN_OR_RETURN(const double played, PlayedSeconds(schedule, seconds, m));
  // The last stage has no warm-up: from one forward to the next it takes a whole period.
  double cycle = 0, longest = 0;
  for (const proto::Segment& segment : program.segment()) {
    if (segment.name() != "F" || segment.stage() != stages - 1 || m < 3) continue;
    cycle = Begin(run, stages - 1, segment, 2 * m - 1) - Begin(run, stages - 1, segment, 2 * m - 2);
  }
  for (const StageRun& stage : result.stages) {
    longest = std::max(
        longest, stage.forward.seconds + stage.backward.seconds + stage.weights.seconds);
  }
  result.each_micro_batch = m < 3 ? 0 : std::max(0.0, cycle - longest);
  result.each_step =
      run.StepSeconds() - played - static_cast<double>(m) * result.each_micro_batch;
  if (std::getenv("SPIKE")) {
    std::fprintf(stderr, "short n=%d: step %.6f played %.6f cycle %.6f longest %.6f link %.6f\n", blocks,
                 run.StepSeconds(), played, cycle, longest, result.link);
    for (int s = 0; s < stages; ++s) {
      const StageRun& st = result.stages[s];
      std::fprintf(stderr, "  %d: F %.6f B %.6f W %.6f bytes %.4g saved %.4g held %g\n", s, st.forward.seconds,
                   st.backward.seconds, st.weights.seconds, st.bytes, st.saved, st.held);
    }
  }
  return result;
}

// Through the values at one and two blocks.
Linear Through(double one, double two) { return {2 * one - two, two - one}; }

StageCosts CostsThrough(const StageRun& one, const StageRun& two) {
  StageCosts costs;
  costs.forward = Through(one.forward.seconds, two.forward.seconds);
  costs.backward = Through(one.backward.seconds, two.backward.seconds);
  costs.weights = Through(one.weights.seconds, two.weights.seconds);
  costs.bytes = Through(one.bytes, two.bytes);
  costs.saved = Through(one.saved, two.saved);
  costs.kept = Through(one.kept, two.kept);
  costs.held = one.held;
  costs.held_for_weights = one.held_for_weights;
  costs.host_bytes = Through(one.host_bytes, two.host_bytes);
  const auto firings = [](const StageRun& run) {
    return run.forward.firings + run.backward.firings + run.weights.firings;
  };
  costs.firings = Through(firings(one), firings(two));
  return costs;
}

}  // namespace

absl::StatusOr<ShortCosts> MeasureShortPlan(const GraphSource& source, const CompileOptions& given,
                                            const Family& family, const std::string& recompute) {
  ASSIGN_OR_RETURN(const ShortRun one, RunShort(source, given, family, recompute, 1));
  ASSIGN_OR_RETURN(const ShortRun two, RunShort(source, given, family, recompute, 2));
  const size_t last = one.stages.size() - 1;
  const auto costs = [&](size_t s) { return CostsThrough(one.stages[s], two.stages[s]); };
  ShortCosts result{costs(0), costs(std::min<size_t>(1, last)), costs(last)};
  result.link = two.link;
  result.each_micro_batch = Through(one.each_micro_batch, two.each_micro_batch);
  result.each_step = Through(one.each_step, two.each_step);
  if (given.cluster.device().kind() != proto::Device::CPU) {
    result.issue_seconds = given.cluster.device().firing_seconds();
  }
  return result;
}

absl::StatusOr<StagesTold> TellStages(const CompileOptions& given, const Family& family,
                                      const std::vector<ShortCosts>& costs,
                                      const std::vector<std::vector<int>>& blocks) {
  const int stages = family.mesh.stages();
  const CompileOptions options = CandidateOptions(given, {family, {}});
  ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(options.train, stages));
  const auto at = [&](size_t policy, int s) -> const StageCosts& {
    const ShortCosts& c = costs[policy];
    return s == stages - 1 ? c.last : s == 0 ? c.first : c.middle;
  };
  // Of n blocks with policies: the mean of what the policies say of n blocks, by their shares.
  const auto mixed = [&](int s, auto value) {
    double sum = 0;
    int n = 0;
    for (const int count : blocks[s]) n += count;
    for (size_t p = 0; p < costs.size(); ++p) {
      if (blocks[s][p] > 0) sum += value(at(p, s), costs[p]).At(n) * blocks[s][p] / n;
    }
    return sum;
  };
  PipeSeconds seconds;
  StageTimes times{.micro_batches = family.micro_batches,
                   .overlap = options.train.no_global_norm()};
  double issue = 0, mean_each = 0, mean_step = 0;
  for (int s = 0; s < stages; ++s) {
    const double chunks = family.chunks;
    seconds.stages.push_back(
        {mixed(s, [](auto& c, auto&) { return c.forward; }) / chunks,
         mixed(s, [](auto& c, auto&) { return c.backward; }) / chunks,
         mixed(s, [](auto& c, auto&) { return c.weights; }) / chunks});
    issue = std::max(issue, mixed(s, [](auto& c, auto&) { return c.firings; }));
    mean_each = std::max(mean_each, mixed(s, [](auto&, auto& c) { return c.each_micro_batch; }));
    mean_step = std::max(mean_step, mixed(s, [](auto&, auto& c) { return c.each_step; }));
    const double saved = mixed(s, [](auto& c, auto&) { return c.saved; });
    const double kept = mixed(s, [](auto& c, auto&) { return c.kept; });
    times.kept_for_weights.push_back(saved > 0 && kept > 0 ? kept / saved : 1);
  }
  seconds.links.assign(stages, costs.front().link);
  times.seconds = seconds;
  if (schedule.splits_backward && stages > 1) {
    schedule.warm_ups = FitWarmUps(times, schedule.extra_in_flight);
  }
  StagesTold told;
  ASSIGN_OR_RETURN(told.step_seconds, PlayedSeconds(schedule, seconds, family.micro_batches));
  const auto m = static_cast<double>(family.micro_batches);
  told.step_seconds += m * mean_each + mean_step;
  told.step_seconds = std::max(told.step_seconds, m * issue * costs.front().issue_seconds);
  const int64_t few = std::min(family.micro_batches,
                               FewMicroBatches(schedule, stages, family.micro_batches));
  const std::vector<StageOrder> orders = MakeOrders(schedule, stages, few);
  for (int s = 0; s < stages; ++s) {
    const double saved = mixed(s, [](auto& c, auto&) { return c.saved; });
    const double kept = mixed(s, [](auto& c, auto&) { return c.kept; });
    const bool splits = schedule.splits_backward && stages > 1;
    const Held held = CountHeld(orders[s], family.chunks, splits, saved > 0 ? kept / saved : 0);
    const StageCosts& usual = at(0, s);
    told.bytes.push_back(mixed(s, [](auto& c, auto&) { return c.bytes; }) +
                         (held.forward - usual.held) * saved +
                         (held.weights - usual.held_for_weights) * kept);
  }
  return told;
}

}  // namespace oneflow
