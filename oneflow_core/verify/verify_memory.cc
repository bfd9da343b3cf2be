#include "oneflow_core/verify/verify_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/verify/happens_before.h"

namespace oneflow {
namespace {

// The second step covers the wrap-around from one step to the next.
constexpr int64_t kSteps = 2;

// Cycles in which every register that is read on another stream fills as often as it has slots.
int64_t CyclesOfSlots(const PlanNet& net, const Marking& begin, const Marking& end) {
  int64_t cycles = 1;
  for (const NetRegister& r : net.registers) {
    const bool crosses = std::any_of(r.readers.begin(), r.readers.end(),
                                     [&](const auto& reader) { return Crosses(net, r, reader); });
    if (r.writer < 0 || !crosses) continue;
    const int64_t fills = end.fills(r) - begin.fills(r);
    if (fills > 0) cycles = std::max(cycles, (r.slots + fills - 1) / fills);
  }
  return cycles;
}

// Plays the game to its end. If a round is a cycle of the marking, it tries to skip further
// cycles. A trial copies the game, and clocks reach their steady state later than the marking. So
// the first trial waits until clocks have advanced steadily for so many cycles that every slot,
// which stores an older clock, has been filled in them. Each further trial comes a quarter later.
class MemoryProof {
 public:
  MemoryProof(const PlanNet& net, Play play) : net_(net), play_(play), game_(net, kSteps) {}

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
    const bool trial = play_ == Play::kSkipCycles && steady_ > 0 && steady_ >= next_trial_;
    std::optional<HappensBefore> begin;
    if (trial) begin = game_;
    const StreamClocks::Snapshot known = game_.clocks().Now();
    std::vector<int> firings;
    const bool fired = oneflow::PlayRound(net_, round, game_.marking(), [&](int s) {
      refusal_ = game_.Fire(s);
      if (trial) firings.push_back(s);
      return refusal_.ok();
    });
    const Cycle cycle = CycleBetween(net_, round.begin(), game_.marking());
    const bool goes_on = fired && cycle.times > 0;
    if (!goes_on || (trial && game_.SkipCycles(*begin, firings, cycle))) {
      steady_ = 0;
      return fired;
    }
    if (steady_ == 0) next_trial_ = CyclesOfSlots(net_, round.begin(), game_.marking());
    if (trial) next_trial_ = steady_ + steady_ / 4 + 1;
    steady_ = game_.clocks().MovesAlong(known) ? steady_ + 1 : 0;
    return fired;
  }

  const PlanNet& net_;
  const Play play_;
  HappensBefore game_;
  absl::Status refusal_;
  int64_t steady_ = 0;      // cycles in a row in which what streams know moved along
  int64_t next_trial_ = 0;  // after so many steady cycles; set by the first
};

// A gigabyte; GPT 1T takes a few million.
constexpr int64_t kMostCounts = int64_t{1} << 28;

// Size of the game's state: the last accesses of each buffer, and two clocks for each slot of an
// edge that leaves its stream.
int64_t CountState(const PlanNet& net) {
  std::map<int, int64_t> streams;  // by stage
  for (const NetStream& stream : net.streams) ++streams[stream.proto->stage()];
  int64_t counts = 0;
  for (const NetRegister& r : net.registers) {
    counts += BufferCount(*r.proto) * (1 + std::ssize(r.readers));
    for (const NetReader& reader : r.readers) {
      if (Crosses(net, r, reader)) counts += 2 * r.slots * streams[r.proto->stage()];
    }
  }
  return counts;
}

}  // namespace

absl::Status VerifyMemory(const PlanNet& net, Play play) {
  if (CountState(net) > kMostCounts) {
    return InputError(absl::StrCat("plan, program ", net.program->name()),
                      "has too many slots to prove that its registers are apart",
                      "the file was edited, or it takes fewer micro-batches in flight");
  }
  return MemoryProof(net, play).Run();
}

}  // namespace oneflow
