#include "planning/search/stage_runs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "compiler/memory/lower_bound.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// The parts of a step that a task may be, as bits.
enum Parts { kForward = 1, kBackward = 2, kWeights = 4, kUpdate = 8 };

// The part of a step that a segment is of, by its name: "F", of a chunk "F1".
int FindPart(const std::string& name) {
  if (name.empty() || name.find_first_not_of("0123456789", 1) != std::string::npos) return 0;
  switch (name[0]) {
    case 'F': return kForward;
    case 'B': return kBackward;
    case 'W': return kWeights;
    case 'U': return kUpdate;
    default: return 0;
  }
}

class Reader {
 public:
  Reader(const proto::Plan& plan, const SimulatedRun& run)
      : plan_(plan),
        program_(*FindProgram(plan, "train")),
        run_(run),
        micro_batches_(program_.micro_batches()),
        part_(program_.actor_size(), 0),
        computes_(program_.segment_size(), false),
        kernel_(program_.actor_size(), false) {
    int stages = 0;
    for (const proto::Actor& actor : program_.actor()) {
      stages = std::max(stages, actor.stage() + 1);
    }
    stages_.resize(stages);
    for (const proto::Segment& segment : program_.segment()) {
      for (const int actor : segment.actor()) part_[actor] = FindPart(segment.name());
    }
  }

  absl::StatusOr<std::vector<StageRun>> Read() && {
    ReadStreams();
    TimeTasks();
    CountBytes();
    RETURN_IF_ERROR(FindHeld());
    for (const proto::StageMemory& memory : plan_.memory()) {
      if (memory.kind() != proto::DEVICE) continue;
      const auto bytes = static_cast<double>(memory.persistent_bytes());
      StageRun& stage = stages_[memory.stage()];
      stage.resident += bytes;
      for (double StageHeld::*part :
           {&StageHeld::head, &StageHeld::tail, &StageHeld::update, &StageHeld::any}) {
        stage.held.*part += bytes;
      }
      for (double& block : stage.held.blocks) block += bytes;
    }
    return std::move(stages_);
  }

 private:
  int64_t Firings(const proto::Actor& actor) const {
    return run_.net.firings[run_.net.Find(actor.stage(), actor.id())];
  }
  bool IsOften(const proto::Actor& actor) const { return Firings(actor) >= micro_batches_; }
  double Seconds(const proto::Actor& actor) const {  // of a step
    return run_.FiringSeconds(run_.net.Find(actor.stage(), actor.id())) *
           static_cast<double>(Firings(actor));
  }

  void ReadStreams() {
    const auto m = static_cast<double>(micro_batches_);
    for (const proto::Stream& stream : program_.stream()) {
      std::set<int> segments;
      for (const proto::OrderRun& order : stream.order()) {
        segments.insert(order.segment().begin(), order.segment().end());
      }
      StageRun& stage = stages_[stream.stage()];
      const bool computes = stream.kind() == proto::Stream::COMPUTE;
      const bool of_host =
          stream.kind() == proto::Stream::HOST || stream.kind() == proto::Stream::HOST_COMPUTE;
      StreamUse use;
      for (const int segment : segments) {
        computes_[segment] = computes;
        for (const int id : program_.segment(segment).actor()) {
          const proto::Actor& actor = program_.actor(id);
          kernel_[id] = computes;
          const bool often = IsOften(actor);
          (often ? use.each : use.once) += Seconds(actor) / (often ? m : 1);
          if (of_host) continue;
          (often ? stage.firings : stage.firings_once) +=
              static_cast<double>(Firings(actor)) / (often ? m : 1);
        }
      }
      if (!computes) stage.streams[stream.name()] = use;
    }
  }

  SimulatedRun::Span FindSpan(int actor, int64_t firing) const {
    return run_.FindSpan(run_.net.Find(program_.actor(actor).stage(), actor), firing);
  }

  // By actor: the exchanges that stand between what comes from another stage and the actor, in
  // seconds; none where it reads nothing of that kind.
  std::vector<std::optional<double>> FindReceivers() const {
    std::map<int, double> received;  // by register
    std::vector<std::optional<double>> found(program_.actor_size());
    for (bool more = true; more;) {
      const size_t before = received.size();
      for (const proto::Actor& actor : program_.actor()) {
        const bool receives = IsReceive(actor.kernel());
        std::optional<double>& seconds = found[actor.id()];
        for (const proto::Input& input : actor.input()) {
          const auto at = received.find(input.register_());
          if (at != received.end()) seconds = std::max(seconds.value_or(0), at->second);
        }
        // A kernel that takes it does the stage's own work.
        if (!receives && (!seconds || kernel_[actor.id()])) continue;
        const double own = receives ? 0 : Seconds(actor) / static_cast<double>(Firings(actor));
        for (const int id : actor.output()) received.try_emplace(id, seconds.value_or(0) + own);
      }
      more = received.size() > before;
    }
    return found;
  }

  void TimeTasks() {
    std::map<std::pair<int, std::string>, std::vector<int>> tasks;  // their actors
    for (const proto::Segment& s : program_.segment()) {
      const int part = FindPart(s.name());
      if (!computes_[s.id()] || part == 0 || part == kUpdate) continue;
      std::vector<int>& actors = tasks[{s.stage(), s.name()}];
      actors.insert(actors.end(), s.actor().begin(), s.actor().end());
    }
    const std::vector<std::optional<double>> receives = FindReceivers();
    for (StageRun& stage : stages_) stage.spans = stage.kernels = {0, 0, 0};
    for (const auto& [task, actors] : tasks) {
      if (!actors.empty()) TimeTask(FindPart(task.second), actors, receives, &stages_[task.first]);
    }
  }

  void TimeTask(int part, const std::vector<int>& actors,
                const std::vector<std::optional<double>>& receives, StageRun* stage) const {
    const int64_t m = micro_batches_;
    double shortest = std::numeric_limits<double>::infinity(), kernels = 0, ahead = 0;
    for (int64_t firing = m; firing < 2 * m; ++firing) {  // the second step
      double seconds = FindSpan(actors.back(), firing).end - FindSpan(actors[0], firing).begin;
      for (size_t i = 1; i < actors.size(); ++i) {
        if (!receives[actors[i]]) continue;
        const double gap = FindSpan(actors[i], firing).begin - FindSpan(actors[i - 1], firing).end;
        seconds -= std::max(0.0, gap - *receives[actors[i]]);
      }
      shortest = std::min(shortest, seconds);
    }
    bool waited = false;
    for (const int actor : actors) {
      waited = waited || receives[actor].has_value();
      const double seconds = Seconds(program_.actor(actor)) / static_cast<double>(m);
      kernels += seconds;
      if (!waited) ahead += seconds;
    }
    const auto at = part == kForward    ? &TaskSeconds::forward
                    : part == kBackward ? &TaskSeconds::backward
                                        : &TaskSeconds::weights;
    stage->spans.*at += shortest;
    stage->kernels.*at += kernels;
    if (part == kBackward && waited) stage->ahead += ahead;
    if (part == kForward && m >= 3) {
      stage->cycle = FindSpan(actors[0], 2 * m - 1).begin - FindSpan(actors[0], 2 * m - 2).begin;
    }
  }

  // The parts of a step that write and read a register, and whether each micro-batch does.
  struct Use {
    int written = 0, read = 0;
    bool often = false;
  };

  std::vector<Use> FindUses() const {
    const int first = plan_.persistent_size();
    std::vector<Use> uses(program_.register__size());
    for (const proto::Actor& actor : program_.actor()) {
      for (const int id : actor.output()) {
        if (id < first) continue;
        uses[id - first].written = part_[actor.id()];
        uses[id - first].often = IsOften(actor);
      }
      for (const proto::Input& input : actor.input()) {
        if (input.register_() >= first) uses[input.register_() - first].read |= part_[actor.id()];
      }
    }
    return uses;
  }

  void CountBytes() {
    const std::vector<Use> uses = FindUses();
    constexpr int kTasks = kForward | kBackward | kWeights;
    for (int r = 0; r < program_.register__size(); ++r) {
      const proto::Register& reg = program_.register_(r);
      if (reg.memory_kind() == proto::HOST) continue;
      const auto& [written, read, often] = uses[r];
      StageRun& stage = stages_[reg.stage()];
      const auto bytes = static_cast<double>(reg.slot_bytes());
      // With one micro-batch there is nothing to sum: its gradients stay until they are used.
      const bool used = (read & kUpdate) != 0 && (written & kUpdate) == 0;
      if (often && (micro_batches_ > 1 ? reg.fires_per_fill() > 1 : used)) {
        stage.sums += bytes;
      } else if (!often) {
        if ((read & kTasks) != 0) stage.resident += bytes;
      } else {
        // What comes from another stage or from an exchange is written by no segment of compute.
        const bool before = written == kForward || (written == 0 && (read & kForward) != 0);
        const bool later = (read & (kBackward | kWeights)) != 0;
        if (before && later) stage.saved += bytes;
        if (written != kWeights && (read & kWeights) != 0) stage.kept += bytes;
        if (written == kForward && later) stage.fit_saved += bytes;
        if ((written == kForward || written == kBackward) && (read & kWeights) != 0) {
          stage.fit_kept += bytes;
        }
      }
    }
  }

  absl::Status FindHeld() {
    ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan_, program_));
    const std::vector<int64_t> held = HeldByActor(net, static_cast<int>(std::ssize(stages_)));
    const proto::ProgramFacts& facts = FindFacts(plan_, program_);
    const auto find_block = [&](int actor) {
      return actor < facts.actor_size() && facts.actor(actor).has_block()
                 ? facts.actor(actor).block()
                 : -1;
    };
    std::vector<std::set<int>> blocks(stages_.size());
    for (const proto::Actor& actor : program_.actor()) {
      const int block = find_block(actor.id());
      if (kernel_[actor.id()] && block >= 0) blocks[actor.stage()].insert(block);
    }
    for (size_t s = 0; s < stages_.size(); ++s) stages_[s].held.blocks.resize(blocks[s].size());
    for (const proto::Segment& segment : program_.segment()) {
      StageHeld& stage = stages_[segment.stage()].held;
      const std::set<int>& its = blocks[segment.stage()];
      const int part = FindPart(segment.name());
      const bool task = part == kForward || part == kBackward;
      bool was_in_block = false;
      for (const int actor : segment.actor()) {
        const auto at = its.find(find_block(actor));
        double* most = part == kUpdate ? &stage.update : &stage.any;
        if (task && at != its.end()) {
          most = &stage.blocks[std::distance(its.begin(), at)];
          was_in_block = true;
        } else if (task && computes_[segment.id()]) {
          // Before a forward's blocks, and behind a backward's, there is the embedding.
          most = was_in_block == (part == kForward) ? &stage.head : &stage.tail;
        }
        *most = std::max(*most, static_cast<double>(held[actor]));
      }
    }
    return absl::OkStatus();
  }

  const proto::Plan& plan_;
  const proto::Program& program_;
  const SimulatedRun& run_;
  const int64_t micro_batches_;
  std::vector<int> part_;  // by actor
  // By segment, and by actor: whether it stands on a stream of kernels.
  std::vector<bool> computes_, kernel_;
  std::vector<StageRun> stages_;
};

}  // namespace

absl::StatusOr<std::vector<StageRun>> FindStageRuns(const proto::Plan& plan,
                                                    const SimulatedRun& run) {
  return Reader(plan, run).Read();
}

double FindLinkSeconds(const proto::Plan& plan, const SimulatedRun& run) {
  const proto::Program& program = *FindProgram(plan, "train");
  double most = 0;
  for (const proto::Stream& stream : program.stream()) {
    // Those of an update are as often as those of a micro-batch where a step has one.
    if (stream.name().starts_with("receive.update")) continue;
    for (const proto::OrderRun& order : stream.order()) {
      for (const int segment : order.segment()) {
        for (const int id : program.segment(segment).actor()) {
          const int32_t at = run.net.Find(stream.stage(), id);
          const bool often = run.net.firings[at] >= program.micro_batches();
          if (!often || !IsReceive(program.actor(id).kernel())) continue;
          most = std::max(most, run.FiringSeconds(at));
        }
      }
    }
  }
  return most;
}

}  // namespace oneflow
