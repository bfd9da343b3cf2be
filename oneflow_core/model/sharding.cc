#include "oneflow_core/model/sharding.h"

#include <algorithm>
#include <array>
#include <initializer_list>
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
constexpr std::array<std::pair<std::string_view, proto::Shard (*)()>, 4> kNamed = {{
    {"none", [] { return proto::Shard(); }},
    {"states", ShardStates},
    {"gradients", ShardGradients},
    {"weights", ShardWeights},
}};

using Names = google::protobuf::RepeatedPtrField<std::string>;

// The three layouts by name, in the order in which each contains the next.
struct Part {
  std::string_view name;
  Axes Sharding::*axes;
  const Names& (proto::Shard::*names)() const;
  Names* (proto::Shard::*mutable_names)();
};
constexpr Part kParts[] = {
    {"states", &Sharding::states, &proto::Shard::states, &proto::Shard::mutable_states},
    {"gradients", &Sharding::gradients, &proto::Shard::gradients, &proto::Shard::mutable_gradients},
    {"weights", &Sharding::weights, &proto::Shard::weights, &proto::Shard::mutable_weights}};

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

template <typename List>
bool Has(const List& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// The axes of the mesh that `names` stand for, in its order.
absl::StatusOr<Axes> Expand(std::string_view what, const Names& names, const Mesh& mesh) {
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

// `shard`: with the mesh's names of axes.
absl::Status ExpectWithin(const Part& inner, const Part& outer, const proto::Shard& shard) {
  for (const std::string& axis : (shard.*inner.names)()) {
    if (Has((shard.*outer.names)(), axis)) continue;
    return InputError(
        absl::StrCat("--shard=", ToString(shard)),
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

namespace {

proto::Shard Shard(std::initializer_list<size_t> parts) {
  proto::Shard shard;
  for (const size_t part : parts) *(shard.*kParts[part].mutable_names)()->Add() = kData;
  return shard;
}

}  // namespace

proto::Shard ShardStates() { return Shard({0}); }
proto::Shard ShardGradients() { return Shard({0, 1}); }
proto::Shard ShardWeights() { return Shard({0, 1, 2}); }

absl::StatusOr<proto::Shard> ParseShard(const std::string& flag, std::string_view text) {
  constexpr char kHint[] =
      "use none, states, gradients or weights, or axes for each, as in "
      "states:data,gradients:data,weights:data.1";
  for (const auto& [name, make] : kNamed) {
    if (name == text) return make();
  }
  proto::Shard shard;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(ToAbsl(text), ','))) {
    const std::pair<std::string, std::string> words = absl::StrSplit(part, absl::MaxSplits(':', 1));
    const auto* known = std::find_if(std::begin(kParts), std::end(kParts),
                                     [&](const Part& p) { return p.name == words.first; });
    if (known == std::end(kParts) || words.second.empty()) {
      const std::string meant = FindMeant(text);
      return NotKnownSharding(
          flag, text, meant.empty() ? kHint : absl::StrCat("did you mean ", meant, "? ", kHint));
    }
    Names& names = *(shard.*known->mutable_names)();
    if (!names.empty()) {
      return InputError(absl::StrCat(flag, ToAbsl(text)),
                        absl::StrCat("names ", ToAbsl(known->name), " twice"),
                        "join axes with a plus, as in states:data.0+data.1");
    }
    const Axes axes = absl::StrSplit(words.second, '+', absl::SkipEmpty());
    names.Assign(axes.begin(), axes.end());
  }
  return shard;
}

std::string ToString(const proto::Shard& shard) {
  std::vector<std::string> parts;
  for (const Part& part : kParts) {
    const Names& names = (shard.*part.names)();
    if (names.empty()) continue;
    parts.push_back(absl::StrCat(ToAbsl(part.name), ":", absl::StrJoin(names, "+")));
  }
  for (const auto& [name, make] : kNamed) {
    if (make().SerializeAsString() == shard.SerializeAsString()) return std::string(name);
  }
  return absl::StrJoin(parts, ",");
}

absl::StatusOr<proto::ReducedAxes> ParseReduce(const std::string& flag, std::string_view text) {
  constexpr std::string_view kEach = "each_micro_batch";
  proto::ReducedAxes reduced;
  if (text == "once") return reduced;
  Axes axes = {kData};
  if (text != kEach) {
    if (text.starts_with(std::string(kEach) + ":")) {
      axes = absl::StrSplit(ToAbsl(text.substr(kEach.size() + 1)), '+', absl::SkipEmpty());
    } else {
      axes.clear();
    }
    if (axes.empty()) {
      return NotKnownSharding(flag, text, "use once, each_micro_batch, or each_micro_batch:data.1");
    }
  }
  reduced.mutable_axis()->Assign(axes.begin(), axes.end());
  return reduced;
}

std::string ToString(const proto::ReducedAxes& reduced) {
  if (reduced.axis().empty()) return "once";
  if (reduced.axis_size() == 1 && reduced.axis(0) == kData) return "each_micro_batch";
  return absl::StrCat("each_micro_batch:", absl::StrJoin(reduced.axis(), "+"));
}

absl::StatusOr<Sharding> OnMesh(const proto::Recipe& recipe, const Mesh& mesh) {
  Sharding sharding;
  proto::Shard named;
  for (const Part& part : kParts) {
    ASSIGN_OR_RETURN(Axes axes, Expand(part.name, (recipe.shard().*part.names)(), mesh));
    (named.*part.mutable_names)()->Assign(axes.begin(), axes.end());
    sharding.*part.axes = std::move(axes);
  }
  ASSIGN_OR_RETURN(sharding.reduced, Expand("each_micro_batch", recipe.reduce().axis(), mesh));
  RETURN_IF_ERROR(ExpectWithin(kParts[1], kParts[0], named));
  RETURN_IF_ERROR(ExpectWithin(kParts[2], kParts[1], named));
  return sharding;
}

}  // namespace oneflow
