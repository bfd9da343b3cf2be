#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/message_form.h"

namespace oneflow {
namespace {

using Axes = google::protobuf::RepeatedPtrField<std::string>;

// The three layouts by name, in the order in which each contains the next.
struct Part {
  std::string_view name;
  const Axes& (proto::Shard::*axes)() const;
  Axes* (proto::Shard::*mutable_axes)();
};
constexpr Part kParts[] = {
    {"states", &proto::Shard::states, &proto::Shard::mutable_states},
    {"gradients", &proto::Shard::gradients, &proto::Shard::mutable_gradients},
    {"weights", &proto::Shard::weights, &proto::Shard::mutable_weights}};

// The short names: over the axis data are split the first 0, 1, 2 and 3 of kParts.
constexpr std::string_view kShort[] = {"none", "states", "gradients", "weights"};
constexpr char kDataAxis[] = "data";

// The short name that `text` is near to, or stands for elsewhere; empty: none.
std::string FindMeant(std::string_view text) {
  constexpr std::pair<std::string_view, const char*> kForeign[] = {
      {"zero1", "states"},  {"zero_1", "states"},  {"zero2", "gradients"}, {"zero_2", "gradients"},
      {"zero3", "weights"}, {"zero_3", "weights"}, {"fsdp", "weights"}};
  for (const auto& [name, meant] : kForeign) {
    if (name == text) return meant;
  }
  return Nearest(text, {std::begin(kShort), std::end(kShort)});
}

absl::Status ParseShard(std::string_view where, std::string_view text, proto::Shard* shard) {
  constexpr char kHint[] =
      "use none, states, gradients or weights, or axes for each, as in "
      "states:data,gradients:data,weights:data.1";
  const auto* const known = std::find(std::begin(kShort), std::end(kShort), text);
  if (known != std::end(kShort)) {
    for (const Part* part = kParts; part < kParts + (known - kShort); ++part) {
      (shard->*part->mutable_axes)()->Add(kDataAxis);
    }
    return absl::OkStatus();
  }
  for (const std::string& piece : std::vector<std::string>(absl::StrSplit(ToAbsl(text), ','))) {
    const std::pair<std::string, std::string> words =
        absl::StrSplit(piece, absl::MaxSplits(':', 1));
    const auto* part = std::find_if(std::begin(kParts), std::end(kParts),
                                    [&](const Part& p) { return p.name == words.first; });
    const std::vector<std::string> axes = absl::StrSplit(words.second, '+', absl::SkipEmpty());
    if (part == std::end(kParts) || axes.empty()) {
      const std::string meant = FindMeant(text);
      return InputError(where, "is not known",
                        meant.empty() ? kHint : absl::StrCat("did you mean ", meant, "? ", kHint));
    }
    if (!(shard->*part->axes)().empty()) {
      return InputError(where, absl::StrCat("names ", ToAbsl(part->name), " twice"),
                        "join axes with a plus, as in states:data.0+data.1");
    }
    for (const std::string& axis : axes) (shard->*part->mutable_axes)()->Add()->assign(axis);
  }
  return absl::OkStatus();
}

std::string PrintShard(const proto::Shard& shard) {
  std::vector<std::string> parts;
  size_t of_data = 0;  // the first parts, as far as they are split over data alone
  for (const Part& part : kParts) {
    const Axes& axes = (shard.*part.axes)();
    if (axes.empty()) continue;
    if (of_data == parts.size() && &part == kParts + of_data && axes.size() == 1 &&
        axes[0] == kDataAxis) {
      ++of_data;
    }
    parts.push_back(absl::StrCat(ToAbsl(part.name), ":", absl::StrJoin(axes, "+")));
  }
  return of_data == parts.size() ? std::string(kShort[of_data]) : absl::StrJoin(parts, ",");
}

absl::Status ParseReducedAxes(std::string_view where, std::string_view text,
                              proto::ReducedAxes* reduced) {
  constexpr std::string_view kEach = "each_micro_batch";
  if (text == "once") return absl::OkStatus();
  if (text == kEach) {
    reduced->add_axis(kDataAxis);
    return absl::OkStatus();
  }
  const bool listed = text.starts_with(kEach) && text.substr(kEach.size()).starts_with(':');
  const std::string list(listed ? text.substr(kEach.size() + 1) : "");
  for (const absl::string_view axis : absl::StrSplit(list, '+', absl::SkipEmpty())) {
    reduced->add_axis(std::string(axis));
  }
  if (reduced->axis_size() > 0) return absl::OkStatus();
  return InputError(where, listed ? "names no axis" : "is not known",
                    "use once, each_micro_batch, or each_micro_batch:data.1");
}

std::string PrintReducedAxes(const proto::ReducedAxes& reduced) {
  if (reduced.axis_size() == 0) return "once";
  const std::string axes = absl::StrJoin(reduced.axis(), "+");
  return axes == kDataAxis ? "each_micro_batch" : "each_micro_batch:" + axes;
}

}  // namespace

const Form kShardForm = MessageForm<proto::Shard, ParseShard, PrintShard>();
const Form kReduceForm = MessageForm<proto::ReducedAxes, ParseReducedAxes, PrintReducedAxes>();

}  // namespace oneflow
