// oneflow diff: what changed from one plan to another, or from a lock to a plan, and what it does
// to bytes, time and memory.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/band.h"
#include "oneflow_core/print/plan_diff.h"
#include "oneflow_core/verify/read_plan.h"
#include "planning/simulate/run_figures.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/utilization.h"
#include "tools/oneflow/cli/cluster_flags.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/explain/lock_file.h"

namespace oneflow {
namespace {

constexpr double kRounding = 1e-9;

struct Timed {
  SimulatedRun run;
  Utilization use;
};

absl::StatusOr<Timed> SimulateStep(const proto::Cluster& cluster, const proto::Plan& plan) {
  ASSIGN_OR_RETURN(SimulatedRun run, SimulateOn(cluster, plan, FLAGS_program, /*steps=*/2));
  const Utilization use = FindUtilization(run);
  return Timed{std::move(run), use};
}

// Sums of the same times in another order differ by roundings, which are no change.
void AddTime(const std::string& what, const std::string& unit, double a, double b, PlanDiff* diff,
             int stage = -1) {
  if (std::abs(a - b) <= kRounding * std::max(a, b)) return;
  AddNumber(what, unit, a, b, diff, stage);
}

// Adds the times that differ, and their bands; returns the lines before them: what is simulated,
// how such times have held, and the time of a step where it does not differ.
absl::StatusOr<std::string> AddTimes(const proto::Cluster& cluster, const proto::Plan& a,
                                     const proto::Plan& b, PlanDiff* diff,
                                     nlohmann::ordered_json* bands) {
  ASSIGN_OR_RETURN(const Timed of_a, SimulateStep(cluster, a));
  ASSIGN_OR_RETURN(const Timed of_b, SimulateStep(cluster, b));
  const std::string what = absl::StrCat("time of a step on ", cluster.name());
  const size_t before = diff->numbers.size();
  AddTime(what, "s", of_a.run.StepSeconds(), of_b.run.StepSeconds(), diff);
  const bool differs = diff->numbers.size() > before;
  AddTime("bubble, part of a step", "", of_a.use.bubble, of_b.use.bubble, diff);
  const size_t stages = std::min(of_a.use.devices.size(), of_b.use.devices.size());
  for (size_t stage = 0; stage < stages; ++stage) {
    const auto add = [&](const char* part, double DeviceTime::*seconds) {
      AddTime(absl::StrCat(part, " in a step"), "s", of_a.use.devices[stage].*seconds,
              of_b.use.devices[stage].*seconds, diff, static_cast<int>(stage));
    };
    add("compute", &DeviceTime::compute);
    add("exposed exchange", &DeviceTime::exposed);
    add("hidden exchange", &DeviceTime::hidden);
    if (MovesToHost(of_a.run) || MovesToHost(of_b.run)) {
      add("exposed copy", &DeviceTime::exposed_copy);
      add("hidden copy", &DeviceTime::hidden_copy);
    }
    add("idle", &DeviceTime::idle);
  }
  const Band band_a = FindPlanBand(cluster, a, FLAGS_program);
  const Band band_b = FindPlanBand(cluster, b, FLAGS_program);
  *bands = {{"a", BandJson(band_a, of_a.run.StepSeconds())},
            {"b", BandJson(band_b, of_b.run.StepSeconds())}};
  const bool one = BandText(band_a) == BandText(band_b);
  std::string title = absl::StrCat("simulated on ", cluster.name(), "\n  times",
                                   one ? "" : " of the first plan", BandText(band_a), "\n");
  if (!one) absl::StrAppend(&title, "  times of the second plan", BandText(band_b), "\n");
  if (differs) return title;
  return absl::StrCat(title, "  time of a step: ", TimeText(of_a.run.StepSeconds()), " in both\n");
}

// Two plans have all else fixed.
absl::Status CheckFlagsOfTwo(const Arguments& args) {
  constexpr std::string_view kKnown[] = {"cluster", "system", "program", "format"};
  for (const auto& [flag, value] : args.flags) {
    if (std::find(std::begin(kKnown), std::end(kKnown), flag) != std::end(kKnown)) continue;
    return InputError("--" + flag, "acts on nothing: two plans are compared",
                      "leave it out, or give --lock=plan.lock in the place of one of them");
  }
  return absl::OkStatus();
}

absl::Status DiffVerbMain(const Arguments& args) {
  if (args.Given("lock")) return DiffLock(args);
  if (args.positional.size() != 2) {
    return InputError("oneflow diff",
                      absl::StrCat("compares two plans, not ", args.positional.size()),
                      "write oneflow diff A.plan B.plan");
  }
  RETURN_IF_ERROR(CheckFlagsOfTwo(args));
  ASSIGN_OR_RETURN(const proto::Plan a, ReadPlan(args.positional[0]));
  ASSIGN_OR_RETURN(const proto::Plan b, ReadPlan(args.positional[1]));
  PlanDiff diff = DiffPlans(a, b, FLAGS_program);
  AddNumber("capacity, kept for libraries", "bytes",
            static_cast<double>(KeptBytes(a.cluster().device())),
            static_cast<double>(KeptBytes(b.cluster().device())), &diff);
  std::string first = "time of a step: unknown for GPUs without --cluster\n";
  nlohmann::ordered_json bands;  // null where nothing is simulated
  if (HasRates(args, a) && HasRates(args, b)) {
    ASSIGN_OR_RETURN(const proto::Cluster cluster, ClusterToSimulate(args, a));
    ASSIGN_OR_RETURN(first, AddTimes(cluster, a, b, &diff, &bands));
  }
  nlohmann::ordered_json json = DiffJson(diff);
  json["compared"] = std::move(bands);
  return Print(DiffText(diff, first), json, 2);
}

}  // namespace

Verb DiffVerb() {
  return {verbs::kDiff, "compare two plans, or a plan and a lock: time, memory, orders",
          "oneflow diff a.plan b.plan\n"
          "oneflow diff a.plan b.plan --cluster=h100 --format=json\n"
          "oneflow diff --lock=plan.lock --graph=gpt.textproto --cluster=h100 --device=cuda "
          "--fail_above=bytes:1%,step:2%\n",
          DiffVerbMain, /*words=*/"A.plan B.plan"};
}

}  // namespace oneflow
