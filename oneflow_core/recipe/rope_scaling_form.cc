#include <cmath>
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

constexpr std::string_view kNoScaling = "none", kLinear = "linear:", kYarn = "yarn:";
constexpr char kHint[] =
    "write FACTOR,LOW,HIGH,POSITIONS as in --rope_scaling=8,1,4,8192, linear:FACTOR, or "
    "yarn:FACTOR,POSITIONS,FAST,SLOW as in --rope_scaling=yarn:32,4096,32,1";

// Numbers with commas between; none where the text has others than so many.
std::vector<double> ParseNumberList(const std::string& text, size_t count) {
  std::vector<double> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtod(part, &numbers.emplace_back())) return {};
  }
  return numbers.size() == count ? numbers : std::vector<double>();
}

absl::Status CheckScaling(std::string_view where, const proto::RopeScaling& s) {
  const bool finite = std::isfinite(s.factor()) && std::isfinite(s.high());
  if (!(s.factor() >= 1) || !finite) return InputError(where, "has a factor below 1", kHint);
  if (s.kind() == proto::RopeScaling::LINEAR) return absl::OkStatus();
  const bool yarn = s.kind() == proto::RopeScaling::YARN;
  if (!(s.low() > 0)) {
    return InputError(
        where, yarn ? "has a SLOW that is not above 0" : "has a LOW that is not above 0", kHint);
  }
  // YaRN's ramp may be a step, as in Kimi K2.
  if (yarn ? !(s.high() >= s.low()) : !(s.high() > s.low())) {
    return InputError(where, yarn ? "has a FAST below SLOW" : "has a HIGH that is not above LOW",
                      kHint);
  }
  if (s.positions() < 1) return InputError(where, "has no positions", kHint);
  return absl::OkStatus();
}

absl::Status ParseYarn(std::string_view where, std::string text, proto::RopeScaling* scaling) {
  scaling->set_kind(proto::RopeScaling::YARN);
  if (const size_t at = text.find('*'); at != text.npos) {
    double factor = 0;
    if (!absl::SimpleAtod(text.substr(at + 1), &factor) || !(factor > 0) ||
        !std::isfinite(factor)) {
      return InputError(where, "has a factor of cosines and sines that is not above 0", kHint);
    }
    scaling->set_attention_factor(factor);
    text.resize(at);
  }
  if (constexpr std::string_view kExact = ",exact"; text.ends_with(kExact)) {
    scaling->set_exact(true);
    text.resize(text.size() - kExact.size());
  }
  const std::vector<double> numbers = ParseNumberList(text, 4);
  if (numbers.empty() || numbers[1] != std::floor(numbers[1]) || !(std::abs(numbers[1]) < 1e15)) {
    return InputError(where, "is no scaling of YaRN", kHint);
  }
  scaling->set_factor(numbers[0]);
  scaling->set_positions(static_cast<int64_t>(numbers[1]));
  scaling->set_high(numbers[2]), scaling->set_low(numbers[3]);
  return CheckScaling(where, *scaling);
}

absl::Status ParseRopeScaling(std::string_view where, std::string_view text,
                              proto::RopeScaling* scaling) {
  if (text == kNoScaling) return absl::OkStatus();
  if (text.starts_with(kYarn)) {
    return ParseYarn(where, std::string(text.substr(kYarn.size())), scaling);
  }
  if (text.starts_with(kLinear)) {
    const std::vector<double> factor = ParseNumberList(std::string(text.substr(kLinear.size())), 1);
    if (factor.empty()) return InputError(where, "has no factor", kHint);
    scaling->set_kind(proto::RopeScaling::LINEAR);
    scaling->set_factor(factor[0]);
    return CheckScaling(where, *scaling);
  }
  const std::vector<std::string> parts = absl::StrSplit(ToAbsl(text), ',');
  double factor = 0, low = 0, high = 0;
  int64_t positions = 0;
  if (parts.size() != 4 || !absl::SimpleAtod(parts[0], &factor) ||
      !absl::SimpleAtod(parts[1], &low) || !absl::SimpleAtod(parts[2], &high) ||
      !absl::SimpleAtoi(parts[3], &positions)) {
    return InputError(where, "is neither four numbers nor none", kHint);
  }
  scaling->set_factor(factor), scaling->set_low(low), scaling->set_high(high);
  scaling->set_positions(positions);
  return CheckScaling(where, *scaling);
}

std::string PrintRopeScaling(const proto::RopeScaling& s) {
  if (s.factor() == 0) return std::string(kNoScaling);
  const std::string factor = ExactText(s.factor()), low = ExactText(s.low());
  const std::string high = ExactText(s.high());
  if (s.kind() == proto::RopeScaling::LINEAR) return absl::StrCat(ToAbsl(kLinear), factor);
  if (s.kind() == proto::RopeScaling::LLAMA3) {
    return absl::StrCat(factor, ",", low, ",", high, ",", s.positions());
  }
  return absl::StrCat(ToAbsl(kYarn), factor, ",", s.positions(), ",", high, ",", low,
                      s.exact() ? ",exact" : "",
                      s.has_attention_factor() ? "*" + ExactText(s.attention_factor()) : "");
}

}  // namespace

const Form kRopeScalingForm = MessageForm<proto::RopeScaling, ParseRopeScaling, PrintRopeScaling>();

}  // namespace oneflow
