#include "compiler/schedule/choose_offload.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "compiler/lower/move_to_host.h"
#include "compiler/lower/task_order.h"
#include "compiler/schedule/bound_copies.h"
#include "compiler/schedule/slots.h"
#include "compiler/schedule/streams.h"
#include "compiler/schedule/timed_game.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {
namespace {

// A step with copies may be longer than one without by this share.
constexpr double kAsLong = 1.002;
constexpr int kPlays = 7;

// A candidate.
struct Kept {
  int reg = 0, writer = 0;
  std::vector<int> readers;  // of the backward
  std::tuple<int, Task, TaskOrder::Use> use;
  double times = 0;        // a step
  double bytes = 0;        // of the device: of all its slots
  double gap = 0;          // seconds, the shortest
  double out = 0, in = 0;  // seconds of its copies
  int index = 0;           // among those of its use
};

bool IsOfBackward(const Task& task) {
  return task.part == Part::kBackward || task.part == Part::kWeights;
}

// The registers that a forward of a device writes and a backward reads, once each a micro-batch.
std::vector<Kept> FindKept(const Lowered& lowered, const TaskOrder& order) {
  const proto::Program& program = lowered.program;
  std::map<int, Kept> kept;
  std::set<int> refused;
  for (const proto::Actor& actor : program.actor()) {
    for (const proto::Input& input : actor.input()) {
      const int writer = order.FindWriter(input.register_());
      if (writer < 0 || order.task(writer).part != Part::kForward) continue;
      if (input.fires_per_read() != 1 || input.initial_fills() != 0) {
        refused.insert(input.register_());
      }
      if (!IsOfBackward(order.task(actor.id()))) continue;
      Kept& found = kept[input.register_()];
      found.reg = input.register_();
      found.writer = writer;
      found.readers.push_back(actor.id());
    }
  }
  std::vector<Kept> result;
  for (auto& [id, found] : kept) {
    const proto::Register& r = program.register_(id - program.register_(0).id());
    const Lane lane = order.lane(found.writer);
    const bool data = lane == Lane::kHostIn || lane == Lane::kCopyIn;
    if (data || refused.contains(id) || r.slot_bytes() == 0 || r.memory_kind() != proto::DEVICE ||
        r.fill_mode() != proto::Register::FRESH || r.fires_per_fill() != 1) {
      continue;
    }
    found.use = {r.stage(), order.task(found.writer), order.FindUse(found.writer)};
    result.push_back(std::move(found));
  }
  return result;
}

class Chooser {
 public:
  Chooser(const OffloadSetting& setting, const std::vector<double>& seconds, Lowered* lowered)
      : setting_(setting),
        seconds_(seconds),
        lowered_(*lowered),
        order_(*lowered),
        kept_(FindKept(*lowered, order_)) {}

  absl::Status Run() {
    if (kept_.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(PlayWithout());
    RETURN_IF_ERROR(TimeCopies());
    Rank();
    std::vector<const Kept*> chosen;
    if (setting_.activations.all()) {
      for (const Kept& kept : kept_) chosen.push_back(&kept);
    } else if (setting_.activations.has_share()) {
      chosen = Select({.share = setting_.activations.share()});
    } else {
      ASSIGN_OR_RETURN(chosen, SelectHidden());
    }
    double out = 0, all = 0;
    for (const Kept& kept : kept_) all += kept.bytes;
    for (const Kept* kept : chosen) {
      lowered_.to_host.insert(kept->reg);
      out += kept->bytes;
    }
    lowered_.note = absl::StrFormat(
        "offload: %d of %d tensors that the backward reads, %.0f %% of their bytes, rest in the "
        "host's memory",
        chosen.size(), kept_.size(), all > 0 ? 100 * out / all : 0.0);
    return absl::OkStatus();
  }

 private:
  // A program of its own, with streams and slots.
  absl::Status Finish(proto::Program* program, Lowered* lowered) const {
    AddStreams(lowered, setting_.stages, setting_.schedule);
    RETURN_IF_ERROR(SetSlots(setting_.plan, &lowered->program));
    *program = lowered->program;
    return absl::OkStatus();
  }

  // The step without copies; gaps and slots of candidates.
  absl::Status PlayWithout() {
    Lowered without = lowered_;
    proto::Program program;
    RETURN_IF_ERROR(Finish(&program, &without));
    ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(setting_.plan, program));
    std::vector<std::vector<double>> written(net.actors.size()), read(net.actors.size());
    step_ = PlayByClock(
        net, seconds_, [&](int actor, double now) { read[actor].push_back(now); },
        [&](int actor, double now) { written[actor].push_back(now); });
    const int first = program.register_(0).id();
    for (Kept& kept : kept_) {
      kept.gap = std::numeric_limits<double>::infinity();
      for (const int reader : kept.readers) {
        const size_t times = std::min(written[kept.writer].size(), read[reader].size());
        for (size_t n = 0; n < times; ++n) {
          kept.gap = std::min(kept.gap, read[reader][n] - written[kept.writer][n]);
        }
      }
      const proto::Register& r = program.register_(kept.reg - first);
      kept.times = static_cast<double>(net.actors[kept.writer].firings);
      kept.bytes = static_cast<double>(r.slots()) * static_cast<double>(r.slot_bytes());
    }
    return absl::OkStatus();
  }

  absl::Status TimeCopies() {
    Lowered with = lowered_;
    for (const Kept& kept : kept_) with.to_host.insert(kept.reg);
    MoveToHost(setting_.plan.persistent(), &with);
    ASSIGN_OR_RETURN(const std::vector<double> seconds,
                     ActorSeconds(setting_.plan, with.program, with.facts, setting_.cluster));
    std::map<int, int> host_of;  // by register of the device
    for (const proto::Actor& actor : with.program.actor()) {
      if (actor.kernel() == "copy_out") host_of[actor.input(0).register_()] = actor.output(0);
    }
    std::map<int, double> in_of, out_of;  // by register of the host
    for (const proto::Actor& actor : with.program.actor()) {
      if (actor.kernel() == "copy_in") in_of[actor.input(0).register_()] += seconds[actor.id()];
      if (actor.kernel() == "copy_out") out_of[actor.output(0)] += seconds[actor.id()];
    }
    for (Kept& kept : kept_) {
      const auto host = host_of.find(kept.reg);
      if (host == host_of.end()) continue;
      kept.out = out_of[host->second];
      kept.in = in_of[host->second];
    }
    return absl::OkStatus();
  }

  // The first tensors of all blocks, then the second ones, and so on: so that no block has more to
  // copy than others, and compute, which runs at most `ahead` blocks before the link, does not wait
  // in one block for what it could copy in the next. Within a block those come first of which a
  // second of the link saves most bytes; among blocks those with the longest time between uses.
  void Rank() {
    const auto worth = [](const Kept& kept) { return kept.bytes / (kept.out + kept.in + 1e-12); };
    std::stable_sort(kept_.begin(), kept_.end(),
                     [&](const Kept& a, const Kept& b) { return worth(a) > worth(b); });
    std::map<std::tuple<int, Task, TaskOrder::Use>, int> of_use;
    for (Kept& kept : kept_) kept.index = of_use[kept.use]++;
    std::stable_sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) {
      return a.index != b.index ? a.index < b.index : a.gap > b.gap;
    });
  }

  // What a stage may copy.
  struct Limit {
    double share = 1;    // of the bytes of its candidates
    double link = 1e30;  // seconds of a step, each way
  };

  // The first candidates within the limit, but those whose use would come back too late.
  std::vector<const Kept*> Select(const Limit& limit) const {
    std::map<int, double> all, bytes, out, in;  // by stage
    for (const Kept& kept : kept_) all[std::get<0>(kept.use)] += kept.bytes;
    std::map<std::tuple<int, Task, TaskOrder::Use>, double> trip;
    std::vector<const Kept*> selected;
    for (const Kept& kept : kept_) {
      const int stage = std::get<0>(kept.use);
      const double more_out = kept.times * kept.out, more_in = kept.times * kept.in;
      if (kept.gap < trip[kept.use] + kept.out + kept.in ||
          bytes[stage] + kept.bytes > limit.share * all[stage] * (1 + 1e-9) ||
          out[stage] + more_out > limit.link || in[stage] + more_in > limit.link) {
        continue;
      }
      trip[kept.use] += kept.out + kept.in;
      bytes[stage] += kept.bytes;
      out[stage] += more_out;
      in[stage] += more_in;
      selected.push_back(&kept);
    }
    return selected;
  }

  // As much of each link as costs no time: the more of a step it is busy, the longer the step.
  absl::StatusOr<std::vector<const Kept*>> SelectHidden() const {
    ASSIGN_OR_RETURN(const double without, PlayWith({}));  // but with copies of other things
    std::vector<const Kept*> best;
    double good = 0, bad = 1;
    for (int i = 0; i < kPlays; ++i) {
      const double tried = i == 0 ? bad : (good + bad) / 2;
      std::vector<const Kept*> selected = Select({.link = tried * step_});
      ASSIGN_OR_RETURN(const double step, PlayWith(selected));
      if (step <= kAsLong * without) {
        good = tried;
        best = std::move(selected);
        if (i == 0) break;
      } else {
        bad = tried;
      }
    }
    return best;
  }

  absl::StatusOr<double> PlayWith(const std::vector<const Kept*>& chosen) const {
    Lowered with = lowered_;
    for (const Kept* kept : chosen) with.to_host.insert(kept->reg);
    MoveToHost(setting_.plan.persistent(), &with);
    BoundCopies(setting_.ahead, &with);
    ASSIGN_OR_RETURN(const std::vector<double> seconds,
                     ActorSeconds(setting_.plan, with.program, with.facts, setting_.cluster));
    proto::Program program;
    RETURN_IF_ERROR(Finish(&program, &with));
    ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(setting_.plan, program));
    return PlayByClock(
        net, seconds, [](int, double) {}, [](int, double) {});
  }

  const OffloadSetting& setting_;
  const std::vector<double>& seconds_;
  Lowered& lowered_;
  const TaskOrder order_;
  std::vector<Kept> kept_;  // once ranked, the first to go first
  double step_ = 0;         // seconds without any copies
};

}  // namespace

absl::Status ChooseOffload(const OffloadSetting& setting, const std::vector<double>& seconds,
                           Lowered* lowered) {
  return Chooser(setting, seconds, lowered).Run();
}

}  // namespace oneflow
