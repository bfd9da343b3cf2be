#include "planning/search/plan_words.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/time_text.h"

namespace oneflow {
namespace {

constexpr const char* kAxes[] = {"pipe", "data", "expert", "context", "tensor"};
constexpr double kLeastChange = 0.005;  // of a step, that is worth a word
constexpr double kLeastBytes = 0.02;    // the same of bytes

// The parts of a step: kernels, exchanges beside which no kernel runs, and waiting for other
// stages.
struct StepPart {
  const char* name;
  double (*seconds)(const FoundPlan&);
};
double Waits(const FoundPlan& plan) { return plan.bubble * plan.step_seconds; }
constexpr StepPart kStepParts[] = {
    {"compute",
     [](const FoundPlan& plan) { return plan.step_seconds - plan.exposed_exchange - Waits(plan); }},
    {"exposed exchange", [](const FoundPlan& plan) { return plan.exposed_exchange; }},
    {"waiting for other stages", Waits}};

// What happens to a part that becomes `least` to `most` times as long.
struct Verb {
  double least, most;
  const char* word;
};
constexpr Verb kVerbs[] = {{0, 0.05, "removes"},  {0.45, 0.55, "halves"}, {0, 1, "shortens"},
                           {1.8, 2.2, "doubles"}, {1, 1e9, "lengthens"},  {1e9, INFINITY, "adds"}};

std::string PartText(const StepPart& part, const FoundPlan& plan, const FoundPlan& first) {
  const double now = part.seconds(plan), before = part.seconds(first);
  const double change = (now - before) / first.step_seconds;
  if (std::abs(change) < kLeastChange) return "";
  const double ratio = before > 0 ? std::max(0.0, now) / before : INFINITY;
  const Verb& verb = *std::ranges::find_if(
      kVerbs, [&](const Verb& v) { return v.least <= ratio && ratio <= v.most; });
  return absl::StrCat(verb.word, " ", part.name, " (", change < 0 ? "-" : "+",
                      PercentText(std::abs(change)), " of a step)");
}

std::string JoinParts(const FoundPlan& plan, const FoundPlan& first) {
  std::vector<std::string> texts;
  for (const StepPart& part : kStepParts) {
    const std::string text = PartText(part, plan, first);
    if (!text.empty()) texts.push_back(text);
  }
  return absl::StrJoin(texts, ", ");
}

// "tensor=4 instead of 1", for each choice that differs.
std::vector<std::string> ListDifferences(const proto::Recipe& a, const proto::Recipe& b) {
  std::vector<std::string> list;
  const auto add = [&](const std::string& name, const std::string& now, const std::string& before) {
    list.push_back(
        absl::StrCat(name, "=", now, " instead of ", before.empty() ? "balanced" : before));
  };
  for (const char* axis : kAxes) {
    const int now = FindDegree(FindMesh(a), axis), before = FindDegree(FindMesh(b), axis);
    if (now != before) add(axis, absl::StrCat(now), absl::StrCat(before));
  }
  const bool same_degrees = list.empty();
  for (const Row* row : DifferingRows(CandidateRows(), a, b)) {
    if (row->name == "mesh" && !same_degrees) continue;
    if (row->name == "keep_axis_order") continue;
    const std::string now = FieldText(*row, a), before = FieldText(*row, b);
    if (now != before) add(std::string(row->name), now.empty() ? "balanced" : now, before);
  }
  return list;
}

}  // namespace

std::string ChoiceText(const proto::Recipe& candidate, std::string_view name) {
  return FieldText(*FindRow(RecipeRows(), name), candidate);
}

std::string ShortBytesText(int64_t bytes) {
  const char* const units[] = {"KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit < 2; ++unit) value /= 1024;
  return absl::StrFormat("%.2f %s", value, units[unit]);
}

std::string TradeText(const FoundPlan& plan, const FoundPlan& first) {
  const double change = plan.step_seconds / first.step_seconds - 1;
  std::string text = PercentText(std::abs(change));
  text = text == PercentText(0) ? "as fast" : text + (change > 0 ? " longer" : " faster");
  const double bytes = static_cast<double>(plan.bytes) - static_cast<double>(first.bytes);
  if (std::abs(bytes) > kLeastBytes * static_cast<double>(first.bytes)) {
    absl::StrAppend(&text, ", ", ShortBytesText(plan.bytes), " instead of ",
                    ShortBytesText(first.bytes));
  }
  return text;
}

std::string DifferenceText(const FoundPlan& plan, const FoundPlan& first, const std::string& name) {
  std::vector<std::string> differences = ListDifferences(plan.candidate, first.candidate);
  if (differences.empty()) {
    if (IsSame(plan.candidate, first.candidate)) return "the same plan as " + name;
    differences = {"another order of axes"};
  }
  const std::string parts = JoinParts(plan, first);
  const bool same_bits = BitsKey(plan.candidate) == BitsKey(first.candidate);
  return absl::StrCat(absl::StrJoin(differences, ", "), ": ", parts, parts.empty() ? "" : "; ",
                      TradeText(plan, first), same_bits ? "; the bits of " : "; other bits than ",
                      name);
}

}  // namespace oneflow
