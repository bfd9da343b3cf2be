#include "planning/search/simplest.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "planning/search/plan_words.h"

namespace oneflow {
namespace {

// A plan that fills more of a device leaves little to what a prediction of bytes does not know:
// libraries, communicators, fragments.
constexpr double kNearlyFull = 0.95;
constexpr std::string_view kSchedules[] = {"gpipe", "1f1b", "interleaved", "zero_bubble"};

int CountAxes(const FoundPlan& plan, int64_t) {
  std::set<std::string> names;
  for (const Mesh::Axis& axis : FindMesh(plan.candidate).axes) {
    if (axis.size > 1) names.insert(axis.name.substr(0, axis.name.find('.')));
  }
  return static_cast<int>(names.size());
}

int RankSchedule(const FoundPlan& plan, int64_t) {
  const std::string schedule = ChoiceText(plan.candidate, "schedule");
  return static_cast<int>(std::ranges::find(kSchedules, schedule) - std::begin(kSchedules));
}

int HasUnequalStages(const FoundPlan& plan, int64_t) {
  const std::vector<std::string> layers =
      absl::StrSplit(ChoiceText(plan.candidate, "stage_layers"), ',');
  return std::ranges::any_of(layers, [&](const std::string& count) { return count != layers[0]; });
}

// None, one policy for all blocks, or a mix, whose text counts blocks or names classes.
int RankRecompute(const FoundPlan& plan, int64_t) {
  const std::string recompute = ChoiceText(plan.candidate, "recompute");
  return recompute == "none" ? 0 : recompute.find_first_of(":@") == std::string::npos ? 1 : 2;
}

int CountStages(const FoundPlan& plan, int64_t) {
  return FindDegree(FindMesh(plan.candidate), "pipe");
}

int IsNearlyFull(const FoundPlan& plan, int64_t capacity) {
  return capacity > 0 &&
         static_cast<double>(plan.bytes) > kNearlyFull * static_cast<double>(capacity);
}

int Offloads(const FoundPlan& plan, int64_t) {
  return ChoiceText(plan.candidate, "offload") != "none";
}

using Measure = int (*)(const FoundPlan&, int64_t);
constexpr Measure kMeasures[] = {CountAxes,   RankSchedule, HasUnequalStages, RankRecompute,
                                 CountStages, IsNearlyFull, Offloads};

}  // namespace

size_t CountClass(const std::vector<FoundPlan>& found) {
  return static_cast<size_t>(std::ranges::count_if(found, [&](const FoundPlan& plan) {
    return plan.step_seconds <= (1 + kOrderSpread) * found[0].step_seconds;
  }));
}

bool IsSimpler(const FoundPlan& a, const FoundPlan& b, int64_t capacity) {
  for (const Measure measure : kMeasures) {
    const int of_a = measure(a, capacity), of_b = measure(b, capacity);
    if (of_a != of_b) return of_a < of_b;
  }
  return false;
}

size_t FindSimplest(const std::vector<FoundPlan>& found, int64_t capacity) {
  CHECK(!found.empty());
  size_t simplest = 0;
  for (size_t i = 1; i < CountClass(found); ++i) {
    if (IsSimpler(found[i], found[simplest], capacity)) simplest = i;
  }
  return simplest;
}

bool AddFound(FoundPlan found, int top, std::vector<FoundPlan>* all) {
  const auto has_one_policy = [](const FoundPlan& plan) {
    const auto& terms = plan.candidate.recompute().term();
    return terms.empty() ||
           (terms.size() == 1 && terms[0].counts().empty() && terms[0].blocks().empty());
  };
  const auto same = std::find_if(all->begin(), all->end(), [&](const FoundPlan& other) {
    return IsSameGroup(other.candidate, found.candidate) &&
           has_one_policy(other) == has_one_policy(found);
  });
  if (same != all->end()) {
    if (same->step_seconds <= found.step_seconds) return false;
    all->erase(same);
  }
  const auto at = std::upper_bound(
      all->begin(), all->end(), found,
      [](const FoundPlan& a, const FoundPlan& b) { return a.step_seconds < b.step_seconds; });
  const bool best = at == all->begin();
  all->insert(at, std::move(found));
  if (std::ssize(*all) > top && CountClass(*all) < all->size()) all->pop_back();
  return best;
}

void TrimFound(int top, bool simplest, int64_t capacity, std::vector<FoundPlan>* all) {
  const auto most = static_cast<size_t>(top);
  if (all->size() <= most) return;
  const size_t index = simplest ? FindSimplest(*all, capacity) : 0;
  if (index > most) std::swap((*all)[most], (*all)[index]);
  all->resize(index >= most ? most + 1 : most);
}

}  // namespace oneflow
