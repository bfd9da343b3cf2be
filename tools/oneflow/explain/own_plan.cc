#include "tools/oneflow/explain/own_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// Shares of the critical path of two steps by kernel, the largest first; empty where the run is
// too long to be played.
std::vector<std::pair<std::string, double>> TimeByKernel(const OwnPlan& own,
                                                         const proto::Cluster& cluster) {
  const absl::StatusOr<SimulatedRun> run = SimulateProved(cluster, own.plan, "train", /*steps=*/2);
  if (!run.ok()) return {};
  const SimulationSummary summary = Summarize(own.plan, cluster.name(), *run);
  double all = 0;
  for (const auto& [kernel, seconds] : summary.critical_seconds) all += seconds;
  std::vector<std::pair<std::string, double>> shares;
  for (const auto& [kernel, seconds] : summary.critical_seconds) {
    if (all > 0 && seconds >= kLeastShare * all) shares.emplace_back(kernel, seconds / all);
  }
  std::ranges::stable_sort(shares, std::ranges::greater(), &std::pair<std::string, double>::second);
  if (shares.size() > kKernels) shares.resize(kKernels);
  return shares;
}

}  // namespace

std::string OwnText(const OwnFrame& frame, const OwnPlan& own, const proto::Cluster& cluster) {
  const FoundPlan& plan = own.found;
  std::string text =
      absl::StrCat("as you run it on ", frame.cluster, ": ", own.fits ? "fits, " : "does not fit, ",
                   ShortBytesText(plan.bytes));
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
  std::vector<std::string> kernels;
  for (const auto& [kernel, share] : TimeByKernel(own, cluster)) {
    kernels.push_back(absl::StrCat(kernel, " ", PercentText(share)));
  }
  if (!kernels.empty()) {
    absl::StrAppend(&text, "; on the critical path ", absl::StrJoin(kernels, ", "));
  }
  std::vector<std::string> parts;
  for (const ClassBytes& part : ListClassBytes(own.plan)) {
    parts.push_back(absl::StrCat(part.what, " ", ShortBytesText(part.bytes)));
  }
  if (!parts.empty()) absl::StrAppend(&text, "\nmemory: ", absl::StrJoin(parts, ", "));
  return text + "\n";
}

nlohmann::ordered_json OwnJson(const OwnFrame& frame, const OwnPlan& own,
                               const proto::Cluster& cluster) {
  using Json = nlohmann::ordered_json;
  const FoundPlan& plan = own.found;
  return {{"fits", own.fits},
          {"bytes_a_device", plan.bytes},
          {"device_capacity_bytes", frame.capacity},
          {"step_seconds", plan.step_seconds},
          {"band", BandJson(plan.band, plan.step_seconds)},
          {"tokens_a_second", plan.tokens_a_second},
          {"tokens_per_second_per_device", plan.device_tokens_a_second},
          {"mfu", plan.mfu ? Json(*plan.mfu) : Json(nullptr)},
          {"bubble", plan.bubble},
          {"exposed_exchange_seconds", plan.exposed_exchange},
          {"time", JsonList(TimeByKernel(own, cluster),
                            [](const auto& part) {
                              return Json{{"kernel", part.first}, {"share", part.second}};
                            })},
          {"memory", JsonList(ListClassBytes(own.plan), [](const ClassBytes& part) {
             return Json{{"what", part.what}, {"bytes", part.bytes}};
           })}};
}

}  // namespace oneflow
