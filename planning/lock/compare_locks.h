// Holds a plan against a lock: what changed, what of it costs more, and whether by more than is
// allowed.
//
//   ASSIGN_OR_RETURN(const LockLimits limits, ParseLockLimits("bytes:1%,step:2%"));
//   const LockChanges changes = CompareLocks(was, now, limits);
//   std::fputs(LockChangesReport(changes).text.c_str(), stdout);
//   if (!changes.above.empty()) ...   // "bytes of stage 0: 1.0 GiB -> 1.2 GiB (+20.0 %), above 1%"
//
// Times of other costs (another version of ours, or other rates of the cluster) say nothing of a
// plan: then the step is shown, and not held against the lock's. Bytes are held always. A number
// that shrinks is never above.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/print/report.h"
#include "planning/lock/plan_lock.h"

namespace oneflow {

// By how much a number may grow: by a share of it, or by a fixed number.
struct LockLimit {
  double share = 0, most = 0;
  std::string text;  // as the user wrote it
};

// bytes: of each stage, in the device's memory and in the host's; of the largest where the number
// of stages changed. step: the simulated time. exchanges: bytes of all kinds together.
struct LockLimits {
  std::optional<LockLimit> bytes, step, exchanges;
};

// Parses "bytes:1%,step:5ms,exchanges:100MiB", the text of --fail_above. Errors: a name that is
// none, given twice, or without a limit; a limit that is no number with its unit, or is below 0.
absl::StatusOr<LockLimits> ParseLockLimits(const std::string& text);

struct LockChanges {
  struct Choice {
    std::string name, was, now;  // "none": it is not said
  };
  struct Number {
    std::string what, unit;  // unit: "bytes" or "s"
    double was = 0, now = 0;
    std::string limit;   // as the user wrote it; "": none
    bool above = false;  // the limit
  };
  enum class Bits {
    kSame,    // law 6: on one instruction set
    kSums,    // sums are made in another order
    kValues,  // other numbers are computed
  };
  bool graph = false;           // it changed
  std::vector<Choice> choices;  // those that changed
  Bits bits = Bits::kSame;
  std::vector<std::string> moving;      // the choices that move bits; empty where the graph changed
  bool version = false, rates = false;  // of costs: changed
  PlanLock::Costs costs_was, costs_now;
  std::vector<Number> numbers;     // those that changed; of stages and of kinds of exchange, too
  bool step_held = true;           // false: not asked, or its costs are others
  std::vector<std::string> above;  // a sentence for each number that is above its limit
  bool empty() const {
    return !graph && choices.empty() && !version && !rates && numbers.empty() &&
           bits == Bits::kSame;
  }
};

// Requires a limit of the step only if both locks have a step.
LockChanges CompareLocks(const PlanLock& was, const PlanLock& now, const LockLimits& limits);

// A line for each change, and JSON with the same:
// {"graph": "same"|"changed", "choices": [{"name", "was", "now"}],
//  "bits": {"letter": "A" of the lock's bits, "B" of others, "why": ["mesh"]},
//  "costs": {"same", "was": {"version", "cluster", "fingerprint"}, "now": {..}}, "step_held",
//  "numbers": [{"what", "unit", "was", "now", "limit": "" without one, "above"}], "above": [..]}
Report LockChangesReport(const LockChanges& changes);

}  // namespace oneflow
