// Next: planning/search/search.h.
#include "planning/fit/fit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "planning/fit/lean.h"
#include "planning/fit/limits.h"
#include "planning/recipe/changes_that_fit.h"
#include "planning/recipe/make_plan.h"
#include "planning/search/ladder.h"
#include "planning/search/plan_words.h"
#include "planning/search/result_text.h"
#include "planning/search/search.h"
#include "planning/search/simplest.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes of layouts that were chosen for equal graphs.
constexpr size_t kMostKnownBytes = size_t{256} << 20;
// Plans that a search keeps, of which those are taken that differ in more than a mix.
constexpr int kKept = 8;
constexpr double kOwnSeconds = 600;  // of the asker's own plan
// Seconds of a search, which is stopped by `stop`.
constexpr double kNoEnd = 1e6;

// Seconds from its making on: the smaller of wall time and CPU time, so that a busy machine does
// not shorten the search.
class Stopwatch {
 public:
  double Seconds() const {
    const double wall = std::chrono::duration<double>(Clock::now() - start_).count();
    return std::min(wall, CpuSeconds() - cpu_start_);
  }

 private:
  const Clock::time_point start_ = Clock::now();
  const double cpu_start_ = CpuSeconds();
};

// Ends what is compiled within it when its time is over, or when all is.
class TimedPart {
 public:
  TimedPart(double seconds, std::function<bool()> stop)
      : seconds_(seconds), stop_(std::move(stop)), watcher_([this](const std::stop_token& done) {
          while (!done.stop_requested() && Left() > 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
          source_.request_stop();
        }) {}

  // Seconds; 0: none.
  double Left() const {
    if (stop_ && stop_()) return 0;
    return std::max(0.0, seconds_ - watch_.Seconds());
  }
  std::stop_token token() const { return source_.get_token(); }

 private:
  const Stopwatch watch_;
  const double seconds_;
  const std::function<bool()> stop_;
  std::stop_source source_;
  std::jthread watcher_;  // last: it uses the others
};

// Plans that differ in more than how blocks are recomputed, or in how many chunks.
bool AreAlike(const proto::Recipe& a, const proto::Recipe& b) {
  return std::ranges::all_of(
      std::initializer_list<const char*>{"mesh", "schedule", "shard"},
      [&](const char* name) { return ChoiceText(a, name) == ChoiceText(b, name); });
}

bool IsLikeAny(const proto::Recipe& candidate, const std::vector<FoundPlan>& plans) {
  return std::ranges::any_of(
      plans, [&](const FoundPlan& plan) { return AreAlike(plan.candidate, candidate); });
}

class Finder {
 public:
  Finder(const FitQuestion& question, const FitOptions& options, const FitObserver& observe)
      : question_(question), options_(options), observe_(observe) {
    question_.spec.given.known_layouts = std::make_shared<KnownLayouts>(kMostKnownBytes);
  }

  absl::StatusOr<FitAnswer> Run() && {
    if (question_.own) CompileOwn();
    if (options_.plans == 0) return std::move(answer_);
    RETURN_IF_ERROR(SearchPlans());
    if (IsStopped() && answer_.plans.empty()) return std::move(answer_);
    if (answer_.plans.empty()) {
      ExplainMiss();
      return std::move(answer_);
    }
    observe_(FitPart::kBest, answer_);
    if (options_.limit_seconds > 0) FindLimits();
    ListPlans();
    return std::move(answer_);
  }

 private:
  bool IsStopped() const { return options_.stop && options_.stop(); }
  void Progress(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  void CompileOwn() {
    SearchSpec spec = question_.spec;
    // The asker waits for this plan, however little time the search has.
    const TimedPart part(std::max(kOwnSeconds, options_.most_seconds), options_.stop);
    spec.given.stop = part.token();
    PlanRequest request = spec.given;
    request.recipe = *question_.own;
    absl::StatusOr<CompiledPlan> compiled =
        CompileRequest(spec.source, WithAnyMemory(request), MakeCandidate(*question_.own));
    if (!compiled.ok()) {
      answer_.own_refused = compiled.status();
    } else {
      const int64_t capacity = UsableBytes(spec.given.cluster.device());
      const bool fits = capacity == 0 || compiled->found.bytes <= capacity;
      answer_.own = {std::move(compiled->found), fits, std::move(compiled->plan)};
    }
    observe_(FitPart::kOwn, answer_);
  }

  absl::Status SearchPlans() {
    std::atomic<bool> found = false;
    const Stopwatch watch;
    SearchOptions search{.budget_seconds = kNoEnd, .threads = options_.threads, .top = kKept};
    search.observe = [&](const SearchProgress& progress) {
      Progress(ProgressText(progress));
      if (!progress.best || found.exchange(true)) return;
      answer_.plans = {*progress.best};
      observe_(FitPart::kFits, answer_);
    };
    search.stop = [&] {
      return IsStopped() ||
             watch.Seconds() > (found ? options_.search_seconds : options_.most_seconds);
    };
    ASSIGN_OR_RETURN(answer_.search, Search(question_.spec, search));
    SearchResult& result = answer_.search;
    std::vector<FoundPlan> kept = std::move(result.found);
    result.found.clear();
    answer_.plans.clear();
    if (kept.empty()) return CompileEstimated();
    const int64_t capacity = UsableBytes(question_.spec.given.cluster.device());
    const size_t simplest = FindSimplest(kept, capacity);
    best_is_written_ = simplest == 0;
    std::rotate(kept.begin(), kept.begin() + static_cast<ptrdiff_t>(simplest),
                kept.begin() + static_cast<ptrdiff_t>(simplest) + 1);
    answer_.plans = {kept[0]};
    for (FoundPlan& plan : kept) {
      const bool own = IsLikeAny(plan.candidate, answer_.plans) || IsLikeAny(plan.candidate, more_);
      if (!own) more_.push_back(std::move(plan));
    }
    if (best_is_written_) answer_.best = std::move(result.best);
    result.best.Clear();
    return absl::OkStatus();
  }

  // The search ended with estimates alone: the best of them that fits is the answer.
  absl::Status CompileEstimated() {
    const TimedPart part(options_.most_seconds, options_.stop);
    SearchSpec spec = question_.spec;
    spec.given.stop = part.token();
    for (const EstimatedPlan& estimate : answer_.search.estimates) {
      if (part.Left() <= 0) break;
      absl::StatusOr<CompiledPlan> compiled = CompileFitting(spec, estimate.candidate);
      if (!compiled.ok()) continue;
      answer_.plans = {std::move(compiled->found)};
      answer_.best = std::move(compiled->plan);
      best_is_written_ = true;
      observe_(FitPart::kFits, answer_);
      break;
    }
    return absl::OkStatus();
  }

  void FindLimits() {
    const TimedPart part(options_.limit_seconds, options_.stop);
    FitQuestion question = question_;
    question.spec.given.stop = part.token();
    const auto left = [&] { return part.Left(); };
    Progress("looking for the largest that fits");
    const auto policy = options_.threads > 1 ? std::launch::async : std::launch::deferred;
    auto batch = std::async(policy, [&] { return FindLargestBatch(question, left); });
    auto sequence = std::async(policy, [&] { return FindLongestSequence(question, left); });
    answer_.limits = {batch.get(), sequence.get()};
    if (question.spec.given.imbalance > 0) {
      const Stopwatch watch;
      const absl::Status made = MakeBest(question.spec);
      const double seconds = watch.Seconds();
      if (made.ok()) {
        answer_.limits.push_back(
            FindMostUnequal(question, answer_.plans[0], answer_.best, seconds, left));
      }
    }
    observe_(FitPart::kLimits, answer_);
  }

  // The plan of plans[0], which a search keeps of the fastest alone.
  absl::Status MakeBest(const SearchSpec& spec) {
    if (best_is_written_) return absl::OkStatus();
    ASSIGN_OR_RETURN(CompiledPlan compiled, CompileFitting(spec, answer_.plans[0].candidate));
    answer_.best = std::move(compiled.plan);
    best_is_written_ = true;
    return absl::OkStatus();
  }

  // plans[0], those that the search found, and others that it estimated.
  void ListPlans() {
    observe_(FitPart::kPlan, answer_);
    for (FoundPlan& plan : more_) {
      if (answer_.plans.size() >= options_.plans) return;
      answer_.plans.push_back(std::move(plan));
      observe_(FitPart::kPlan, answer_);
    }
    const TimedPart part(options_.more_seconds, options_.stop);
    SearchSpec spec = question_.spec;
    spec.given.stop = part.token();
    for (const EstimatedPlan& estimate : answer_.search.estimates) {
      if (answer_.plans.size() >= options_.plans || part.Left() <= 0) return;
      if (IsLikeAny(estimate.candidate, answer_.plans)) continue;
      Progress(EstimateText(estimate));
      absl::StatusOr<CompiledPlan> compiled = CompileFitting(spec, estimate.candidate);
      if (!compiled.ok()) continue;
      answer_.plans.push_back(std::move(compiled->found));
      observe_(FitPart::kPlan, answer_);
    }
  }

  void ExplainMiss() {
    const SearchResult& result = answer_.search;
    if (!result.nearest) return;
    const TimedPart part(options_.limit_seconds + options_.more_seconds, options_.stop);
    FitQuestion question = question_;
    question.spec.given.stop = part.token();
    FitMiss miss{.candidate = result.nearest->candidate,
                 .bytes = result.nearest->bytes,
                 .bounded = result.nearest->bounded};
    absl::StatusOr<CompiledPlan> compiled = CompileAnyway(question.spec, miss.candidate);
    if (compiled.ok()) {
      miss.bytes = compiled->found.bytes;
      miss.bounded = false;
      miss.plan = std::move(compiled->plan);
    }
    answer_.miss = std::move(miss);
    observe_(FitPart::kMiss, answer_);
    answer_.miss->changes = FindChanges(question, [&] { return part.Left(); });
    observe_(FitPart::kChanges, answer_);
  }

  FitQuestion question_;
  const FitOptions& options_;
  const FitObserver& observe_;
  FitAnswer answer_;
  std::vector<FoundPlan> more_;   // that the search found beside plans[0]
  bool best_is_written_ = false;  // answer_.best is the plan of plans[0]
};

}  // namespace

absl::StatusOr<FitAnswer> FindFit(const FitQuestion& question, const FitOptions& options,
                                  const FitObserver& observe) {
  return Finder(question, options, observe).Run();
}

}  // namespace oneflow
