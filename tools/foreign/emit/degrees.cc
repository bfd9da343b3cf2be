#include "tools/foreign/emit/degrees.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow::foreign {
namespace {

std::string WordOfAxis(const std::string& axis) { return axis.substr(0, axis.find('.')); }

void AddAxis(const std::string& name, int64_t size, proto::Recipe* recipe) {
  if (size == 1) return;
  auto* axis = recipe->mutable_mesh()->add_axis();
  axis->set_name(name);
  axis->set_size(static_cast<int32_t>(size));
}

using Axes = google::protobuf::RepeatedPtrField<std::string>;

// True if one of the names is the axis's, or the name of all its factors.
bool NamesAxis(const Axes& names, const std::string& axis) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == axis || name == WordOfAxis(axis);
  });
}

// The part of the batch's axes over which something is split, the least of the parts that are
// split at all: a system has one number for all.
int64_t FindSharded(const proto::Recipe& recipe) {
  int64_t least = 0;
  for (const Axes* names :
       {&recipe.shard().states(), &recipe.shard().gradients(), &recipe.shard().weights()}) {
    int64_t ways = 1;
    for (const auto& axis : recipe.mesh().axis()) {
      const std::string word = WordOfAxis(axis.name());
      if ((word == "data" || word == "expert") && NamesAxis(*names, axis.name())) {
        ways *= axis.size();
      }
    }
    if (ways > 1) least = least == 0 ? ways : std::min(least, ways);
  }
  return std::max<int64_t>(least, 1);
}

}  // namespace

absl::StatusOr<AxisDegrees> FindDegrees(const proto::Recipe& recipe) {
  AxisDegrees degrees;
  const std::string experts = recipe.experts().empty() ? "expert" : recipe.experts();
  int pipe = -1, data = -1, index = 0;
  for (const auto& axis : recipe.mesh().axis()) {
    const std::string word = WordOfAxis(axis.name());
    const int64_t size = axis.size();
    ++index;
    if (size == 1) continue;
    if (axis.name() == experts || word == experts) degrees.expert *= size;
    if (word == "tensor") {
      degrees.tensor *= size;
    } else if (word == "pipe") {
      degrees.pipe *= size;
      pipe = index;
    } else if (word == "context") {
      degrees.context *= size;
    } else if (word == "data" || word == "expert") {
      degrees.data *= size;
      if (data < 0) data = index;
    } else {
      return InputError(absl::StrCat("--mesh: axis ", axis.name()), "is known to no other system",
                        "use the axes pipe, data, expert, context and tensor");
    }
  }
  degrees.pipe_within_data = pipe >= 0 && data >= 0 && data < pipe;
  degrees.shard = FindSharded(recipe);
  return degrees;
}

void SetMesh(const AxisDegrees& degrees, const Splits& splits, proto::Recipe* recipe) {
  recipe->clear_mesh();
  recipe->mutable_mesh();
  recipe->clear_experts();
  recipe->clear_shard();
  recipe->clear_reduce();
  // The inner part of the batch's axes: that of the split, with the experts innermost.
  const bool partly = splits.parts > 0 && degrees.shard > 1 && degrees.shard < degrees.data;
  const int64_t expert = degrees.expert;
  if (!degrees.pipe_within_data) AddAxis("pipe", degrees.pipe, recipe);
  std::vector<std::string> split, others;
  if (partly && degrees.shard >= expert) {
    const bool one = degrees.shard == expert;
    AddAxis(one ? "data" : "data.0", degrees.data / degrees.shard, recipe);
    if (!one) AddAxis("data.1", degrees.shard / expert, recipe);
    others.emplace_back(one ? "data" : "data.0");
    if (!one) split.emplace_back("data.1");
  } else {
    AddAxis("data", degrees.data / expert, recipe);
    if (degrees.data > expert) split.emplace_back("data");
  }
  if (degrees.pipe_within_data) AddAxis("pipe", degrees.pipe, recipe);
  AddAxis("expert", expert, recipe);
  if (expert > 1) split.emplace_back("expert");
  AddAxis("context", degrees.context, recipe);
  if (degrees.context > 1) split.emplace_back("context");
  AddAxis("tensor", degrees.tensor, recipe);

  proto::Shard* shard = recipe->mutable_shard();
  for (const std::string& axis : split) {
    if (splits.parts > 0) shard->add_states(axis);
    if (splits.parts > 1) shard->add_gradients(axis);
    if (splits.parts > 2) shard->add_weights(axis);
  }
  recipe->mutable_reduce();
  if (!splits.reduced) return;
  if (splits.parts < 2) others.insert(others.end(), split.begin(), split.end());
  for (const std::string& axis : others) recipe->mutable_reduce()->add_axis(axis);
}

int CountSplit(const proto::Recipe& recipe) {
  std::set<std::string> wide;
  for (const auto& axis : recipe.mesh().axis()) {
    if (axis.size() > 1) wide.insert({axis.name(), WordOfAxis(axis.name())});
  }
  const auto splits = [&](const Axes& names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return wide.contains(name); });
  };
  const proto::Shard& shard = recipe.shard();
  if (splits(shard.weights())) return 3;
  if (splits(shard.gradients())) return 2;
  return splits(shard.states()) ? 1 : 0;
}

absl::StatusOr<int64_t> FindMicroBatch(const proto::Recipe& recipe, const AxisDegrees& degrees) {
  const int64_t parts = recipe.micro_batches() * degrees.data;
  if (recipe.batch() % parts == 0) return recipe.batch() / parts;
  return InputError(
      absl::StrCat("--batch=", recipe.batch()),
      absl::StrCat("is not the same number of sequences on each of ", degrees.data,
                   " parts of the batch in each of ", recipe.micro_batches(), " micro-batches"),
      absl::StrCat("use a multiple of ", parts));
}

Nodes FindNodes(int64_t devices, int64_t devices_a_node) {
  const int64_t each = std::gcd(devices, std::max<int64_t>(devices_a_node, 1));
  if (devices <= devices_a_node) return {1, devices};
  return {devices / each, each};
}

}  // namespace oneflow::foreign
