#include "planning/search/simplest.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

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

// None, one policy for all blocks, or a mix, whose text counts blocks.
int RankRecompute(const FoundPlan& plan, int64_t) {
  const std::string recompute = ChoiceText(plan.candidate, "recompute");
  return recompute == "none" ? 0 : recompute.find(':') == std::string::npos ? 1 : 2;
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

}  // namespace oneflow
