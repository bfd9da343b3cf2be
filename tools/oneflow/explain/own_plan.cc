#include "tools/oneflow/explain/own_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/print/band.h"
#include "planning/search/plan_words.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/summary.h"
#include "tools/oneflow/explain/fit_answer.h"

namespace oneflow {
namespace {

constexpr size_t kKernels = 5;        // that are named
constexpr double kLeastShare = 0.02;  // of a step

// Shares of the critical path of a step by kernel, the largest first; empty where the run is
// too long to be played.
std::vector<std::pair<std::string, double>> TimeByKernel(const OwnPlan& own,
                                                         const proto::Cluster& cluster) {
  const absl::StatusOr<SimulatedRun> run = SimulateProved(cluster, own.plan, "train", /*steps=*/2);
  if (!run.ok()) return {};
  const SimulationSummary summary = Summarize(own.plan, cluster.name(), *run);
  const double all = summary.critical_step_seconds;
  std::vector<std::pair<std::string, double>> shares;
  for (const auto& [kernel, seconds] : summary.critical_seconds) {
    if (all > 0 && seconds >= kLeastShare * all) shares.emplace_back(kernel, seconds / all);
  }
  std::ranges::stable_sort(shares, std::ranges::greater(), &std::pair<std::string, double>::second);
  if (shares.size() > kKernels) shares.resize(kKernels);
  return shares;
}

}  // namespace

Report DescribeOwn(const OwnFrame& frame, const OwnPlan& own, const proto::Cluster& cluster) {
  const FoundPlan& plan = own.found;
  const auto kernels = TimeByKernel(own, cluster);
  const std::vector<ClassBytes> classes = ListClassBytes(own.plan);
  Report report;
  std::string& text = report.text;
  text = absl::StrCat("as you run it on ", frame.cluster, ": ",
                      own.fits ? "fits, " : "does not fit, ", ShortBytesText(plan.bytes));
  if (frame.capacity > 0) {
    absl::StrAppend(&text, " of ", ShortBytesText(frame.capacity), " a device");
    if (!own.fits) {
      absl::StrAppend(&text, ": ", ShortBytesText(plan.bytes - frame.capacity), " too many");
    }
  }
  absl::StrAppend(&text, "\nstep ", TimeText(plan.step_seconds), BandText(plan.band));
  if (plan.tokens_a_second > 0) {
    absl::StrAppend(&text, ", ", DigitsText(std::llround(plan.tokens_a_second)), " tokens/s (",
                    DigitsText(std::llround(plan.device_tokens_a_second)), " a device)");
  }
  if (plan.mfu) absl::StrAppend(&text, ", MFU ", PercentText(*plan.mfu));
  absl::StrAppend(&text, "\nwhere time goes: bubble ", PercentText(plan.bubble),
                  ", exchanges that nothing hides ",
                  PercentText(plan.exposed_exchange / plan.step_seconds));
  for (size_t i = 0; i < kernels.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "; on the critical path " : ", ", kernels[i].first, " ",
                    PercentText(kernels[i].second));
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "\nmemory: " : ", ", classes[i].what, " ",
                    ShortBytesText(classes[i].bytes));
  }
  text += "\n";
  using Json = nlohmann::ordered_json;
  report.json = {{"fits", own.fits},
                 {"bytes_a_device", plan.bytes},
                 {"device_capacity_bytes", frame.capacity},
                 {"step_seconds", plan.step_seconds},
                 {"band", BandJson(plan.band, plan.step_seconds)},
                 {"tokens_a_second", plan.tokens_a_second},
                 {"tokens_per_second_per_device", plan.device_tokens_a_second},
                 {"mfu", plan.mfu ? Json(*plan.mfu) : Json(nullptr)},
                 {"bubble", plan.bubble},
                 {"exposed_exchange_seconds", plan.exposed_exchange},
                 {"time", JsonList(kernels,
                                   [](const auto& part) {
                                     return Json{{"kernel", part.first}, {"share", part.second}};
                                   })},
                 {"memory", JsonList(classes, [](const ClassBytes& part) {
                    return Json{{"what", part.what}, {"bytes", part.bytes}};
                  })}};
  return report;
}

}  // namespace oneflow
