#include "tools/search/short_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "actor_runtime/simulate/simulate_on.h"
#include "compiler/schedule/fit_warm_ups.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/model/annotate_model.h"
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
  double exchange = 0;  // seconds of a micro-batch on the busiest stream of exchanges
  double bytes = 0, resident = 0, saved = 0, kept = 0, host_bytes = 0;
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

// The segments of one task of a stage: several where credits of gathers stand between them.
using Segments = std::vector<const proto::Segment*>;

// By segment: whether it stands on a stream of kernels.
std::vector<bool> FindComputeSegments(const proto::Program& program) {
  std::vector<bool> found(program.segment_size());
  for (const proto::Stream& stream : program.stream()) {
    if (stream.kind() != proto::Stream::COMPUTE) continue;
    for (const proto::OrderRun& run : stream.order()) {
      for (const int segment : run.segment()) found[segment] = true;
    }
  }
  return found;
}

double Begin(const SimulatedRun& run, const Segments& segments, int64_t firing) {
  double begin = std::numeric_limits<double>::infinity();
  for (const proto::Segment* s : segments) {
    begin = std::min(begin, run.FindSpan(run.net.Find(s->stage(), s->actor(0)), firing).begin);
  }
  return begin;
}

double End(const SimulatedRun& run, const Segments& segments, int64_t firing) {
  double end = 0;
  for (const proto::Segment* s : segments) {
    const int last = s->actor(s->actor_size() - 1);
    end = std::max(end, run.FindSpan(run.net.Find(s->stage(), last), firing).end);
  }
  return end;
}

// The shortest of a step: one that waited for nothing of another stage.
Timed TimeTask(const SimulatedRun& run, const Segments& segments, int64_t micro_batches) {
  if (segments.empty()) return {};
  Timed timed{std::numeric_limits<double>::infinity(), 0};
  for (int64_t firing = micro_batches; firing < 2 * micro_batches; ++firing) {  // the second step
    timed.seconds =
        std::min(timed.seconds, End(run, segments, firing) - Begin(run, segments, firing));
  }
  for (const proto::Segment* s : segments) timed.firings += s->actor_size();
  return timed;
}

// Bytes of what F writes for B or W, and of what W reads.
void CountSaved(const proto::Plan& plan, const proto::Program& program, const SimulatedRun& run,
                int64_t micro_batches, std::vector<StageRun>* stages) {
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
  std::vector<bool> often(program.register__size(), false);  // written for each micro-batch
  for (const proto::Actor& actor : program.actor()) {
    const int32_t at = run.net.Find(actor.stage(), actor.id());
    for (const int id : actor.output()) {
      if (id < first) continue;
      written[id - first] = part[actor.id()];
      often[id - first] = run.net.firings[at] >= micro_batches;
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
    const bool sum = often[r] && reg.fires_per_fill() > 1;
    if (sum || (!often[r] && read[r] != 0)) stage.resident += bytes;
    if (!often[r] || sum) continue;
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
  const std::vector<bool> computes = FindComputeSegments(program);
  const auto segments = [&](int stage, std::string_view name) {
    Segments found;
    for (const proto::Segment& s : program.segment()) {
      if (computes[s.id()] && s.stage() == stage && s.name() == name) found.push_back(&s);
    }
    return found;
  };
  for (int s = 0; s < stages; ++s) {
    StageRun& stage = result.stages[s];
    stage.forward = TimeTask(run, segments(s, "F"), m);
    stage.backward = TimeTask(run, segments(s, "B"), m);
    stage.weights = TimeTask(run, segments(s, "W"), m);
  }
  for (const proto::Actor& actor : program.actor()) {
    if (actor.kernel() != "receive") continue;
    const int32_t at = run.net.Find(actor.stage(), actor.id());
    if (run.CountFirings(at) < 2 * m) continue;
    result.link = std::max(result.link, run.FiringSeconds(at));
  }
  for (const proto::Stream& stream : program.stream()) {
    if (stream.kind() != proto::Stream::EXCHANGE) continue;
    double busy = 0;
    std::set<int> actors;
    for (const proto::OrderRun& order : stream.order()) {
      for (const int segment : order.segment()) {
        for (const int actor : program.segment(segment).actor()) actors.insert(actor);
      }
    }
    for (const int actor : actors) {
      const int32_t at = run.net.Find(stream.stage(), actor);
      if (run.net.firings[at] < m) continue;
      busy += run.FiringSeconds(at) * static_cast<double>(run.net.firings[at]);
    }
    StageRun& stage = result.stages[stream.stage()];
    stage.exchange = std::max(stage.exchange, busy / static_cast<double>(m));
  }
  CountSaved(plan, program, run, m, &result.stages);
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
    stage.resident += static_cast<double>(plan.memory(s).persistent_bytes());
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
  if (m >= 3) {
    const Segments forward = segments(stages - 1, "F");
    cycle = Begin(run, forward, 2 * m - 1) - Begin(run, forward, 2 * m - 2);
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
      std::fprintf(stderr, "  %d: F %.6f B %.6f W %.6f bytes %.4g resident %.4g saved %.4g held %g exchange %.6f\n", s, st.forward.seconds,
                   st.backward.seconds, st.weights.seconds, st.bytes, st.resident, st.saved, st.held, st.exchange);
    }
  }
  return result;
}

// Through the values at `few` blocks and at one more.
Linear Through(int few, double of_few, double of_more) {
  return {of_few - few * (of_more - of_few), of_more - of_few};
}

StageCosts CostsThrough(int few, const StageRun& one, const StageRun& two) {
  StageCosts costs;
  costs.forward = Through(few, one.forward.seconds, two.forward.seconds);
  costs.backward = Through(few, one.backward.seconds, two.backward.seconds);
  costs.weights = Through(few, one.weights.seconds, two.weights.seconds);
  costs.exchange = Through(few, one.exchange, two.exchange);
  costs.resident = Through(few, one.resident, two.resident);
  const auto other = [](const StageRun& run) {
    return run.bytes - run.resident - run.held * run.saved - run.held_for_weights * run.kept;
  };
  costs.other_bytes = std::min(other(one), other(two));
  costs.saved = Through(few, one.saved, two.saved);
  costs.kept = Through(few, one.kept, two.kept);
  costs.host_bytes = Through(few, one.host_bytes, two.host_bytes);
  const auto firings = [](const StageRun& run) {
    return run.forward.firings + run.backward.firings + run.weights.firings;
  };
  costs.firings = Through(few, firings(one), firings(two));
  return costs;
}

}  // namespace

absl::StatusOr<ShortCosts> MeasureShortPlan(const GraphSource& source, const CompileOptions& given,
                                            const Family& family, const std::string& recompute) {
  // Where weights are gathered ahead, as many blocks hold gathered weights at once.
  const int few = family.shard.weights.empty() ? 1 : 3;
  ASSIGN_OR_RETURN(const ShortRun one, RunShort(source, given, family, recompute, few));
  ASSIGN_OR_RETURN(const ShortRun two, RunShort(source, given, family, recompute, few + 1));
  const size_t last = one.stages.size() - 1;
  const auto costs = [&](size_t s) { return CostsThrough(few, one.stages[s], two.stages[s]); };
  ShortCosts result{costs(0), costs(std::min<size_t>(1, last)), costs(last)};
  result.link = two.link;
  result.each_micro_batch = Through(few, one.each_micro_batch, two.each_micro_batch);
  result.each_step = Through(few, one.each_step, two.each_step);
  if (given.cluster.device().kind() != proto::Device::CPU) {
    result.issue_seconds = given.cluster.device().firing_seconds();
  }
  return result;
}

absl::StatusOr<std::vector<int>> BlocksByStage(const GraphSource& source,
                                               const CompileOptions& options) {
  ASSIGN_OR_RETURN(Graph graph, GraphFromSource(source));
  graph.mesh = options.mesh;
  const int stages = options.mesh.stages(), chunks = std::max(1, options.train.chunks());
  RETURN_IF_ERROR(AnnotateModel(&graph, options.mesh,
                                {.chunks = chunks, .stage_layers = options.stage_layers}));
  std::vector<int> blocks(stages, 0);
  std::set<int> counted;
  for (const Op& op : graph.ops) {
    if (op.block >= 0 && counted.insert(op.block).second) ++blocks[op.stage % stages];
  }
  return blocks;
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
  double issue = 0, exchange = 0, mean_each = 0, mean_step = 0;
  for (int s = 0; s < stages; ++s) {
    const double chunks = family.chunks;
    seconds.stages.push_back(
        {mixed(s, [](auto& c, auto&) { return c.forward; }) / chunks,
         mixed(s, [](auto& c, auto&) { return c.backward; }) / chunks,
         mixed(s, [](auto& c, auto&) { return c.weights; }) / chunks});
    exchange = std::max(exchange, mixed(s, [](auto& c, auto&) { return c.exchange; }));
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
  if (std::getenv("SPIKE")) for (int s = 0; s < stages && !schedule.warm_ups.empty(); ++s) fprintf(stderr, "warm %d: %ld %ld kept %g saved %g\n", s, schedule.warm_ups[s].forwards, schedule.warm_ups[s].backwards, times.kept_for_weights[s], mixed(s, [](auto& c, auto&) { return c.saved; }));
  StagesTold told;
  ASSIGN_OR_RETURN(told.step_seconds, PlayedSeconds(schedule, seconds, family.micro_batches));
  const auto m = static_cast<double>(family.micro_batches);
  told.step_seconds += m * mean_each + mean_step;
  told.step_seconds = std::max(
      {told.step_seconds, m * issue * costs.front().issue_seconds, m * exchange + mean_step});
  const int64_t few = std::min(family.micro_batches,
                               FewMicroBatches(schedule, stages, family.micro_batches));
  const std::vector<StageOrder> orders = MakeOrders(schedule, stages, few);
  for (int s = 0; s < stages; ++s) {
    const double saved = mixed(s, [](auto& c, auto&) { return c.saved; });
    const double kept = mixed(s, [](auto& c, auto&) { return c.kept; });
    const bool splits = schedule.splits_backward && stages > 1;
    const Held held = CountHeld(orders[s], family.chunks, splits, saved > 0 ? kept / saved : 0);
    double other = 0;
    for (size_t p = 0; p < costs.size(); ++p) {
      if (blocks[s][p] > 0) other = std::max(other, at(p, s).other_bytes);
    }
    told.bytes.push_back(mixed(s, [](auto& c, auto&) { return c.resident; }) + other +
                         held.forward * saved + held.weights * kept);
  }
  return told;
}

}  // namespace oneflow
