#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/message_form.h"

namespace oneflow {
namespace {

constexpr std::string_view kNoScaling = "none";

absl::Status ParseRopeScaling(std::string_view where, std::string_view text,
                              proto::RopeScaling* scaling) {
  if (text == kNoScaling) return absl::OkStatus();
  const std::vector<std::string> parts = absl::StrSplit(ToAbsl(text), ',');
  double factor = 0, low = 0, high = 0;
  int64_t positions = 0;
  const std::string hint = "write FACTOR,LOW,HIGH,POSITIONS, as in --rope_scaling=8,1,4,8192";
  if (parts.size() != 4 || !absl::SimpleAtod(parts[0], &factor) ||
      !absl::SimpleAtod(parts[1], &low) || !absl::SimpleAtod(parts[2], &high) ||
      !absl::SimpleAtoi(parts[3], &positions)) {
    return InputError(where, "is neither four numbers nor none", hint);
  }
  if (!(factor >= 1)) return InputError(where, "has a factor below 1", hint);
  if (!(low > 0)) return InputError(where, "has a LOW that is not above 0", hint);
  if (!(high > low)) return InputError(where, "has a HIGH that is not above LOW", hint);
  if (positions < 1) return InputError(where, "has no positions", hint);
  scaling->set_factor(factor), scaling->set_low(low), scaling->set_high(high);
  scaling->set_positions(positions);
  return absl::OkStatus();
}

std::string PrintRopeScaling(const proto::RopeScaling& s) {
  if (s.factor() == 0) return std::string(kNoScaling);
  return absl::StrCat(ExactText(s.factor()), ",", ExactText(s.low()), ",", ExactText(s.high()), ",",
                      s.positions());
}

}  // namespace

const Form kRopeScalingForm = MessageForm<proto::RopeScaling, ParseRopeScaling, PrintRopeScaling>();

}  // namespace oneflow
