#include "planning/search/experience.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "oneflow_core/recipe/forms.h"

namespace oneflow {
namespace {

// The ratio of a plan that is too large by short plans, unlike its formula.
constexpr double kTooLarge = 1.5;

constexpr double kPacking = 1.03, kPackingOfChunks = 1.06, kPackingOfGathers = 1.06;

std::string PackingKey(const proto::Recipe& group) {
  return absl::StrCat(group.schedule(), " ", kShardForm.print(group.shard()));
}

}  // namespace

void Experience::AddGroup(const proto::Recipe& group) {
  const std::string kind = absl::StrCat(kMeshForm.print(group.mesh()), " ", group.schedule());
  std::string axes = "axes";
  for (const auto& axis : group.mesh().axis()) absl::StrAppend(&axes, " ", axis.name());
  kind_of_.push_back(kinds_.emplace(kind, kinds_.size()).first->second);
  axes_of_.push_back(kinds_.emplace(axes, kinds_.size()).first->second);
  ratios_.resize(kinds_.size());
}

void Experience::AddEstimate(size_t group, double formula_seconds, double seconds) {
  if (!std::isfinite(formula_seconds) || formula_seconds <= 0) return;
  for (const size_t kind : {kind_of_[group], axes_of_[group]}) {
    ratios_[kind].sum += std::isfinite(seconds) ? seconds / formula_seconds : kTooLarge;
    ++ratios_[kind].count;
  }
}

double Experience::Correction(size_t group) const {
  for (const size_t kind : {kind_of_[group], axes_of_[group]}) {
    if (ratios_[kind].count > 0) return ratios_[kind].sum / ratios_[kind].count;
  }
  return 1;
}

void Experience::AddPacking(const proto::Recipe& group, double packing) {
  double& most = packing_[PackingKey(group)];
  most = std::max(most, packing);
}

double Experience::Packing(const proto::Recipe& group) const {
  const auto known = packing_.find(PackingKey(group));
  if (known != packing_.end()) return known->second;
  return kPacking * (group.chunks() > 1 ? kPackingOfChunks : 1) *
         (group.shard().weights().empty() ? 1 : kPackingOfGathers);
}

}  // namespace oneflow
