#include "oneflow_core/model/offload.h"

#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

constexpr char kHint[] =
    "use none, or some of activations, states and weights, as in activations:0.5,states";

absl::Status NotKnown(const std::string& flag, std::string_view text, const std::string& part) {
  const std::string meant = Nearest(part, {"none", "activations", "states", "weights"});
  return InputError(absl::StrCat(flag, ToAbsl(text)),
                    absl::StrCat("\"", part, "\" is nothing that can be offloaded"),
                    meant.empty() ? kHint : absl::StrCat("did you mean ", meant, "? ", kHint));
}

absl::StatusOr<proto::Offload::Activations> ParseActivations(const std::string& flag,
                                                             std::string_view text,
                                                             const std::string& value) {
  proto::Offload::Activations activations;
  if (value == "all") {
    activations.set_all(true);
    activations.set_share(1);
    return activations;
  }
  double share = 0;
  if (!absl::SimpleAtod(value, &share) || !std::isfinite(share) || share <= 0 || share > 1) {
    return InputError(absl::StrCat(flag, ToAbsl(text)),
                      absl::StrCat("\"", value, "\" is no share of the activations"),
                      "use a number above 0 and at most 1, as in activations:0.5, or "
                      "activations:all");
  }
  activations.set_share(share);
  return activations;
}

}  // namespace

absl::StatusOr<proto::Offload> ParseOffload(const std::string& flag, std::string_view text) {
  proto::Offload offload;
  if (text == "none") return offload;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(ToAbsl(text), ','))) {
    const std::pair<std::string, std::string> words = absl::StrSplit(part, absl::MaxSplits(':', 1));
    const bool valued = part.find(':') != std::string::npos;
    bool twice = false;
    if (words.first == "activations") {
      twice = offload.has_activations();
      offload.mutable_activations();
      if (valued) {
        ASSIGN_OR_RETURN(*offload.mutable_activations(),
                         ParseActivations(flag, text, words.second));
      }
    } else if (part == "states" || part == "weights") {
      const bool states = part == "states";
      twice = states ? offload.states() : offload.weights();
      states ? offload.set_states(true) : offload.set_weights(true);
    } else if (part == "none") {
      return InputError(absl::StrCat(flag, ToAbsl(text)), "names none beside others", kHint);
    } else {
      return NotKnown(flag, text, part);
    }
    if (twice) {
      return InputError(absl::StrCat(flag, ToAbsl(text)),
                        absl::StrCat("names ", words.first, " twice"), "name each once");
    }
  }
  return offload;
}

std::string ToString(const proto::Offload& offload) {
  std::vector<std::string> parts;
  if (offload.has_activations()) {
    const proto::Offload::Activations& activations = offload.activations();
    parts.push_back(activations.all()         ? "activations:all"
                    : activations.has_share() ? absl::StrCat("activations:", activations.share())
                                              : "activations");
  }
  if (offload.states()) parts.emplace_back("states");
  if (offload.weights()) parts.emplace_back("weights");
  return parts.empty() ? "none" : absl::StrJoin(parts, ",");
}

}  // namespace oneflow
