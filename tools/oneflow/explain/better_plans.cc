#include "tools/oneflow/explain/better_plans.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/fit/lean.h"
#include "planning/search/candidate.h"
#include "planning/search/plan_words.h"
#include "tools/foreign/emit/nearest_plan.h"

namespace oneflow {
namespace {

constexpr size_t kBetterPlans = 3;
constexpr double kLeastGain = 0.01;  // of a step

// The emitter whose settings are those of the system.
std::optional<foreign::System> FindEmitter(const std::string& system) {
  if (system == "megatron-lm") return foreign::System::kMegatron;
  if (system == "megatron-bridge" || system == "nemo") return foreign::System::kBridge;
  if (system == "torchtitan") return foreign::System::kTorchtitan;
  if (system == "deepspeed" || system == "hf-trainer") return foreign::System::kDeepSpeed;
  if (system == "accelerate") return foreign::System::kAccelerate;
  return std::nullopt;
}

// Choices that make sense together.
struct ChoiceGroup {
  const char* what;
  std::vector<std::string_view> rows;
};
const std::vector<ChoiceGroup>& ChoiceGroups() {
  static const auto* const groups = new std::vector<ChoiceGroup>{
      {"degrees", {"mesh", "experts", "shard", "reduce", "keep_axis_order"}},
      {"micro-batches", {"micro_batches"}},
      {"schedule", {"schedule", "chunks", "stage_layers"}},
      {"recompute", {"recompute"}},
      {"positions", {"sequence_parallel", "split_products"}},
      {"gathers of weights", {"gather", "prefetch"}},
      {"host", {"offload", "update_on"}}};
  return *groups;
}

std::string Signed(double seconds) {
  return absl::StrCat(seconds < 0 ? "-" : "+", TimeText(std::abs(seconds)));
}

std::string SignedBytes(int64_t bytes) {
  return absl::StrCat(bytes < 0 ? "-" : "+", ShortBytesText(std::abs(bytes)));
}

std::string SignedPercent(double share) {
  return absl::StrCat(share < 0 ? "-" : "+", PercentText(std::abs(share)));
}

}  // namespace

BetterFinder::BetterFinder(const foreign::Facts& facts, const foreign::ForeignRecipe& own,
                           const OwnFrame& frame, const proto::Run& run)
    : facts_(facts), own_(own), frame_(frame), run_(run) {}

absl::Status BetterFinder::Find(const SearchSpec& spec, const FitAnswer& answer) {
  own_seconds_ = answer.own->found.step_seconds;
  own_bytes_ = answer.own->found.bytes;
  own_fits_ = answer.own->fits;
  if (!FindEmitter(facts_.system)) return absl::OkStatus();
  ASSIGN_OR_RETURN(own_job_, foreign::JobFromPlan(answer.own->plan, run_, spec.given.cluster));
  for (const FoundPlan& found : answer.plans) {
    if (better_.size() >= kBetterPlans) break;
    RETURN_IF_ERROR(Add(spec, found));
  }
  std::ranges::stable_sort(better_, {}, &BetterPlan::seconds);
  return absl::OkStatus();
}

absl::Status BetterFinder::Add(const SearchSpec& spec, const FoundPlan& found) {
  const foreign::System system = *FindEmitter(facts_.system);
  const absl::StatusOr<CompiledPlan> compiled = CompileFitting(spec, found.candidate);
  if (!compiled.ok()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const foreign::Job job,
                   foreign::JobFromPlan(compiled->plan, run_, spec.given.cluster));
  // A plan of which nothing near can be said, or fits, in the user's system is no advice.
  const absl::StatusOr<foreign::NearestPlan> nearest = foreign::FindNearestPlan(
      system, job, {compiled->plan, spec.given.cluster, spec.given.imbalance});
  if (!nearest.ok()) return absl::OkStatus();
  const bool is_faster = nearest->seconds < own_seconds_ * (1 - kLeastGain);
  if (own_fits_ && !is_faster) return absl::OkStatus();
  const absl::StatusOr<std::vector<foreign::Rounded>> own = foreign::RoundFor(system, own_job_);
  if (!own.ok() || own->empty()) return absl::OkStatus();
  BetterPlan better{.seconds = nearest->seconds, .bytes = nearest->bytes};
  better.changes = foreign::ListChanges(system, own->front().job, nearest->rounded.job);
  const bool known = std::ranges::any_of(better_, [&](const BetterPlan& other) {
    return other.seconds == better.seconds && other.bytes == better.bytes;
  });
  if (better.changes.empty() || known) return absl::OkStatus();
  better.flags = CandidateFlags(MakeCandidate(nearest->rounded.job.recipe));
  if (better_.empty()) ListAlone(spec, nearest->rounded.job.recipe, better);
  better_.push_back(std::move(better));
  return absl::OkStatus();
}

// Each group of choices that differs, taken into the user's own recipe without the others.
void BetterFinder::ListAlone(const SearchSpec& spec, const proto::Recipe& recipe,
                             BetterPlan& better) {
  const foreign::System system = *FindEmitter(facts_.system);
  proto::Recipe own = own_job_.recipe;
  std::vector<std::pair<const ChoiceGroup*, proto::Recipe>> changed;
  for (const ChoiceGroup& group : ChoiceGroups()) {
    proto::Recipe alone = own;
    bool differs = false;
    for (const std::string_view name : group.rows) {
      const Row& row = *FindRow(RecipeRows(), name);
      if (FieldText(row, own) == FieldText(row, recipe)) continue;
      CopyField(row, recipe, &alone);
      if (!HasField(row, recipe)) ClearField(row, &alone);
      differs = true;
    }
    if (differs) changed.emplace_back(&group, std::move(alone));
  }
  if (changed.size() < 2) return;
  for (auto& [group, alone] : changed) {
    ChangeAlone change{.what = group->what};
    PlanRequest request = spec.given;
    // Slices of another number of stages have other blocks.
    if (group->what != std::string_view("schedule")) alone.clear_stage_layers();
    request.recipe = alone;
    request.cluster.mutable_device()->clear_memory_bytes();
    const absl::StatusOr<CompiledPlan> compiled =
        CompileRequest(spec.source, request, MakeCandidate(alone));
    if (compiled.ok()) {
      change.works = true;
      change.seconds = compiled->found.step_seconds - own_seconds_;
      change.bytes = compiled->found.bytes - own_bytes_;
      change.fits = frame_.capacity == 0 || compiled->found.bytes <= frame_.capacity;
      const absl::StatusOr<foreign::Job> job =
          foreign::JobFromPlan(compiled->plan, run_, spec.given.cluster);
      if (job.ok()) {
        for (const auto& one : foreign::ListChanges(system, own_job_, *job)) {
          change.settings.push_back(one.Text());
        }
      }
    }
    better.alone.push_back(std::move(change));
  }
}

std::string BetterFinder::Text() const {
  if (!FindEmitter(facts_.system)) return "";
  if (better_.empty()) return "better: none was found\n";
  std::string text;
  for (size_t i = 0; i < better_.size(); ++i) {
    const BetterPlan& plan = better_[i];
    absl::StrAppend(&text, "better ", i + 1, ": step ", TimeText(plan.seconds), " (",
                    SignedPercent(plan.seconds / own_seconds_ - 1), "), ",
                    ShortBytesText(plan.bytes), " a device (", SignedBytes(plan.bytes - own_bytes_),
                    ")\n");
    for (const foreign::SettingChange& change : plan.changes) {
      absl::StrAppend(&text, "    ", change.Text(), "\n");
    }
    for (const ChangeAlone& alone : plan.alone) {
      absl::StrAppend(&text, "  ", alone.what, " alone: ");
      if (!alone.works) {
        text += "no plan without the other changes\n";
        continue;
      }
      absl::StrAppend(&text, Signed(alone.seconds), " a step, ", SignedBytes(alone.bytes),
                      alone.fits ? "" : ", which does not fit", "\n");
    }
  }
  return text;
}

nlohmann::ordered_json BetterFinder::MakeJson() const {
  using Json = nlohmann::ordered_json;
  return JsonList(better_, [&](const BetterPlan& plan) {
    return Json{{"step_seconds", plan.seconds},
                {"bytes_a_device", plan.bytes},
                {"changes",
                 JsonList(plan.changes,
                          [](const foreign::SettingChange& change) {
                            return Json{{"name", change.name},
                                        {"from", change.added ? Json(nullptr) : Json(change.from)},
                                        {"to", change.removed ? Json(nullptr) : Json(change.to)}};
                          })},
                {"flags", plan.flags},
                {"alone", JsonList(plan.alone, [&](const ChangeAlone& alone) {
                   Json json = {{"what", alone.what}, {"settings", alone.settings}};
                   if (!alone.works) return json;
                   json["step_seconds"] = own_seconds_ + alone.seconds;
                   json["bytes_a_device"] = own_bytes_ + alone.bytes;
                   json["fits"] = alone.fits;
                   return json;
                 })}};
  });
}

}  // namespace oneflow
