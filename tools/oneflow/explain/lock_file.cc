#include "tools/oneflow/explain/lock_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/read_plan.h"
#include "oneflow_core/verify/verify_plan.h"
#include "planning/lock/compare_locks.h"
#include "planning/lock/plan_lock.h"
#include "tools/oneflow/cli/cluster_flags.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/explain/headline.h"

namespace oneflow {
namespace {

absl::StatusOr<PlanLock> LockOfPlan(const Arguments& args, const PricedPlan& priced,
                                    const Report& headline) {
  if (FindProgram(priced.plan, "train") == nullptr) {
    return InputError("--lock=" + FLAGS_lock, "is of plans that train, and this one does not",
                      "leave it out");
  }
  ASSIGN_OR_RETURN(const proto::Cluster cluster, ClusterToSimulate(args, priced.plan));
  LockSource source{.plan = priced.plan,
                    .priced = priced.price ? *priced.price : priced.plan,
                    .cluster = cluster,
                    .imbalance = priced.price ? priced.imbalance : 0};
  if (const auto seconds = headline.json.find("step_seconds"); seconds != headline.json.end()) {
    source.step_seconds = seconds->get<double>();
    source.compared = headline.json.at("compared");
  }
  return MakeLock(source);
}

// A plan is compared as it is; its flags were given when it was compiled.
absl::Status CheckFlagsOfPlan(const Arguments& args) {
  constexpr std::string_view kKnown[] = {"lock", "fail_above", "format", "cluster", "system"};
  for (const auto& [flag, value] : args.flags) {
    if (std::find(std::begin(kKnown), std::end(kKnown), flag) != std::end(kKnown)) continue;
    return InputError("--" + flag,
                      absl::StrCat("cannot be given together with ", args.positional[0],
                                   ": the plan has it fixed"),
                      "leave one of the two out");
  }
  return absl::OkStatus();
}

absl::StatusOr<PricedPlan> ReadPlanToHold(const Arguments& args, const PlanLock& lock) {
  RETURN_IF_ERROR(CheckFlagsOfPlan(args));
  const std::string& path = args.positional[0];
  if (lock.imbalance > 0) {
    return InputError(path,
                      absl::StrCat("has room for any routing of experts, and ", FLAGS_lock,
                                   " is of a price at an imbalance of ", lock.imbalance),
                      "compare --graph and its flags instead");
  }
  PricedPlan result;
  ASSIGN_OR_RETURN(result.plan, ReadPlan(path));
  RETURN_IF_ERROR(Annotate(VerifyPlan(result.plan), path));
  return result;
}

// As the lock was: priced at its imbalance, or with room for any routing.
absl::StatusOr<PricedPlan> CompileToHold(const Arguments& args, const PlanLock& lock) {
  if (!args.Given("graph") && !args.Given("recipe")) {
    return InputError("oneflow diff", "has nothing to compare with --lock=" + FLAGS_lock,
                      "write a plan, or --graph=gpt.textproto and the flags that compile it");
  }
  if (lock.imbalance > 0 || args.Given("imbalance")) {
    if (!args.Given("imbalance")) FLAGS_imbalance = lock.imbalance;
    return PricedPlanFromFlags(args);
  }
  PricedPlan result;
  ASSIGN_OR_RETURN(result.plan, CompileFromFlags(args));
  return result;
}

absl::Status CheckStepKnown(const PlanLock& lock, const std::string& where,
                            const Report* headline) {
  if (lock.step_seconds) return absl::OkStatus();
  std::string why = "has no time of a step";
  if (headline != nullptr && headline->json.contains("no_prediction")) {
    absl::StrAppend(&why, ": ", headline->json["no_prediction"].get<std::string>());
  }
  return InputError("--fail_above=" + FLAGS_fail_above, absl::StrCat(where, " ", why),
                    "leave the limit of the step out");
}

}  // namespace

absl::Status CheckLockable(const Arguments& args) {
  if (!args.Given("lock") || args.Given("cluster") || args.Given("threads")) {
    return absl::OkStatus();
  }
  return InputError("--lock=" + FLAGS_lock,
                    "would hold on machines with as many cores as this one only",
                    "give --cluster, or --threads");
}

absl::Status WriteLock(const Arguments& args, const PricedPlan& priced, const Report& headline) {
  if (!args.Given("lock")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PlanLock lock, LockOfPlan(args, priced, headline));
  return Annotate(WriteFile(FLAGS_lock, LockText(lock)), "--lock");
}

absl::Status DiffLock(const Arguments& args) {
  LockLimits limits;
  if (args.Given("fail_above")) {
    ASSIGN_OR_RETURN(limits, ParseLockLimits(FLAGS_fail_above));
  }
  if (args.positional.size() > 1) {
    return InputError("oneflow diff --lock",
                      absl::StrCat("compares one plan, not ", args.positional.size()),
                      "write oneflow diff --lock=plan.lock A.plan");
  }
  if (args.Given("program")) {
    return InputError("--program=" + FLAGS_program, "is not compared: a lock is of program train",
                      "leave it out");
  }
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(FLAGS_lock, "write it with `oneflow compile --lock`"));
  ASSIGN_OR_RETURN(const PlanLock was, ParseLock(text, FLAGS_lock));
  if (limits.step) RETURN_IF_ERROR(CheckStepKnown(was, FLAGS_lock, nullptr));
  ASSIGN_OR_RETURN(const PricedPlan priced,
                   args.positional.empty() ? CompileToHold(args, was) : ReadPlanToHold(args, was));
  const Report headline =
      MakeHeadline(priced, ClusterToSimulate(args, priced.plan), std::string(kProved));
  ASSIGN_OR_RETURN(const PlanLock now, LockOfPlan(args, priced, headline));
  if (limits.step) RETURN_IF_ERROR(CheckStepKnown(now, "the plan", &headline));
  const LockChanges changes = CompareLocks(was, now, limits);
  const Report report = LockChangesReport(changes);
  RETURN_IF_ERROR(Print(report.text, report.json, 2));
  if (changes.above.empty()) return absl::OkStatus();
  return ExceededError(
      absl::StrCat("--fail_above=", FLAGS_fail_above, ": ", absl::StrJoin(changes.above, "; ")));
}

}  // namespace oneflow
