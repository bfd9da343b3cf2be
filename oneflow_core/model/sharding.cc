#include "oneflow_core/model/sharding.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

using Axes = std::vector<std::string>;

constexpr char kData[] = "data";
constexpr std::array<std::pair<std::string_view, Sharding (*)()>, 4> kNamed = {{
    {"none", [] { return Sharding(); }},
    {"states", ShardStates},
    {"gradients", ShardGradients},
    {"weights", ShardWeights},
}};

// The three layouts by name, in the order in which each contains the next.
struct Part {
  std::string_view name;
  Axes Sharding::*axes;
};
constexpr Part kParts[] = {{"states", &Sharding::states},
                           {"gradients", &Sharding::gradients},
                           {"weights", &Sharding::weights}};

absl::Status NotKnownSharding(const std::string& flag, std::string_view text,
                              std::string_view hint) {
  return InputError(absl::StrCat(flag, ToAbsl(text)), "is not known", std::string(hint));
}

// The short name that `text` is near to, or stands for elsewhere; empty: none.
std::string FindMeant(std::string_view text) {
  constexpr std::pair<std::string_view, const char*> kForeign[] = {
      {"zero1", "states"},  {"zero_1", "states"},  {"zero2", "gradients"}, {"zero_2", "gradients"},
      {"zero3", "weights"}, {"zero_3", "weights"}, {"fsdp", "weights"}};
  for (const auto& [name, meant] : kForeign) {
    if (name == text) return meant;
  }
  return Nearest(text, {"none", "states", "gradients", "weights"});
}

bool Has(const Axes& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// The axes of the mesh that `names` stand for, in its order.
absl::StatusOr<Axes> Expand(std::string_view what, const Axes& names, const Mesh& mesh) {
  for (const std::string& name : names) {
    if (SplitsTokens(name)) {
      if (name == kData || mesh.FindAxis(name) >= 0) continue;
      return InputError(absl::StrCat(ToAbsl(what), ":", name),
                        absl::StrCat("is no axis of the mesh ", ToString(mesh)),
                        "use data, or a factor of it: data.0 and data.1 of --mesh=data=8x16");
    }
    return InputError(absl::StrCat(ToAbsl(what), ":", name), "is no axis that splits tokens",
                      "use data, or a factor of it such as data.1; tensor axes split weights by "
                      "the model's own layouts");
  }
  Axes axes;
  for (const Mesh::Axis& axis : mesh.axes) {
    if (axis.size < 2 || !SplitsTokens(axis.name)) continue;
    if (Has(names, kData) || Has(names, axis.name)) axes.push_back(axis.name);
  }
  return axes;
}

absl::Status ExpectWithin(const Part& inner, const Part& outer, const Sharding& sharding) {
  for (const std::string& axis : sharding.*inner.axes) {
    if (Has(sharding.*outer.axes, axis)) continue;
    return InputError(
        absl::StrCat("sharding ", ToString(sharding)),
        absl::StrCat("splits ", ToAbsl(inner.name), " over ", axis, ", and ", ToAbsl(outer.name),
                     " not: a device would update what it does not hold"),
        absl::StrCat("add ", axis, " to ", ToAbsl(outer.name), ", or take it from ",
                     ToAbsl(inner.name)));
  }
  return absl::OkStatus();
}

}  // namespace

bool SplitsTokens(std::string_view axis) {
  const std::string_view word = axis.substr(0, axis.find('.'));
  return word == kData || word == "expert" || word == "context";
}

Sharding ShardStates() {
  return {.states = {kData}, .gradients = {}, .weights = {}, .reduced = {}};
}
Sharding ShardGradients() {
  return {.states = {kData}, .gradients = {kData}, .weights = {}, .reduced = {}};
}
Sharding ShardWeights() {
  return {.states = {kData}, .gradients = {kData}, .weights = {kData}, .reduced = {}};
}

absl::StatusOr<Sharding> ParseSharding(const std::string& flag, std::string_view text) {
  constexpr char kHint[] =
      "use none, states, gradients or weights, or axes for each, as in "
      "states:data,gradients:data,weights:data.1";
  for (const auto& [name, make] : kNamed) {
    if (name == text) return make();
  }
  Sharding sharding;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(ToAbsl(text), ','))) {
    const std::pair<std::string, std::string> words = absl::StrSplit(part, absl::MaxSplits(':', 1));
    const auto* known = std::find_if(std::begin(kParts), std::end(kParts),
                                     [&](const Part& p) { return p.name == words.first; });
    if (known == std::end(kParts) || words.second.empty()) {
      const std::string meant = FindMeant(text);
      return NotKnownSharding(
          flag, text, meant.empty() ? kHint : absl::StrCat("did you mean ", meant, "? ", kHint));
    }
    if (!(sharding.*known->axes).empty()) {
      return InputError(absl::StrCat(flag, ToAbsl(text)),
                        absl::StrCat("names ", ToAbsl(known->name), " twice"),
                        "join axes with a plus, as in states:data.0+data.1");
    }
    sharding.*known->axes = absl::StrSplit(words.second, '+', absl::SkipEmpty());
  }
  return sharding;
}

std::string ToString(const Sharding& sharding) {
  Sharding plain = sharding;
  plain.reduced.clear();
  plain.gather = Sharding::Gather::kEachUse;
  for (const auto& [name, make] : kNamed) {
    if (make() == plain) return std::string(name);
  }
  std::vector<std::string> parts;
  for (const Part& part : kParts) {
    if ((sharding.*part.axes).empty()) continue;
    parts.push_back(absl::StrCat(ToAbsl(part.name), ":", absl::StrJoin(sharding.*part.axes, "+")));
  }
  return absl::StrJoin(parts, ",");
}

absl::StatusOr<std::vector<std::string>> ParseReduce(const std::string& flag,
                                                     std::string_view text) {
  constexpr std::string_view kEach = "each_micro_batch";
  if (text == "once") return Axes();
  if (text == kEach) return Axes{kData};
  if (text.substr(0, kEach.size() + 1) != std::string(kEach) + ":") {
    return NotKnownSharding(flag, text, "use once, each_micro_batch, or each_micro_batch:data.1");
  }
  return Axes(absl::StrSplit(ToAbsl(text.substr(kEach.size() + 1)), '+', absl::SkipEmpty()));
}

absl::StatusOr<Sharding::Gather> ParseGather(const std::string& flag, std::string_view text) {
  if (text == "each_use") return Sharding::Gather::kEachUse;
  if (text == "each_micro_batch") return Sharding::Gather::kEachMicroBatch;
  if (text == "once") return Sharding::Gather::kOnce;
  return NotKnownSharding(flag, text, "use once, each_micro_batch or each_use");
}

absl::StatusOr<Sharding> OnMesh(const Sharding& sharding, const Mesh& mesh) {
  Sharding expanded = sharding;
  for (const Part& part : kParts) {
    ASSIGN_OR_RETURN(expanded.*part.axes, Expand(part.name, sharding.*part.axes, mesh));
  }
  ASSIGN_OR_RETURN(expanded.reduced, Expand("each_micro_batch", sharding.reduced, mesh));
  RETURN_IF_ERROR(ExpectWithin(kParts[1], kParts[0], expanded));
  RETURN_IF_ERROR(ExpectWithin(kParts[2], kParts[1], expanded));
  return expanded;
}

}  // namespace oneflow
