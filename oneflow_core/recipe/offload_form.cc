#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/message_form.h"

namespace oneflow {
namespace {

constexpr char kOffloadHint[] =
    "use none, or some of activations, states and weights, as in activations:0.5,states";

absl::Status ParseActivations(std::string_view where, const std::string& value,
                              proto::Offload::Activations* activations) {
  double share = 1;
  activations->set_all(value == "all");
  if (value != "all" && (!absl::SimpleAtod(value, &share) || !(share > 0 && share <= 1))) {
    return InputError(where, absl::StrCat("\"", value, "\" is no share of the activations"),
                      "use a number above 0 and at most 1, as in activations:0.5, or "
                      "activations:all");
  }
  activations->set_share(share);
  return absl::OkStatus();
}

absl::Status ParseOffloaded(std::string_view where, std::string_view text,
                            proto::Offload* offload) {
  if (text == "none") return absl::OkStatus();
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(ToAbsl(text), ','))) {
    const std::pair<std::string, std::string> words = absl::StrSplit(part, absl::MaxSplits(':', 1));
    bool twice = false;
    if (words.first == "activations") {
      twice = offload->has_activations();
      auto* const activations = offload->mutable_activations();
      if (part.find(':') != std::string::npos) {
        RETURN_IF_ERROR(ParseActivations(where, words.second, activations));
      }
    } else if (part == "states") {
      twice = offload->states();
      offload->set_states(true);
    } else if (part == "weights") {
      twice = offload->weights();
      offload->set_weights(true);
    } else if (part == "none") {
      return InputError(where, "names none beside others", kOffloadHint);
    } else {
      const std::string meant = Nearest(part, {"none", "activations", "states", "weights"});
      return InputError(
          where, absl::StrCat("\"", part, "\" is nothing that can be offloaded"),
          meant.empty() ? kOffloadHint : absl::StrCat("did you mean ", meant, "? ", kOffloadHint));
    }
    if (twice) {
      return InputError(where, absl::StrCat("names ", words.first, " twice"), "name each once");
    }
  }
  return absl::OkStatus();
}

std::string PrintOffload(const proto::Offload& offload) {
  std::vector<std::string> parts;
  if (offload.has_activations()) {
    const proto::Offload::Activations& activations = offload.activations();
    parts.push_back(activations.all()         ? "activations:all"
                    : activations.has_share() ? "activations:" + ExactText(activations.share())
                                              : "activations");
  }
  if (offload.states()) parts.emplace_back("states");
  if (offload.weights()) parts.emplace_back("weights");
  return parts.empty() ? "none" : absl::StrJoin(parts, ",");
}

}  // namespace

const Form kOffloadForm = MessageForm<proto::Offload, ParseOffloaded, PrintOffload>();

}  // namespace oneflow
