#include "oneflow_core/plan/verify_memory.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/happens_before.h"

namespace oneflow {
namespace {

// The wrap-around from one step to the next is covered by the second.
constexpr int64_t kSteps = 2;

// Plays the game to its end. Where the marking repeats itself, it tries to skip: knowledge takes
// longer to settle than the marking, and a trial copies the game, so trials come at doubling
// distances.
class MemoryProof {
 public:
  MemoryProof(const PlanNet& net, const AxisSets& axes, const Interests& interests)
      : net_(net), game_(net, axes, interests, kSteps), steady_(net) {}

  absl::Status Run() {
    ReadyStreams ready(net_);
    while (!ready.empty()) {
      const int s = ready.Pop();
      bool fired = false;
      while (!game_.marking().done(s) && !game_.marking().BlockerOf(game_.marking().next(s))) {
        RETURN_IF_ERROR(game_.Fire(s));
        fired = true;
        if (trial_) trial_->firings.push_back(s);
        if (steady_.AtRepeat(s, game_.marking())) LookForCycle();
      }
      if (fired) ready.Wake(s);
    }
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      if (game_.marking().done(static_cast<int>(s))) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("program ", net_.program->name(), ": the second step does not finish"));
    }
    return absl::OkStatus();
  }

 private:
  struct Trial {
    HappensBefore begin;
    std::vector<int> firings;  // streams, since then
  };
  static constexpr int64_t kPatience = 4;  // repeats a trial may take to come round

  void LookForCycle() {
    const Cycle cycle = steady_.Find(game_.marking());
    if (trial_) {
      ++waited_;
      const Cycle tried = CycleBetween(net_, trial_->begin.marking(), game_.marking());
      if (tried.times > 0 && game_.SkipCycles(trial_->begin, trial_->firings, tried)) {
        steady_.Forget();
        wait_ = 1;
      }
      if (tried.times > 0 || waited_ == kPatience) trial_.reset(), waited_ = 0;
    } else if (cycle.times > 1 && ++waited_ >= wait_) {
      trial_.emplace(Trial{game_, {}});
      wait_ *= 2;
      waited_ = 0;
    }
  }

  const PlanNet& net_;
  HappensBefore game_;
  SteadyState steady_;
  std::optional<Trial> trial_;
  int64_t wait_ = 1, waited_ = 0;  // repeats between trials
};

}  // namespace

absl::Status VerifyMemory(const PlanNet& net) {
  ASSIGN_OR_RETURN(const AxisSets axes, AxisSets::Of(net));
  const Interests interests(net);
  return MemoryProof(net, axes, interests).Run();
}

}  // namespace oneflow
