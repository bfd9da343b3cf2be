#include "oneflow_core/verify/verify_plan.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/net/marking.h"

namespace oneflow {
namespace {

// The game of one step, in the serial form: each device issues its exchanges one after another.
// This form is the strictest, so a program that completes in it completes on free devices, too
// (docs/firing.md).
//
// Invariants:
//  1. A firing happens only when nothing blocks it: all or nothing.
//  2. The net has no conflicts, so the order of firings changes neither the outcome nor the blocked
//     actors. Run() may therefore take streams in any order, and many cycles at once.
class TokenGame {
 public:
  TokenGame(const PlanNet& net, Play play)
      : net_(net), play_(play), marking_(net, Meeting::kInOrder) {}

  absl::Status Run() {
    const auto fire = [&](int s) {
      marking_.Fire(s);
      return true;
    };
    for (bool going = true; going;) {
      const Round round(net_, marking_);
      going = PlayRound(net_, round, marking_, fire);
      if (play_ == Play::kEveryFiring) continue;
      const Cycle cycle = CycleBetween(net_, round.begin(), marking_);
      if (cycle.times > 0) Skip(cycle, cycle.times, &marking_);
    }
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      if (!marking_.done(static_cast<int>(s))) return Stuck();
    }
    return absl::OkStatus();
  }

 private:
  // Several cycles of waits may exist; the shortest is the easiest to read.
  absl::Status Stuck() const {
    std::vector<int> best;
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      if (marking_.done(static_cast<int>(s))) continue;
      const std::vector<int> walk = WaitsFrom(static_cast<int>(s), net_, marking_);
      if (best.empty() || walk.size() < best.size()) best = walk;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("program ", net_.program->name(), " can stop for ever: ", Story(best)));
  }

  // "F of stage 0 in micro-batch 1 waits for a free slot of h, held by B of stage 0, which waits
  // for ..."
  std::string Story(const std::vector<int>& cycle) const {
    const int first = marking_.next(cycle[0]);
    std::string text = absl::StrCat(net_.ActorName(first), " in micro-batch ",
                                    marking_.fired(first), " waits for ");
    for (size_t i = 0; i < cycle.size(); ++i) {
      const int actor = marking_.next(cycle[i]);
      const Wait wait = marking_.FindBlocker(actor);
      text += WaitText(actor, wait);
      const int stream_of_wait = net_.actors[wait.actor].stream;
      if (marking_.done(stream_of_wait)) return text + ", whose step is over";
      const int stands = marking_.next(stream_of_wait);
      if (stands != wait.actor)
        absl::StrAppend(&text, ", which comes after ", net_.ActorName(stands));
      if (i + 1 < cycle.size()) absl::StrAppend(&text, ", which waits for ");
    }
    return text;
  }

  std::string WaitText(int waiting, const Wait& wait) const {
    const std::string actor = net_.ActorName(wait.actor);
    if (wait.kind == Wait::kPartner) {
      return absl::StrCat("its partner, which comes after ", actor);
    }
    // Tokens and orders of issue are local to a stage, so a blocker on another stage blocks the
    // partner.
    const bool of_partner = net_.actors[waiting].stage != net_.actors[wait.actor].stage;
    const std::string partner =
        of_partner ? absl::StrCat("its partner ", net_.ActorName(net_.actors[waiting].partner),
                                  ", which waits for ")
                   : "";
    if (wait.kind == Wait::kOrder) {
      return absl::StrCat(partner, "its turn to be issued, after ", actor);
    }
    const std::string& name = net_.registers[wait.reg].proto->name();
    return wait.kind == Wait::kFill
               ? absl::StrCat(partner, "a fill of ", name, ", written by ", actor)
               : absl::StrCat(partner, "a free slot of ", name, ", held by ", actor);
  }

  const PlanNet& net_;
  const Play play_;
  Marking marking_;
};

}  // namespace

absl::Status VerifyLiveness(const PlanNet& net, Play play) { return TokenGame(net, play).Run(); }

}  // namespace oneflow
