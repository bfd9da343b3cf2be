#include "tools/foreign/emit/recompute.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/model/annotate_recompute.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow::foreign {
namespace {

Policy PolicyNamed(const std::string& name) {
  if (name == "full") return Policy::kFull;
  if (name == "selective") return Policy::kSelective;
  return name == "attention" ? Policy::kAttention : Policy::kNone;
}

std::string PolicyText(Policy policy) {
  switch (policy) {
    case Policy::kNone: return "none";
    case Policy::kAttention: return "attention";
    case Policy::kSelective: return "selective";
    case Policy::kFull: return "full";
  }
  return "";
}

}  // namespace

SlicePolicies FindPolicies(const proto::Recompute& recompute, const std::vector<int>& slices,
                           std::vector<int> classes) {
  classes.resize(std::accumulate(slices.begin(), slices.end(), 0));
  SlicePolicies policies;
  auto next = classes.begin();
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto begin = std::exchange(next, next + slices[i]);
    std::vector<Policy>& of_slice = policies.emplace_back();
    for (const std::string& name : ChoosePolicies(recompute, static_cast<int>(i), {begin, next})) {
      of_slice.push_back(PolicyNamed(name));
    }
  }
  return policies;
}

bool AllHave(const SlicePolicies& policies, Policy policy) {
  return std::all_of(policies.begin(), policies.end(), [&](const std::vector<Policy>& slice) {
    return std::all_of(slice.begin(), slice.end(), [&](Policy p) { return p == policy; });
  });
}

int FindFullCount(const SlicePolicies& policies) {
  int most = 0;
  for (const std::vector<Policy>& slice : policies) {
    int full = 0;
    while (full < static_cast<int>(slice.size()) && slice[full] == Policy::kFull) ++full;
    if (std::any_of(slice.begin() + full, slice.end(),
                    [](Policy p) { return p != Policy::kNone; })) {
      return -1;
    }
    most = std::max(most, full);
  }
  for (const std::vector<Policy>& slice : policies) {
    const int full = static_cast<int>(std::count(slice.begin(), slice.end(), Policy::kFull));
    if (full != std::min<int>(most, static_cast<int>(slice.size()))) return -1;
  }
  return most;
}

proto::Recompute MakeRecompute(const std::string& text) {
  proto::Recipe recipe;
  const absl::Status set = SetField(*FindRow(RecipeRows(), "recompute"), text, &recipe);
  CHECK(set.ok()) << set;
  return recipe.recompute();
}

std::vector<proto::Recompute> NearMegatron(const SlicePolicies& policies) {
  size_t blocks = 0, largest = 0, full = 0, some = 0;
  for (const std::vector<Policy>& slice : policies) {
    blocks += slice.size();
    largest = std::max(largest, slice.size());
    for (const Policy policy : slice) {
      full += policy == Policy::kFull ? 1 : 0;
      some += policy != Policy::kNone ? 1 : 0;
    }
  }
  if (AllHave(policies, Policy::kAttention) && blocks > 0) return {MakeRecompute("attention")};
  if (const int count = FindFullCount(policies); count >= 0) {
    if (count == 0) return {MakeRecompute("none")};
    return {
        MakeRecompute(count == static_cast<int>(largest) ? "full" : absl::StrCat("full:", count))};
  }
  std::vector<proto::Recompute> near = {MakeRecompute("full")};
  // As many blocks in every slice as are recomputed on average, then as many as are full.
  size_t last = largest;
  for (const size_t blocks_of_all : {some, full}) {
    const size_t each = (blocks_of_all + policies.size() - 1) / policies.size();
    if (each == 0 || each >= last) continue;
    near.push_back(MakeRecompute(absl::StrCat("full:", each)));
    last = each;
  }
  near.push_back(MakeRecompute("attention"));
  return near;
}

std::vector<proto::Recompute> NearOne(const SlicePolicies& policies,
                                      const std::vector<std::string>& words) {
  for (const Policy policy :
       {Policy::kNone, Policy::kAttention, Policy::kSelective, Policy::kFull}) {
    const bool known = std::find(words.begin(), words.end(), PolicyText(policy)) != words.end();
    if (known && AllHave(policies, policy)) return {MakeRecompute(PolicyText(policy))};
  }
  std::vector<proto::Recompute> near;
  near.reserve(words.size());
  for (const std::string& word : words) near.push_back(MakeRecompute(word));
  return near;
}

}  // namespace oneflow::foreign
