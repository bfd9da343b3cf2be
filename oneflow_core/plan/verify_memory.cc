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

// Plays the game to its end. Where a round is a cycle of the marking, it tries to skip. Knowledge
// takes longer to settle than the marking, and a trial copies the game, so one comes only once what
// streams know moves along, and after one that failed the next at twice the distance.
class MemoryProof {
 public:
  MemoryProof(const PlanNet& net, const AxisSets& axes, const Interests& interests, Play play)
      : net_(net), play_(play), game_(net, axes, interests, kSteps) {}

  absl::Status Run() {
    for (bool going = true; going && refusal_.ok();) going = PlayRound();
    if (!refusal_.ok()) return refusal_;
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      if (game_.marking().done(static_cast<int>(s))) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("program ", net_.program->name(), ": the second step does not finish"));
    }
    return absl::OkStatus();
  }

 private:
  bool PlayRound() {
    const Round round(net_, game_.marking());
    const bool trial = settled_ && cycles_ >= next_trial_;
    std::optional<HappensBefore> begin;
    if (trial) begin = game_;
    const StreamClocks::Known known = game_.clocks().known();
    std::vector<int> firings;
    const bool fired = oneflow::PlayRound(net_, round, game_.marking(), [&](int s) {
      refusal_ = game_.Fire(s);
      if (trial) firings.push_back(s);
      return refusal_.ok();
    });
    const Cycle cycle = CycleBetween(net_, round.begin(), game_.marking());
    const bool goes_on = fired && cycle.times > 0;
    if (!goes_on || (trial && game_.SkipCycles(*begin, firings, cycle))) {
      cycles_ = 0, next_trial_ = 1, settled_ = false;
      return fired;
    }
    if (trial) next_trial_ = 2 * cycles_;
    ++cycles_;
    settled_ = play_ == Play::kSkipCycles && game_.clocks().MovesAlong(known);
    return fired;
  }

  const PlanNet& net_;
  const Play play_;
  HappensBefore game_;
  absl::Status refusal_;
  int64_t cycles_ = 0;      // rounds in a row that were cycles of the marking
  bool settled_ = false;    // what streams know moved along in the last of them
  int64_t next_trial_ = 1;  // after so many
};

}  // namespace

absl::Status VerifyMemory(const PlanNet& net, Play play) {
  ASSIGN_OR_RETURN(const AxisSets axes, AxisSets::Of(net));
  const Interests interests(net);
  return MemoryProof(net, axes, interests, play).Run();
}

}  // namespace oneflow
