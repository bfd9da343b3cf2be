#include "tools/search/stage_costs.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<FamilyCosts> FamilyCosts::Make(const CompileOptions& given, const PlanFamily& family,
                                              std::vector<ShortCosts> costs,
                                              const std::vector<int>& usual, bool fits_orders) {
  const int stages = family.mesh.stages();
  FamilyCosts result;
  const CompileOptions options = CandidateOptions(given, {family, {}});
  ASSIGN_OR_RETURN(result.schedule_, MakeSchedule(options.train, stages));
  result.costs_ = std::move(costs);
  result.micro_batches_ = family.micro_batches;
  result.overlap_ = options.train.no_global_norm();
  result.held_.resize(stages);
  PipeSeconds seconds;
  std::vector<double> kept;
  for (int s = 0; s < stages; ++s) {
    PolicyCounts counts(result.costs_.size(), 0);
    counts[0] = usual[s];
    seconds.stages.push_back(result.Task(s, counts));
    const double from_b = result.Mean(s, counts, [](auto& stage, auto&) { return stage.kept; });
    const double from_f = result.Mean(s, counts, [](auto& stage, auto&) { return stage.saved; });
    kept.push_back(from_b > 0 && from_f > 0 ? from_b / from_f : 1);
  }
  seconds.links.assign(stages, result.costs_[0].link);
  if (fits_orders) {
    result.schedule_ =
        FitToStages(result.schedule_, seconds, kept, family.micro_batches, result.overlap_);
  }
  result.held_ = CountHeld(result.schedule_, stages, family.micro_batches, kept);
  return result;
}

const StageCosts& FamilyCosts::At(int stage, size_t policy) const {
  const ShortCosts& costs = costs_[policy];
  return stage == stages() - 1 ? costs.last : stage == 0 ? costs.first : costs.middle;
}

// Of n blocks with several policies: the mean of what each says of n blocks, by their shares.
template <typename Value>
double FamilyCosts::Mean(int stage, const PolicyCounts& counts, Value value) const {
  const int n = std::accumulate(counts.begin(), counts.end(), 0);
  if (n == 0) return value(At(stage, 0), costs_[0]).At(0);
  double sum = 0;
  for (size_t p = 0; p < counts.size(); ++p) {
    if (counts[p] > 0) sum += value(At(stage, p), costs_[p]).At(n) * counts[p] / n;
  }
  return sum;
}

// Of one of the schedule's chunks.
TaskSeconds FamilyCosts::Task(int stage, const PolicyCounts& counts) const {
  const double chunks = schedule_.chunks;
  return {Mean(stage, counts, [](auto& s, auto&) { return s.forward; }) / chunks,
          Mean(stage, counts, [](auto& s, auto&) { return s.backward; }) / chunks,
          Mean(stage, counts, [](auto& s, auto&) { return s.weights; }) / chunks};
}

double FamilyCosts::Seconds(int stage, const PolicyCounts& counts) const {
  const TaskSeconds task = Task(stage, counts);
  return (task.forward + task.backward + task.weights) * schedule_.chunks;
}

double FamilyCosts::Bytes(int stage, const PolicyCounts& counts) const {
  double other = 0;
  for (size_t p = 0; p < counts.size(); ++p) {
    if (counts[p] > 0) other = std::max(other, At(stage, p).other_bytes);
  }
  return Mean(stage, counts, [](auto& s, auto&) { return s.resident; }) + other +
         held_[stage].activations * Mean(stage, counts, [](auto& s, auto&) { return s.saved; }) +
         held_[stage].for_weights * Mean(stage, counts, [](auto& s, auto&) { return s.kept; });
}

absl::StatusOr<double> FamilyCosts::StepSeconds(const std::vector<PolicyCounts>& counts) const {
  PipeSeconds seconds;
  std::vector<double> kept;
  double firings = 0, exchange = 0, each_micro_batch = 0, each_step = 0;
  for (int s = 0; s < stages(); ++s) {
    const PolicyCounts& c = counts[s];
    seconds.stages.push_back(Task(s, c));
    const double from_b = Mean(s, c, [](auto& stage, auto&) { return stage.kept; });
    const double from_f = Mean(s, c, [](auto& stage, auto&) { return stage.saved; });
    kept.push_back(from_b > 0 && from_f > 0 ? from_b / from_f : 1);
    const auto raise = [&](double* most, auto value) {
      *most = std::max(*most, Mean(s, c, value));
    };
    raise(&firings, [](auto& stage, auto&) { return stage.firings; });
    raise(&exchange, [](auto& stage, auto&) { return stage.exchange; });
    raise(&each_micro_batch, [](auto&, auto& all) { return all.each_micro_batch; });
    raise(&each_step, [](auto&, auto& all) { return all.each_step; });
  }
  seconds.links.assign(stages(), costs_[0].link);
  const Schedule fitted = FitToStages(schedule_, seconds, kept, micro_batches_, overlap_);
  ASSIGN_OR_RETURN(const double played, PlayedSeconds(fitted, seconds, micro_batches_));
  const auto m = static_cast<double>(micro_batches_);
  return std::max({played + m * each_micro_batch + each_step, m * exchange + each_step,
                   m * firings * costs_[0].issue_seconds});
}

}  // namespace oneflow
