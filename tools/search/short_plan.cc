#include "tools/search/short_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/simulate/simulate_on.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "tools/search/played_step.h"
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
  double exchange = 0;         // seconds of a micro-batch on the busiest stream of exchanges
  double bytes = 0;            // the lower bound
  double resident = 0;         // of it: variables, gradients, and casts of weights
  double saved = 0, kept = 0;  // a micro-batch's, from F to B and from B to W
  Held held;

  double seconds() const { return forward.seconds + backward.seconds + weights.seconds; }
  double firings() const { return forward.firings + backward.firings + weights.firings; }
  double KeptForWeights() const { return saved > 0 && kept > 0 ? kept / saved : 1; }
  double OtherBytes() const {
    return bytes - resident - held.activations * saved - held.for_weights * kept;
  }
};

struct ShortRun {
  std::vector<StageRun> stages;
  double link = 0;
  double each_micro_batch = 0, each_step = 0;
};

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

CompileOptions ShortOptions(const CompileOptions& given, const ShortPlanSpec& spec,
                            const std::string& recompute, int blocks) {
  CompileOptions options = CandidateOptions(given, {spec.family, {.recompute = recompute}});
  const int stages = ShortStages(given, spec.family.mesh);
  for (Mesh::Axis& axis : options.mesh.axes) {
    if (axis.name == "pipe") axis.size = stages;
  }
  options.cluster = ClusterOfShort(given.cluster, spec.devices);
  options.cluster.mutable_device()->clear_memory_bytes();
  options.host_memory = 0;
  const int64_t micro_batches = std::min(spec.family.micro_batches, kMicroBatches);
  options.train.set_micro_batches(micro_batches);
  options.train.set_batch(micro_batches * spec.sequences);
  if (spec.family.chunks > 1) {
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

// Of a transfer between two stages for a micro-batch, at most.
double FindLinkSeconds(const proto::Program& program, const SimulatedRun& run, int64_t m) {
  double most = 0;
  for (const proto::Actor& actor : program.actor()) {
    const int32_t at = run.net.Find(actor.stage(), actor.id());
    if (actor.kernel() != "receive" || run.net.firings[at] < m) continue;
    most = std::max(most, run.FiringSeconds(at));
  }
  return most;
}

// The stream of exchanges that is busiest in a micro-batch bounds its time from below.
void AddExchanges(const proto::Program& program, const SimulatedRun& run, int64_t m,
                  std::vector<StageRun>* stages) {
  for (const proto::Stream& stream : program.stream()) {
    if (stream.kind() != proto::Stream::EXCHANGE) continue;
    std::set<int> actors;
    for (const proto::OrderRun& order : stream.order()) {
      for (const int segment : order.segment()) {
        actors.insert(program.segment(segment).actor().begin(),
                      program.segment(segment).actor().end());
      }
    }
    double busy = 0;
    for (const int actor : actors) {
      const int32_t at = run.net.Find(stream.stage(), actor);
      const int64_t firings = run.net.firings[at];
      if (firings >= m) busy += run.FiringSeconds(at) * static_cast<double>(firings);
    }
    double& most = (*stages)[stream.stage()].exchange;
    most = std::max(most, busy / static_cast<double>(m));
  }
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

PipeSeconds FindSeconds(const ShortRun& run) {
  PipeSeconds seconds;
  for (const StageRun& stage : run.stages) {
    seconds.stages.push_back(
        {stage.forward.seconds, stage.backward.seconds, stage.weights.seconds});
  }
  seconds.links.assign(run.stages.size(), run.link);
  return seconds;
}

absl::StatusOr<ShortRun> RunShort(const GraphSource& source, const CompileOptions& given,
                                  const ShortPlanSpec& spec, const std::string& recompute,
                                  int blocks) {
  const CompileOptions options = ShortOptions(given, spec, recompute, blocks);
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
  result.link = FindLinkSeconds(program, run, m);
  AddExchanges(program, run, m, &result.stages);
  CountSaved(plan, program, run, m, &result.stages);
  ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(options.train, stages));
  const PipeSeconds seconds = FindSeconds(result);
  std::vector<double> kept;
  for (const StageRun& stage : result.stages) kept.push_back(stage.KeptForWeights());
  schedule = FitToStages(schedule, seconds, kept, m, options.train.no_global_norm());
  const std::vector<Held> held = CountHeld(schedule, stages, m, kept);
  for (int s = 0; s < stages; ++s) {
    StageRun& stage = result.stages[s];
    stage.held = held[s];
    stage.bytes = static_cast<double>(plan.facts().lower_bound_bytes(s));
    stage.resident += static_cast<double>(plan.memory(s).persistent_bytes());
  }
  ASSIGN_OR_RETURN(const double played, PlayedSeconds(schedule, seconds, m));
  // The last stage has no warm-up: from one forward to the next it takes a whole period.
  double cycle = 0, longest = 0;
  if (m >= 3) {
    const Segments forward = segments(stages - 1, "F");
    cycle = Begin(run, forward, 2 * m - 1) - Begin(run, forward, 2 * m - 2);
  }
  for (const StageRun& stage : result.stages) longest = std::max(longest, stage.seconds());
  result.each_micro_batch = m < 3 ? 0 : std::max(0.0, cycle - longest);
  result.each_step = run.StepSeconds() - played - static_cast<double>(m) * result.each_micro_batch;
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
  costs.other_bytes = std::min(one.OtherBytes(), two.OtherBytes());
  costs.saved = Through(few, one.saved, two.saved);
  costs.kept = Through(few, one.kept, two.kept);
  costs.firings = Through(few, one.firings(), two.firings());
  return costs;
}

}  // namespace

ShortPlanSpec FindShortSpec(const CompileOptions& given, const PlanFamily& family) {
  return {family, given.train.batch() / family.micro_batches, family.mesh.devices()};
}

std::string ShortPlanKey(const CompileOptions& given, const ShortPlanSpec& spec,
                         const std::string& recompute) {
  Candidate candidate{spec.family, {.recompute = recompute}};
  PlanFamily& family = candidate.family;
  for (Mesh::Axis& axis : family.mesh.axes) {
    if (axis.name == "pipe") axis.size = ShortStages(given, spec.family.mesh);
  }
  if (family.chunks > 1) family.schedule = "1f1b";
  family.chunks = 1;
  family.micro_batches = std::min(family.micro_batches, kMicroBatches);
  return absl::StrCat(CandidateFlags(candidate), " of ", spec.sequences, " on ", spec.devices);
}

absl::StatusOr<ShortCosts> MeasureShortPlan(const GraphSource& source, const CompileOptions& given,
                                            const ShortPlanSpec& spec,
                                            const std::string& recompute) {
  // Where weights are gathered ahead, as many blocks hold gathered weights at once.
  const int few = spec.family.shard.weights.empty() ? 1 : 3;
  ASSIGN_OR_RETURN(const ShortRun one, RunShort(source, given, spec, recompute, few));
  ASSIGN_OR_RETURN(const ShortRun two, RunShort(source, given, spec, recompute, few + 1));
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

}  // namespace oneflow
