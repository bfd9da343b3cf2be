// Does a model fit a cluster, how fast does it train there, and how far may it grow? Answers come
// one by one, each as soon as it is known.
//
//   FitQuestion question{.spec = spec, .with_sequence = with_sequence};
//   ASSIGN_OR_RETURN(const FitAnswer answer,
//                    FindFit(question, {.threads = 2}, [&](FitPart part, const FitAnswer& known) {
//                      if (part == FitPart::kBest) Print(BestLine(frame, known));
//                    }));
//
// Every plan of an answer was compiled, proved and simulated; one that is called fitting fits. It
// is no search of the whole space: it ends with the best plan of what it looked at, and
// `answer.search` says what that was. planning/search/search.h goes on for longer.
//
// Next: limits.h, how far it may grow; fit_text.h, the answer for people and programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/search/result.h"
#include "planning/search/space.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct FitQuestion {
  // Model, cluster, number of devices, and in given.recipe the batch and all that is not searched.
  SearchSpec spec;
  // The asker's own recipe: its plan is compiled first, whether it fits or not. What it does not
  // say has the defaults of MakePlan. None: only the search's plans are looked at.
  std::optional<proto::Recipe> own;
  // The model with sequences of another length. Null: it is not known how.
  std::function<absl::StatusOr<GraphSource>(int64_t sequence)> with_sequence;
};

struct FitOptions {
  int threads = 1;
  size_t plans = 3;            // to find; 0: only the asker's own plan is made
  double search_seconds = 9;   // of the search, if it has found a plan by then
  double most_seconds = 45;    // of the search, if it has not
  double limit_seconds = 8;    // of what limits are looked for in; 0: no limit is looked for
  double more_seconds = 30;    // of compiling further plans, until there are `plans`
  std::function<bool()> stop;  // may be null; true: ends with what is known
  std::function<void(const std::string& line)> progress;  // may be null
};

// The question with another number of devices, batch, length of sequences or imbalance of experts,
// and a plan of it that fits.
struct FitChange {
  std::string what;  // that differs: "devices", "batch", "sequence", "imbalance"
  int64_t devices = 0, batch = 0, sequence = 0;
  double imbalance = 0;           // of "imbalance" alone
  bool at_least = false;          // more may fit: the time ended
  std::optional<FoundPlan> plan;  // none: nothing was found, and `why` says why
  std::string why;
};

// The asker's own plan, compiled as if devices had any memory.
struct OwnPlan {
  FoundPlan found;
  bool fits = false;
  proto::Plan plan;
};

// Nothing fits: what is nearest to it.
struct FitMiss {
  proto::Recipe candidate;
  int64_t bytes = 0;                // that a device needs
  bool bounded = false;             // at least so many, by a bound; `plan` has none
  std::optional<proto::Plan> plan;  // compiled as if devices had any memory
  std::vector<FitChange> changes;   // each fits: more devices, fewer tokens at once, shorter ones
};

struct FitAnswer {
  std::optional<OwnPlan> own;
  absl::Status own_refused;  // why there is none, if one was asked about
  // Plans that fit: first the one that is advised (of those that predictions cannot tell apart the
  // simplest), then the fastest first, and those that were compiled last.
  std::vector<FoundPlan> plans;
  proto::Plan best;               // of plans[0]
  std::vector<FitChange> limits;  // batch of one micro-batch, sequence, imbalance
  std::optional<FitMiss> miss;    // where no plan fits
  SearchResult search;            // without plans
};

enum class FitPart {
  kOwn,      // own, or own_refused
  kFits,     // plans[0], the first that was found: it may not be the best
  kBest,     // plans[0]
  kLimits,   // limits, all of them
  kPlan,     // plans.back(), or the first `plans` in turn: FitAnswer::plans grows by one each time
  kMiss,     // miss, without changes
  kChanges,  // miss->changes, all of them
};

// Called in one thread at a time, in the order of FitPart.
using FitObserver = std::function<void(FitPart part, const FitAnswer& known)>;

// Errors: a question that is none (devices of which no mesh can be made, a batch that does not
// divide, ...), as of Search. That nothing fits is no error: then `miss` says so.
absl::StatusOr<FitAnswer> FindFit(const FitQuestion& question, const FitOptions& options,
                                  const FitObserver& observe);

}  // namespace oneflow
