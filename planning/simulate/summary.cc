#include "planning/simulate/summary.h"

#include <algorithm>

#include "oneflow_core/cost/host_cost.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "planning/simulate/critical_path.h"
#include "planning/simulate/run_figures.h"
#include "planning/simulate/step_parts.h"

namespace oneflow {
namespace {

constexpr int kMemoryPoints = 400;

// A run with what its plan says of it.
class Summarizer {
 public:
  Summarizer(const proto::Plan& plan, const SimulatedRun& run)
      : plan_(plan),
        program_(plan.program(static_cast<int>(run.net.program_index))),
        run_(run),
        segment_of_(program_.actor_size(), -1) {
    for (const proto::Segment& segment : program_.segment()) {
      for (const int actor : segment.actor()) segment_of_[actor] = segment.id();
    }
  }

  // Adds one device a stage: its contents, and how many devices do the same.
  void AddDevices(SimulationSummary* summary) const {
    const std::vector<LiveMemory> memory = FindLiveMemory(plan_, run_);
    const Utilization use = FindUtilization(run_);
    summary->bubble = use.bubble;
    summary->bubble_over_busy = use.bubble_over_busy;
    summary->parts = FindStepParts(plan_, run_, use);
    summary->moves_to_host = MovesToHost(run_);
    for (int stage = 0; stage < run_.net.own.size(); ++stage) {
      SimulationSummary::Device& device = summary->stages.emplace_back();
      device.stage = stage;
      device.devices = summary->devices / run_.net.own.size();
      device.time = use.devices[stage];
      device.peak_bytes = memory[stage].peak_bytes;
      device.memory = Coarsened(memory[stage], run_, kMemoryPoints);
      for (const proto::StageMemory& planned : plan_.memory()) {
        if (planned.stage() != stage || planned.kind() != proto::DEVICE) continue;
        device.arena_bytes += planned.arena_bytes();
        device.persistent_bytes += planned.persistent_bytes();
      }
    }
    if (RestsOnHost(plan_)) AddHostMemory(summary);
    for (size_t s = 0; s < run_.net.streams.size(); ++s) {
      const StreamOrder& stream = run_.net.streams[s];
      summary->stages[stream.rank].streams.push_back(
          {stream.name, run_.kind_of[s] == proto::Stream::HOST, use.stream_busy[s], FindBlocks(s)});
    }
    AddCopies(summary);
  }

  void AddHostMemory(SimulationSummary* summary) const {
    const std::vector<LiveMemory> memory = FindLiveMemory(plan_, run_, proto::HOST);
    for (SimulationSummary::Device& device : summary->stages) {
      const proto::StageMemory& planned =
          plan_.memory(ArenaIndex(proto::HOST, device.stage, StageCount(plan_)));
      device.host_arena_bytes = planned.arena_bytes();
      device.host_persistent_bytes = planned.persistent_bytes();
      device.host_peak_bytes = memory[device.stage].peak_bytes;
      device.host_memory = Coarsened(memory[device.stage], run_, kMemoryPoints);
    }
  }

  void AddActors(const CriticalPath& path, SimulationSummary* summary) const {
    const proto::ProgramFacts& facts = FindFacts(plan_, program_);
    double flops = 0;
    for (size_t a = 0; a < run_.net.specs.size(); ++a) {
      const proto::Actor& actor = program_.actor(static_cast<int>(run_.net.specs[a].actor));
      SimulationSummary::Actor& row = summary->actors.emplace_back();
      const proto::ActorFacts& known = FindFacts(facts, actor.id());
      row = {actor.name(), FormName(actor), known.why(), actor.stage(), actor.has_boxing()};
      row.firings = run_.net.firings[a];
      row.seconds = run_.FiringSeconds(static_cast<int32_t>(a));
      const double a_step =
          static_cast<double>(row.firings) / static_cast<double>(run_.steps_a_round);
      row.seconds_a_step = row.seconds * a_step;
      row.slack = path.slack[a];
      row.bytes_moved = known.bytes_moved();
      flops += known.flops() * a_step;
    }
    if (run_.StepSeconds() > 0) {
      summary->flops_a_device_second = flops / run_.net.own.size() / run_.StepSeconds();
    }
    std::stable_sort(
        summary->actors.begin(), summary->actors.end(),
        [](const auto& a, const auto& b) { return a.seconds_a_step > b.seconds_a_step; });
  }

  // Lists the path of the run, and sums its part in the last step.
  void AddPath(const CriticalPath& path, SimulationSummary* summary) const {
    const std::vector<double>& ends = run_.step_ends;
    const double from = ends.size() > 1 ? ends[ends.size() - 2] : 0;
    const std::vector<std::string_view> work = FindWork(plan_, run_);
    const auto add = [&](std::string_view kind, const std::string& kernel, double seconds) {
      if (seconds <= 0) return;
      seconds /= static_cast<double>(run_.steps_a_round);
      summary->critical_seconds[kernel] += seconds;
      summary->critical_kinds[std::string(kind)][kernel] += seconds;
      summary->critical_step_seconds += seconds;
    };
    double waited = 0;
    // No period leads from step to step: orders repeat within one.
    for (size_t r = 0; r < path.skipped.size(); ++r) {
      if (run_.repeats[r].skipped_begin() < from) continue;
      for (size_t a = 0; a < work.size(); ++a) {
        add(work[a], KernelName(a), path.skipped[r].seconds[a]);
      }
      waited += path.skipped[r].waited;
    }
    for (const CriticalFiring& at : path.firings) {
      const SimulatedRun::Span span = run_.FindSpan(at.actor, at.firing);
      const ActorSpec& spec = run_.net.specs[at.actor];
      add(work[at.actor], KernelName(at.actor), span.end - std::max(from, span.begin));
      waited += std::clamp(span.begin - from, 0.0, at.waited);
      const StreamOrder& stream = run_.net.streams[run_.net.stream_of[at.actor]];
      const int64_t a_step = run_.net.firings[at.actor];
      const SimulationSummary::Block block{SegmentName(at.actor), at.firing % a_step,
                                           at.firing / a_step, span.begin, span.end};
      std::vector<SimulationSummary::PathPiece>& pieces = summary->critical_path;
      if (!pieces.empty() && Continues(pieces.back(), spec, stream, block)) {
        pieces.back().block.end = span.end;
      } else {
        pieces.push_back({static_cast<int>(spec.rank), stream.name, block});
      }
    }
    add("waiting", "(waiting)", waited);
  }

 private:
  void AddCopies(SimulationSummary* summary) const {
    for (size_t a = 0; a < run_.net.specs.size(); ++a) {
      const ActorSpec& spec = run_.net.specs[a];
      const std::optional<HostCopy> copy =
          FindHostCopy(program_.actor(static_cast<int>(spec.actor)).kernel());
      if (!copy) continue;
      SimulationSummary::Device& device = summary->stages[spec.rank];
      const double a_step =
          static_cast<double>(run_.net.firings[a]) / static_cast<double>(run_.steps_a_round);
      (*copy == HostCopy::kToHost ? device.to_host_seconds : device.from_host_seconds) +=
          a_step * run_.FiringSeconds(static_cast<int32_t>(a));
    }
  }

  std::string KernelName(size_t actor) const {
    return FormName(program_.actor(static_cast<int>(run_.net.specs[actor].actor)));
  }

  const std::string& SegmentName(int32_t actor) const {
    return program_.segment(segment_of_[run_.net.specs[actor].actor]).name();
  }

  static bool Continues(const SimulationSummary::PathPiece& piece, const ActorSpec& spec,
                        const StreamOrder& stream, const SimulationSummary::Block& block) {
    return piece.stage == static_cast<int>(spec.rank) && piece.stream == stream.name &&
           piece.block.segment == block.segment && piece.block.number == block.number &&
           piece.block.step == block.step;
  }

  std::vector<SimulationSummary::Block> FindBlocks(size_t s) const {
    const StreamOrder& stream = run_.net.streams[s];
    std::vector<SimulationSummary::Block> blocks;
    std::vector<int64_t> fired(stream.actors.size(), 0);
    int64_t fired_together = 0;
    auto repeat = run_.repeats.begin();
    for (int64_t step = 0; step < run_.options.steps; ++step) {
      FiringOrder::Cursor at;
      for (bool more = true; more;) {
        const int32_t first = stream.firings.IndexAt(at), actor = stream.actors[first];
        const int segment = segment_of_[run_.net.specs[actor].actor];
        const int64_t before = fired[first];
        SimulationSummary::Block block{SegmentName(actor), 0, step};
        // A segment fires all its actors, one after the other.
        int64_t skipped = 0;  // firings of the first since this block began
        for (int i = 0; i < program_.segment(segment).actor_size(); ++i) {
          while (repeat != run_.repeats.end() && fired_together == repeat->fired[s]) {
            for (size_t j = 0; j < fired.size(); ++j) {
              const int64_t n = repeat->times * repeat->firings[stream.actors[j]];
              fired[j] += n;
              fired_together += n;
            }
            skipped += repeat->times * repeat->firings[actor];
            FiringOrder::SkipRepeats(repeat->times * repeat->order_repeats[s], &at);
            ++repeat;
          }
          const int32_t index = stream.firings.IndexAt(at);
          block.end = run_.FindSpan(stream.actors[index], fired[index]++).end;
          ++fired_together;
          more = stream.firings.Next(&at);
        }
        block.number = before + skipped - step * run_.net.firings[actor];
        block.begin = run_.FindSpan(actor, before + skipped).begin;
        block.busy = block.end - block.begin;
        blocks.push_back(std::move(block));
      }
    }
    return blocks;
  }

  const proto::Plan& plan_;
  const proto::Program& program_;
  const SimulatedRun& run_;
  std::vector<int> segment_of_;  // by actor of the program
};

}  // namespace

SimulationSummary Summarize(const proto::Plan& plan, const std::string& cluster,
                            const SimulatedRun& run) {
  SimulationSummary summary;
  summary.model = plan.model();
  summary.cluster = cluster;
  summary.program = run.net.program;
  summary.devices = 1;
  for (const proto::Mesh::Axis& axis : plan.mesh().axis()) summary.devices *= axis.size();
  summary.steps = run.options.steps;
  summary.steps_a_round = run.steps_a_round;
  summary.step_seconds = run.StepSeconds();
  summary.seconds = run.seconds();
  if (summary.step_seconds > 0) {
    summary.device_tokens_a_second =
        FindFigures(plan, summary.program).device_tokens / summary.step_seconds;
  }
  for (const SimulatedRun::Repeat& repeat : run.repeats) {
    summary.repeats.push_back({repeat.begin, repeat.seconds, repeat.times});
  }
  const CriticalPath path = FindCriticalPath(run);
  const Summarizer summarizer(plan, run);
  summarizer.AddDevices(&summary);
  summarizer.AddActors(path, &summary);
  summarizer.AddPath(path, &summary);
  return summary;
}

}  // namespace oneflow
