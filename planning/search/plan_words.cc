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

// The words for what becomes `least` to `most` times as much.
struct Ratio {
  double least, most;
  const char* words;
};
constexpr Ratio kRatios[] = {{0, 0.05, "hardly any "},  {0.24, 0.26, "a quarter of the "},
                             {0.45, 0.55, "half the "}, {0, 1, "less "},
                             {1.8, 2.2, "twice the "},  {3.9, 4.1, "four times the "},
                             {1, 1e9, "more "},         {1e9, INFINITY, ""}};

std::string RatioText(double ratio) {
  return std::ranges::find_if(kRatios,
                              [&](const Ratio& r) { return r.least <= ratio && ratio <= r.most; })
      ->words;
}

std::string PartText(const StepPart& part, const FoundPlan& plan, const FoundPlan& first) {
  const double now = part.seconds(plan), before = part.seconds(first);
  const double change = (now - before) / first.step_seconds;
  if (std::abs(change) < kLeastChange) return "";
  const double ratio = before > 0 ? std::max(0.0, now) / before : INFINITY;
  return absl::StrCat(RatioText(ratio), part.name, " (", change < 0 ? "-" : "+",
                      PercentText(std::abs(change)), " of a step)");
}

// How much a device exchanges over data axes, in parts of the model: what its stage and its part of
// the tensors have. 0: nothing.
double FindDataExchange(const proto::Recipe& candidate) {
  const Mesh mesh = FindMesh(candidate);
  if (FindDegree(mesh, "data") == 1) return 0;
  return 1.0 / (FindDegree(mesh, "pipe") * FindDegree(mesh, "tensor"));
}

// "half the exchange over data", where the same is exchanged as often.
std::string DataExchangeText(const proto::Recipe& a, const proto::Recipe& b) {
  for (const char* name : {"shard", "micro_batches"}) {
    if (ChoiceText(a, name) != ChoiceText(b, name)) return "";
  }
  const double now = FindDataExchange(a), before = FindDataExchange(b);
  const bool expert = FindDegree(FindMesh(a), "expert") != FindDegree(FindMesh(b), "expert");
  if (expert || now == 0 || before == 0 || now == before) return "";
  return RatioText(now / before) + "exchange over data";
}

std::string JoinParts(const FoundPlan& plan, const FoundPlan& first) {
  std::vector<std::string> texts = {DataExchangeText(plan.candidate, first.candidate)};
  for (const StepPart& part : kStepParts) texts.push_back(PartText(part, plan, first));
  std::erase(texts, "");
  return absl::StrJoin(texts, ", ");
}

// The axes of `mesh` whose degree is another in `other`: "data=8,tensor=4".
std::string DifferingAxes(const Mesh& mesh, const Mesh& other) {
  std::string text;
  for (const char* axis : kAxes) {
    const int degree = FindDegree(mesh, axis);
    if (degree == 1 || degree == FindDegree(other, axis)) continue;
    absl::StrAppend(&text, text.empty() ? "" : ",", axis, "=", degree);
  }
  return text;
}

// "data=8,tensor=4 instead of data=32", "shard=states instead of none": each choice that differs.
std::vector<std::string> ListDifferences(const proto::Recipe& a, const proto::Recipe& b) {
  std::vector<std::string> list;
  const Mesh mesh = FindMesh(a), other = FindMesh(b);
  const std::string now = DifferingAxes(mesh, other), before = DifferingAxes(other, mesh);
  if (!now.empty() || !before.empty()) {
    list.push_back(absl::StrCat(now.empty() ? "no axis" : now, " instead of ",
                                before.empty() ? "no axis" : before));
  }
  const bool same_degrees = list.empty();
  const bool both_split = FindDegree(mesh, "tensor") > 1 && FindDegree(other, "tensor") > 1;
  for (const Row* row : DifferingRows(CandidateRows(), a, b)) {
    if (row->name == "keep_axis_order" || (row->name == "mesh" && !same_degrees)) continue;
    if (row->name == "sequence_parallel" && !both_split) continue;
    const std::string x = FieldText(*row, a), y = FieldText(*row, b);
    if (x == y) continue;
    list.push_back(absl::StrCat(std::string(row->name), "=", x.empty() ? "balanced" : x,
                                " instead of ", y.empty() ? "balanced" : y));
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
