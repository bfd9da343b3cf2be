#include "planning/search/stage_costs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

int Count(const PolicyCounts& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

// The cost of n blocks with several policies: the mean of what each says of n blocks, by their
// shares. `value`: of a policy, a Linear.
template <typename Value>
double FindMean(const PolicyCounts& counts, Value value) {
  const int n = Count(counts);
  if (n == 0) return value(0).At(0);
  double sum = 0;
  for (size_t p = 0; p < counts.size(); ++p) {
    if (counts[p] > 0) sum += value(p).At(n) * counts[p] / n;
  }
  return sum;
}

// The bytes that a slice holds at a time, all of its blocks having one policy.
Linear FindHeld(const StageCosts& slice, const Held& held, int chunk) {
  const double activations = held.activations[chunk], kept = held.for_weights[chunk];
  const double sums = held.sums[chunk] ? 1 : 0;
  const auto add = [&](double Linear::*part) {
    return slice.resident.*part + sums * (slice.sums.*part) + activations * (slice.saved.*part) +
           kept * (slice.kept.*part);
  };
  return {add(&Linear::fixed), add(&Linear::block)};
}

// The policy of the first blocks of a slice: the dearest one that any has.
int FindFirst(const PolicyCounts& counts) {
  int first = static_cast<int>(counts.size()) - 1;
  while (first > 0 && counts[first] == 0) --first;
  return first;
}

// The bytes that come and go when a B of a slice begins, or is over.
double TransientBytes(const StageCosts& slice, bool over) {
  const Transients& t = slice.transients;
  return over ? t.tail : std::max(t.head, t.last - std::max(0.0, slice.saved.fixed));
}

}  // namespace

proto::Recipe WithPolicy(proto::Recipe group, std::string_view policy, bool gathers) {
  proto::Recompute& recompute = *group.mutable_recompute();
  recompute.Clear();
  if (policy != kPolicies[0]) recompute.add_term()->set_policy(std::string(policy));
  recompute.set_gather(gathers);
  return group;
}

std::vector<PolicyCounts> SplitOverChunks(const PolicyCounts& counts,
                                          const std::vector<int>& rooms) {
  const auto chunks = std::ssize(rooms);
  std::vector<PolicyCounts> parts(chunks, PolicyCounts(counts.size(), 0));
  PolicyCounts left = counts;
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
                                            const std::vector<int>& slices) {
  const int stages = FindMesh(group).stages();
  GroupCosts result;
  ASSIGN_OR_RETURN(const PlanRequest request, Completed(CandidateRequest(given, group)));
  ASSIGN_OR_RETURN(result.schedule_, MakeSchedule(request.recipe, stages));
  result.fits_orders_ = result.schedule_.splits_backward && stages > 1;
  result.costs_ = std::move(costs);
  result.slices_ = slices;
  result.micro_batches_ = group.micro_batches();
  result.overlap_ = !request.recipe.global_norm();
  result.by_stage_.resize(stages);
  std::vector<PolicyCounts> usual;
  for (int s = 0; s < stages; ++s) {
    usual.emplace_back(result.costs_.size(), 0);
    for (size_t slice = s; slice < slices.size(); slice += stages) usual[s][0] += slices[slice];
    for (int p = 0; p < result.policies(); ++p) {
      result.by_stage_[s].push_back(result.MakeStage(s, p));
    }
  }
  result.schedule_ = result.FitOrders(usual);
  result.CountBytes();
  return result;
}

GroupCosts GroupCosts::FittedTo(const std::vector<PolicyCounts>& counts) const {
  GroupCosts result = *this;
  result.schedule_ = FitOrders(counts);
  result.CountBytes();
  return result;
}

GroupCosts GroupCosts::WithLeastHeld() const {
  if (!fits_orders_) return *this;
  GroupCosts result = *this;
  result.schedule_ = WithLeastWarmUps(schedule_, stages(), micro_batches_);
  result.fits_orders_ = false;
  result.CountBytes();
  return result;
}

void GroupCosts::CountBytes() {
  times_ = CountHeld(schedule_, stages(), micro_batches_);
  for (int s = 0; s < stages(); ++s) {
    KeepMost(s);
    for (int p = 0; p < policies(); ++p) {
      std::vector<Linear>& by_time = by_stage_[s][p].held;
      by_time.clear();
      for (const Held& held : times_[s]) {
        by_time.push_back(Sum(s, p, [&](const StageCosts& slice, int chunk) {
          return FindHeld(slice, held, chunk);
        }));
      }
    }
  }
}

double GroupCosts::HeldByBlock(int stage, int chunk, int policy, size_t time) const {
  return FindHeld(AtSlice(chunk * stages() + stage, policy), times_[stage][time], chunk).block;
}

// Keeps of many times those that need most where all blocks have one policy.
void GroupCosts::KeepMost(int stage) {
  constexpr size_t kMost = 6;  // for each policy
  std::vector<Held>& times = times_[stage];
  if (times.size() <= 2 * kMost) return;
  int blocks = 0;
  for (size_t i = stage; i < slices_.size(); i += stages()) blocks += slices_[i];
  std::vector<bool> keeps(times.size(), false);
  for (int p = 0; p < policies(); ++p) {
    std::vector<std::pair<double, size_t>> bytes;
    for (size_t at = 0; at < times.size(); ++at) {
      const Held& held = times[at];
      const Linear sum = Sum(stage, p, [&](const StageCosts& slice, int chunk) {
        return FindHeld(slice, held, chunk);
      });
      const StageCosts& slice = AtSlice(held.chunk * stages() + stage, p);
      bytes.emplace_back(-sum.At(blocks) - TransientBytes(slice, held.over), at);
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

const StageCosts& GroupCosts::AtSlice(int slice, int policy) const {
  const ShortCosts& costs = costs_[policy];
  return slice + 1 == std::ssize(slices_) ? costs.last : slice == 0 ? costs.first : costs.middle;
}

// Over the slices of a stage. Blocks are divided over them as `slices_` are.
template <typename Value>
Linear GroupCosts::Sum(int stage, int policy, Value value) const {
  double blocks = 0;
  Linear sum;
  for (size_t i = stage; i < slices_.size(); i += stages()) blocks += slices_[i];
  for (size_t i = stage; i < slices_.size(); i += stages()) {
    const Linear linear =
        value(AtSlice(static_cast<int>(i), policy), static_cast<int>(i) / stages());
    sum.fixed += linear.fixed;
    sum.block += blocks > 0 ? linear.block * slices_[i] / blocks : linear.block / schedule_.chunks;
  }
  return sum;
}

GroupCosts::Stage GroupCosts::MakeStage(int stage, int policy) const {
  const auto sum = [&](auto value) {
    return Sum(stage, policy, [&](const StageCosts& slice, int) { return value(slice); });
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
    const StageCosts& slice = AtSlice(static_cast<int>(i), policy);
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

double GroupCosts::FindKept(int stage, const PolicyCounts& counts) const {
  const std::vector<Stage>& by_policy = by_stage_[stage];
  const double saved = FindMean(counts, [&](size_t p) { return by_policy[p].fit_saved; });
  const double kept = FindMean(counts, [&](size_t p) { return by_policy[p].fit_kept; });
  return saved > 0 && kept > 0 ? kept / saved : 1;
}

// The orders for the times that compile fits them to. A schedule that has such orders has no
// chunks.
Schedule GroupCosts::FitOrders(const std::vector<PolicyCounts>& counts) const {
  if (!schedule_.splits_backward) return schedule_;
  PipeSeconds seconds;
  std::vector<double> kept;
  for (int s = 0; s < stages(); ++s) {
    const auto mean = [&](Linear LinearTasks::*task) {
      return FindMean(counts[s], [&](size_t p) { return by_stage_[s][p].kernels.*task; });
    };
    seconds.stages.push_back(
        {mean(&LinearTasks::forward), mean(&LinearTasks::backward), mean(&LinearTasks::weights)});
    kept.push_back(FindKept(s, counts[s]));
  }
  seconds.links.assign(stages(), costs_[0].link);
  return FitToStages(schedule_, seconds, kept, micro_batches_, overlap_);
}

std::vector<PolicyCounts> GroupCosts::Split(int stage, const PolicyCounts& counts) const {
  if (schedule_.chunks == 1) return {counts};
  std::vector<int> rooms;
  for (size_t i = stage; i < slices_.size(); i += stages()) rooms.push_back(slices_[i]);
  return SplitOverChunks(counts, rooms);
}

PipeSeconds GroupCosts::FindSpans(const std::vector<PolicyCounts>& counts) const {
  PipeSeconds seconds;
  seconds.stages.resize(stages());
  seconds.slices.resize(slices_.size());
  seconds.ahead.resize(slices_.size());
  for (int s = 0; s < stages(); ++s) {
    const std::vector<PolicyCounts> parts = Split(s, counts[s]);
    for (size_t c = 0; c < parts.size(); ++c) {
      const int slice = static_cast<int>(c) * stages() + s;
      const auto mean = [&](Linear LinearTasks::*task) {
        return FindMean(parts[c],
                        [&](size_t p) { return AtSlice(slice, static_cast<int>(p)).spans.*task; });
      };
      // The dearest policies come first: the last block, whose gradient comes first, has the last.
      int last = 0;
      while (last + 1 < policies() && parts[c][last] == 0) ++last;
      seconds.slices[slice] = {mean(&LinearTasks::forward), mean(&LinearTasks::backward),
                               mean(&LinearTasks::weights)};
      seconds.ahead[slice] = AtSlice(slice, last).ahead.At(Count(parts[c]));
    }
  }
  seconds.links.assign(stages(), costs_[0].link);
  return seconds;
}

double GroupCosts::Seconds(int stage, const PolicyCounts& counts) const {
  return FindMean(counts, [&](size_t p) { return by_stage_[stage][p].seconds; });
}

// The bytes that come and go while B goes through a slice, beyond what is held at its begin. The
// blocks with the dearest policies are the first, so B comes to them last: what it has gone through
// is no longer held.
double GroupCosts::FindBackward(int slice, const PolicyCounts& counts) const {
  double most = 0, over = 0;
  bool any = false;
  for (int p = 0; p < policies(); ++p) {
    if (counts[p] == 0) continue;
    const StageCosts& here = AtSlice(slice, p);
    if (!any) {
      most = TransientBytes(here, /*over=*/false);
      over = std::max(0.0, here.saved.fixed);
    } else {
      most = std::max(most, here.transients.inner - over);
    }
    const double block = FreedByBlock(here, micro_batches_);
    if (!any && counts[p] > 1) most = std::max(most, here.transients.inner - over - block);
    over += counts[p] * block;
    any = true;
  }
  return any ? most : TransientBytes(AtSlice(slice, 0), /*over=*/false);
}

double GroupCosts::Bytes(int stage, const PolicyCounts& counts) const {
  const std::vector<PolicyCounts> parts = Split(stage, counts);
  const auto sum = [&](auto value) {
    double bytes = 0;
    for (size_t c = 0; c < parts.size(); ++c) {
      const int chunk = static_cast<int>(c);
      bytes += FindMean(parts[c], [&](size_t p) {
        return value(AtSlice(chunk * stages() + stage, static_cast<int>(p)), chunk);
      });
    }
    return bytes;
  };
  double most = 0, any = -std::numeric_limits<double>::infinity();
  for (const Held& held : times_[stage]) {
    const int slice = held.chunk * stages() + stage;
    const double bytes =
        sum([&](const StageCosts& at, int chunk) { return FindHeld(at, held, chunk); });
    const double more = held.over ? AtSlice(slice, FindFirst(parts[held.chunk])).transients.tail
                                  : FindBackward(slice, parts[held.chunk]);
    any = std::max(any, bytes);
    most = std::max(most, bytes + more);
  }
  double beyond = -std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < parts.size(); ++c) {
    for (int p = 0; p < policies(); ++p) {
      const int slice = static_cast<int>(c) * stages() + stage;
      if (parts[c][p] > 0) beyond = std::max(beyond, AtSlice(slice, p).transients.any);
    }
  }
  const double update = sum([](const StageCosts& at, int) {
    const Linear& more = at.transients.update;
    return Linear{at.resident.fixed + at.sums.fixed + more.fixed,
                  at.resident.block + at.sums.block + more.block};
  });
  return std::max({most, any + beyond, update});
}

absl::StatusOr<double> GroupCosts::StepSeconds(const std::vector<PolicyCounts>& counts) const {
  const auto m = static_cast<double>(micro_batches_);
  double least = 0, each_micro_batch = 0, each_step = 0;
  for (int s = 0; s < stages(); ++s) {
    const PolicyCounts& c = counts[s];
    const std::vector<Stage>& by_policy = by_stage_[s];
    const double firings = m * FindMean(c, [&](size_t p) { return by_policy[p].firings; }) +
                           FindMean(c, [&](size_t p) { return by_policy[p].firings_once; });
    least = std::max(least, firings * costs_[0].issue_seconds);
    for (const auto& [stream, unused] : by_policy[0].streams) {
      const std::string& name = stream;
      const auto find = [&](size_t p) {
        const auto at = by_policy[p].streams.find(name);
        return at == by_policy[p].streams.end() ? StageCosts::Stream() : at->second;
      };
      least = std::max(least, m * FindMean(c, [&](size_t p) { return find(p).each; }) +
                                  FindMean(c, [&](size_t p) { return find(p).once; }));
    }
    each_micro_batch = std::max(each_micro_batch,
                                FindMean(c, [&](size_t p) { return costs_[p].each_micro_batch; }));
    each_step = std::max(each_step, FindMean(c, [&](size_t p) { return costs_[p].each_step; }));
  }
  ASSIGN_OR_RETURN(const double played,
                   PlayedSeconds(FitOrders(counts), FindSpans(counts), micro_batches_, overlap_));
  return std::max(played + m * each_micro_batch + each_step, least);
}

}  // namespace oneflow
