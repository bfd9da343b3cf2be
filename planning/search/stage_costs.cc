#include "planning/search/stage_costs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

int Count(const std::vector<int>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

// The cost of n blocks of several kinds: the mean of what each says of n blocks, by their shares.
// `value`: of a kind, a Linear.
template <typename Value>
double FindMean(const KindCounts& counts, Value value) {
  const int n = Count(counts);
  if (n == 0) return value(0).At(0);
  double sum = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] > 0) sum += value(k).At(n) * counts[k] / n;
  }
  return sum;
}

}  // namespace

Linear FindHeld(const StageCosts& slice, const Held& held, int chunk) {
  const double activations = held.activations[chunk], kept = held.for_weights[chunk];
  const double sums = held.sums[chunk] ? 1 : 0;
  const auto add = [&](double Linear::*part) {
    return slice.resident.*part + sums * (slice.sums.*part) + activations * (slice.saved.*part) +
           kept * (slice.kept.*part);
  };
  return {add(&Linear::fixed), add(&Linear::block)};
}

double TransientBytes(const StageCosts& slice, bool over) {
  const Transients& t = slice.transients;
  return over ? t.tail : std::max(t.head, t.last - std::max(0.0, slice.saved.fixed));
}

proto::Recipe WithPolicy(proto::Recipe group, std::string_view policy, bool gathers) {
  proto::Recompute& recompute = *group.mutable_recompute();
  recompute.Clear();
  if (policy != kPolicies[0]) recompute.add_term()->set_policy(std::string(policy));
  recompute.set_gather(gathers);
  return group;
}

std::vector<ClassCounts> CountClasses(const std::vector<int>& classes,
                                      const std::vector<int>& slices) {
  const int most = classes.empty() ? 0 : *std::max_element(classes.begin(), classes.end());
  std::vector<ClassCounts> counts(slices.size(), ClassCounts(most + 1, 0));
  size_t next = 0;
  for (size_t s = 0; s < slices.size(); ++s) {
    for (int i = 0; i < slices[s] && next < classes.size(); ++i) ++counts[s][classes[next++]];
  }
  return counts;
}

std::vector<std::vector<int>> SplitOverChunks(const std::vector<int>& counts,
                                              const std::vector<int>& rooms) {
  const auto chunks = std::ssize(rooms);
  std::vector<std::vector<int>> parts(chunks, std::vector<int>(counts.size(), 0));
  std::vector<int> left = counts;
  for (int64_t c = 0; c < chunks; ++c) {
    int room = rooms[c];
    for (size_t p = counts.size(); p-- > 0;) {
      // The dearest policies first, but no fewer than what the cheaper ones cannot fill.
      const int cheaper = std::accumulate(left.begin(), left.begin() + static_cast<int64_t>(p), 0);
      const auto equal = static_cast<int>((left[p] + chunks - c - 1) / (chunks - c));
      const int part = std::clamp(equal, std::max(0, room - cheaper), std::min(room, left[p]));
      parts[c][p] = part;
      left[p] -= part;
      room -= part;
    }
  }
  return parts;
}

absl::StatusOr<GroupCosts> GroupCosts::Make(const PlanRequest& given, const proto::Recipe& group,
                                            std::vector<ShortCosts> costs,
                                            std::vector<ClassCounts> slices) {
  const int stages = FindMesh(group).stages();
  GroupCosts result;
  ASSIGN_OR_RETURN(const PlanRequest request, Completed(CandidateRequest(given, group)));
  ASSIGN_OR_RETURN(result.schedule_, MakeSchedule(request.recipe, stages));
  result.fits_orders_ = result.schedule_.splits_backward && stages > 1;
  result.costs_ = std::move(costs);
  result.slices_ = std::move(slices);
  result.micro_batches_ = group.micro_batches();
  result.overlap_ = !request.recipe.global_norm();
  result.by_stage_.resize(stages);
  std::vector<KindCounts> usual;
  for (int s = 0; s < stages; ++s) {
    usual.push_back(result.WithPolicy(result.BlocksOfStage(s), 0));
    for (int kind = 0; kind < result.kinds(); ++kind) {
      result.by_stage_[s].push_back(result.MakeStage(s, kind));
    }
  }
  result.schedule_ = result.FitOrders(usual);
  result.CountTimes();
  return result;
}

KindCounts GroupCosts::WithPolicy(const ClassCounts& blocks, int policy) const {
  KindCounts counts(kinds(), 0);
  for (int c = 0; c < classes(); ++c) counts[c * policies() + policy] = blocks[c];
  return counts;
}

ClassCounts GroupCosts::BlocksOfStage(int stage) const {
  ClassCounts blocks(classes(), 0);
  for (size_t i = stage; i < slices_.size(); i += stages()) {
    for (int c = 0; c < classes(); ++c) blocks[c] += slices_[i][c];
  }
  return blocks;
}

GroupCosts GroupCosts::FittedTo(const std::vector<KindCounts>& counts) const {
  GroupCosts result = *this;
  result.schedule_ = FitOrders(counts);
  result.CountTimes();
  return result;
}

GroupCosts GroupCosts::WithLeastHeld() const {
  if (!fits_orders_) return *this;
  GroupCosts result = *this;
  result.schedule_ = WithLeastWarmUps(schedule_, stages(), micro_batches_);
  result.fits_orders_ = false;
  result.CountTimes();
  return result;
}

void GroupCosts::CountTimes() {
  times_ = CountHeld(schedule_, stages(), micro_batches_);
  for (int s = 0; s < stages(); ++s) KeepMost(s);
}

// Keeps of many times those that need most where all blocks have one policy.
void GroupCosts::KeepMost(int stage) {
  constexpr size_t kMost = 6;  // for each policy
  std::vector<Held>& times = times_[stage];
  if (times.size() <= 2 * kMost) return;
  const ClassCounts blocks = BlocksOfStage(stage);
  std::vector<bool> keeps(times.size(), false);
  for (int p = 0; p < policies(); ++p) {
    const KindCounts counts = WithPolicy(blocks, p);
    std::vector<std::pair<double, size_t>> bytes;
    for (size_t at = 0; at < times.size(); ++at) {
      const Held& held = times[at];
      double moving = -std::numeric_limits<double>::infinity();
      const double sum = FindMean(counts, [&](size_t kind) {
        const StageCosts& slice = AtSlice(held.chunk * stages() + stage, static_cast<int>(kind));
        moving = std::max(moving, TransientBytes(slice, held.over));
        return Sum(stage, static_cast<int>(kind), [&](const StageCosts& slice, int chunk) {
          return FindHeld(slice, held, chunk);
        });
      });
      bytes.emplace_back(-sum - moving, at);
    }
    std::sort(bytes.begin(), bytes.end());
    for (size_t i = 0; i < kMost; ++i) keeps[bytes[i].second] = true;
  }
  std::vector<Held> kept;
  for (size_t at = 0; at < times.size(); ++at) {
    if (keeps[at]) kept.push_back(std::move(times[at]));
  }
  times = std::move(kept);
}

const StageCosts& GroupCosts::AtSlice(int slice, int kind) const {
  const ShortCosts& costs = costs_[kind];
  return slice + 1 == std::ssize(slices_) ? costs.last : slice == 0 ? costs.first : costs.middle;
}

// Over the slices of a stage. The blocks of a class are divided over them as those in `slices_`
// are.
template <typename Value>
Linear GroupCosts::Sum(int stage, int kind, Value value) const {
  const int block_class = kind / policies();
  const double blocks = BlocksOfStage(stage)[block_class];
  Linear sum;
  for (size_t i = stage; i < slices_.size(); i += stages()) {
    const Linear linear = value(AtSlice(static_cast<int>(i), kind), static_cast<int>(i) / stages());
    sum.fixed += linear.fixed;
    sum.block += blocks > 0 ? linear.block * slices_[i][block_class] / blocks
                            : linear.block / schedule_.chunks;
  }
  return sum;
}

GroupCosts::Stage GroupCosts::MakeStage(int stage, int kind) const {
  const auto sum = [&](auto value) {
    return Sum(stage, kind, [&](const StageCosts& slice, int) { return value(slice); });
  };
  Stage result;
  result.seconds = sum([](const StageCosts& slice) {
    const LinearTasks& t = slice.spans;
    return Linear{t.forward.fixed + t.backward.fixed + t.weights.fixed,
                  t.forward.block + t.backward.block + t.weights.block};
  });
  result.firings = sum([](const StageCosts& slice) { return slice.firings; });
  result.firings_once = sum([](const StageCosts& slice) { return slice.firings_once; });
  result.fit_saved = sum([](const StageCosts& slice) { return slice.fit_saved; });
  result.fit_kept = sum([](const StageCosts& slice) { return slice.fit_kept; });
  result.kernels = {sum([](const StageCosts& slice) { return slice.kernels.forward; }),
                    sum([](const StageCosts& slice) { return slice.kernels.backward; }),
                    sum([](const StageCosts& slice) { return slice.kernels.weights; })};
  for (size_t i = stage; i < slices_.size(); i += stages()) {
    const StageCosts& slice = AtSlice(static_cast<int>(i), kind);
    for (const auto& [stream, unused] : slice.streams) {
      const std::string& name = stream;
      if (result.streams.contains(name)) continue;
      const auto sum_part = [&](Linear StageCosts::Stream::*part) {
        return sum([&](const StageCosts& other) {
          const auto at = other.streams.find(name);
          return at == other.streams.end() ? Linear() : at->second.*part;
        });
      };
      result.streams[name] = {sum_part(&StageCosts::Stream::each),
                              sum_part(&StageCosts::Stream::once)};
    }
  }
  return result;
}

double GroupCosts::FindKept(int stage, const KindCounts& counts) const {
  const std::vector<Stage>& by_kind = by_stage_[stage];
  const double saved = FindMean(counts, [&](size_t k) { return by_kind[k].fit_saved; });
  const double kept = FindMean(counts, [&](size_t k) { return by_kind[k].fit_kept; });
  return saved > 0 && kept > 0 ? kept / saved : 1;
}

// The orders for the times that compile fits them to. A schedule that has such orders has no
// chunks.
Schedule GroupCosts::FitOrders(const std::vector<KindCounts>& counts) const {
  if (!schedule_.splits_backward) return schedule_;
  PipeSeconds seconds;
  std::vector<double> kept;
  for (int s = 0; s < stages(); ++s) {
    const auto mean = [&](Linear LinearTasks::*task) {
      return FindMean(counts[s], [&](size_t k) { return by_stage_[s][k].kernels.*task; });
    };
    seconds.stages.push_back(
        {mean(&LinearTasks::forward), mean(&LinearTasks::backward), mean(&LinearTasks::weights)});
    kept.push_back(FindKept(s, counts[s]));
  }
  seconds.links.assign(stages(), costs_[0].link);
  return FitToStages(schedule_, seconds, kept, micro_batches_, overlap_);
}

std::vector<KindCounts> GroupCosts::Split(int stage, const KindCounts& counts) const {
  if (schedule_.chunks == 1) return {counts};
  std::vector<KindCounts> parts(schedule_.chunks);
  for (int c = 0; c < classes(); ++c) {
    std::vector<int> rooms;
    for (size_t i = stage; i < slices_.size(); i += stages()) rooms.push_back(slices_[i][c]);
    const auto first = counts.begin() + c * policies();
    const auto of_class = SplitOverChunks({first, first + policies()}, rooms);
    for (size_t j = 0; j < parts.size(); ++j) {
      parts[j].insert(parts[j].end(), of_class[j].begin(), of_class[j].end());
    }
  }
  return parts;
}

// The dearest policies come first: the last block, whose gradient comes first, has the last. The
// mean over the classes that it may be of.
double GroupCosts::FindAhead(int slice, const KindCounts& counts) const {
  const int n = Count(counts);
  if (n == 0) return AtSlice(slice, kinds() - 1).ahead.At(0);
  double ahead = 0;
  for (int c = 0; c < classes(); ++c) {
    const auto first = counts.begin() + c * policies(), end = first + policies();
    const auto last = std::find_if(first, end, [](int blocks) { return blocks > 0; });
    if (last == end) continue;
    const auto kind = static_cast<int>(last - counts.begin());
    ahead += AtSlice(slice, kind).ahead.At(n) * std::accumulate(first, end, 0) / n;
  }
  return ahead;
}

PipeSeconds GroupCosts::FindSpans(const std::vector<KindCounts>& counts) const {
  PipeSeconds seconds;
  seconds.stages.resize(stages());
  seconds.slices.resize(slices_.size());
  seconds.ahead.resize(slices_.size());
  for (int s = 0; s < stages(); ++s) {
    const std::vector<KindCounts> parts = Split(s, counts[s]);
    for (size_t c = 0; c < parts.size(); ++c) {
      const int slice = static_cast<int>(c) * stages() + s;
      const auto mean = [&](Linear LinearTasks::*task) {
        return FindMean(parts[c],
                        [&](size_t k) { return AtSlice(slice, static_cast<int>(k)).spans.*task; });
      };
      seconds.slices[slice] = {mean(&LinearTasks::forward), mean(&LinearTasks::backward),
                               mean(&LinearTasks::weights)};
      seconds.ahead[slice] = FindAhead(slice, parts[c]);
    }
  }
  seconds.links.assign(stages(), costs_[0].link);
  return seconds;
}

double GroupCosts::Seconds(int stage, const KindCounts& counts) const {
  return FindMean(counts, [&](size_t k) { return by_stage_[stage][k].seconds; });
}

absl::StatusOr<double> GroupCosts::StepSeconds(const std::vector<KindCounts>& counts) const {
  const auto m = static_cast<double>(micro_batches_);
  double least = 0, each_micro_batch = 0, each_step = 0;
  for (int s = 0; s < stages(); ++s) {
    const KindCounts& c = counts[s];
    const std::vector<Stage>& by_kind = by_stage_[s];
    const double firings = m * FindMean(c, [&](size_t k) { return by_kind[k].firings; }) +
                           FindMean(c, [&](size_t k) { return by_kind[k].firings_once; });
    least = std::max(least, firings * costs_[0].issue_seconds);
    std::set<std::string> names;  // a class may have streams that others lack
    for (int kind = 0; kind < kinds(); kind += policies()) {
      for (const auto& [name, stream] : by_kind[kind].streams) names.insert(name);
    }
    for (const std::string& name : names) {
      const auto find = [&](size_t k) {
        const auto at = by_kind[k].streams.find(name);
        return at == by_kind[k].streams.end() ? StageCosts::Stream() : at->second;
      };
      least = std::max(least, m * FindMean(c, [&](size_t k) { return find(k).each; }) +
                                  FindMean(c, [&](size_t k) { return find(k).once; }));
    }
    each_micro_batch = std::max(each_micro_batch,
                                FindMean(c, [&](size_t k) { return costs_[k].each_micro_batch; }));
    each_step = std::max(each_step, FindMean(c, [&](size_t k) { return costs_[k].each_step; }));
  }
  ASSIGN_OR_RETURN(const double played,
                   PlayedSeconds(FitOrders(counts), FindSpans(counts), micro_batches_, overlap_));
  return std::max(played + m * each_micro_batch + each_step, least);
}

}  // namespace oneflow
