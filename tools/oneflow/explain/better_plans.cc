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
#include "planning/recipe/changes_that_fit.h"
#include "planning/search/candidate.h"
#include "planning/search/plan_words.h"
#include "tools/foreign/emit/nearest_plan.h"

namespace oneflow {
namespace {

constexpr size_t kBetterPlans = 3;
constexpr double kFindingShare = 0.7;    // of the time, for plans; the rest is for changes alone
constexpr double kLeastGain = 0.01;      // of a step
constexpr double kLeastEffect = 0.0005;  // of a step, or of the bytes, that is worth a line

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
  static const auto* const groups =
      new std::vector<ChoiceGroup>{{"degrees", {"mesh", "experts", "keep_axis_order"}},
                                   {"micro-batches", {"micro_batches"}},
                                   {"sharding", {"shard", "reduce"}},
                                   {"schedule", {"schedule", "chunks", "stage_layers"}},
                                   {"recompute", {"recompute"}},
                                   {"positions", {"sequence_parallel", "split_products"}},
                                   {"gathers of weights", {"gather", "prefetch"}},
                                   {"host", {"offload", "update_on"}}};
  return *groups;
}

// The user's recipe with one choice a step further: other recompute, half and twice the
// micro-batches, more and less that is split.
std::vector<proto::Recipe> ListSteps(const proto::Recipe& own) {
  std::vector<proto::Recipe> steps;
  const auto add = [&](std::string_view name, const std::string& text) {
    const Row& row = *FindRow(RecipeRows(), name);
    proto::Recipe step = own;
    ClearField(row, &step);
    if (!SetField(row, text, &step).ok() || FieldText(row, step) == FieldText(row, own)) return;
    steps.push_back(std::move(step));
  };
  const std::string again = ChoiceText(own, "recompute").ends_with("gather") ? ",gather" : "";
  for (const char* policy : {"none", "attention", "selective", "full"}) {
    add("recompute", policy + again);
  }
  const int64_t count = own.micro_batches();
  if (count % 2 == 0) add("micro_batches", absl::StrCat(count / 2));
  add("micro_batches", absl::StrCat(2 * count));
  for (const char* split : {"none", "states", "gradients", "weights"}) add("shard", split);
  return steps;
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

BetterFinder::BetterFinder(const foreign::Facts& facts, const OwnFrame& frame,
                           const proto::Run& run)
    : facts_(facts), frame_(frame), run_(run) {}

bool BetterFinder::is_told() const { return FindEmitter(facts_.system).has_value(); }

absl::Status BetterFinder::Find(const SearchSpec& spec, const FitAnswer& answer, double seconds) {
  own_seconds_ = answer.own->found.step_seconds;
  own_bytes_ = answer.own->found.bytes;
  own_fits_ = answer.own->fits;
  if (!FindEmitter(facts_.system)) return absl::OkStatus();
  ASSIGN_OR_RETURN(own_job_, foreign::JobFromPlan(answer.own->plan, run_, spec.given.cluster));
  // The answer's best plan first: with little time it is all there is.
  const double begin = CpuSeconds();
  const auto is_over = [&](double share) { return CpuSeconds() - begin > share * seconds; };
  std::vector<proto::Recipe> candidates;
  for (const FoundPlan& found : answer.plans) candidates.push_back(found.candidate);
  std::vector<proto::Recipe> steps = ListSteps(own_job_.recipe);
  candidates.insert(candidates.begin() + std::min<ptrdiff_t>(1, std::ssize(candidates)),
                    steps.begin(), steps.end());
  for (const proto::Recipe& candidate : candidates) {
    RETURN_IF_ERROR(Add(spec, MakeCandidate(candidate)));
    if (is_over(kFindingShare)) break;
  }
  std::ranges::stable_sort(better_, {}, &BetterPlan::seconds);
  if (better_.size() > kBetterPlans) better_.resize(kBetterPlans);
  if (!better_.empty()) ListAlone(spec, begin + seconds, better_.front());
  return absl::OkStatus();
}

absl::Status BetterFinder::Add(const SearchSpec& spec, const proto::Recipe& candidate) {
  const foreign::System system = *FindEmitter(facts_.system);
  const absl::StatusOr<CompiledPlan> compiled = CompileFitting(spec, candidate);
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
  auto changes =
      foreign::ListChanges(system, own->front().job, nearest->rounded.job, facts_.settings);
  if (!changes) return absl::OkStatus();
  better.changes = *std::move(changes);
  const bool known = std::ranges::any_of(better_, [&](const BetterPlan& other) {
    return other.seconds == better.seconds && other.bytes == better.bytes;
  });
  if (better.changes.empty() || known) return absl::OkStatus();
  better.recipe = nearest->rounded.job.recipe;
  better.flags = CandidateFlags(MakeCandidate(better.recipe));
  better_.push_back(std::move(better));
  return absl::OkStatus();
}

// Each group of choices that differs, taken into the user's own recipe without the others.
void BetterFinder::ListAlone(const SearchSpec& spec, double end, BetterPlan& better) {
  const foreign::System system = *FindEmitter(facts_.system);
  const proto::Recipe &own = own_job_.recipe, &recipe = better.recipe;
  // Stages of another number are ordered and split in their own way, and micro-batches of the same
  // size are of another number beside other degrees.
  const bool same_pipe = FindDegree(FindMesh(own), "pipe") == FindDegree(FindMesh(recipe), "pipe");
  const bool same_mesh = ChoiceText(own, "mesh") == ChoiceText(recipe, "mesh");
  std::vector<std::pair<const ChoiceGroup*, proto::Recipe>> changed;
  for (const ChoiceGroup& group : ChoiceGroups()) {
    const bool is_degrees = group.what == std::string_view("degrees");
    const bool is_schedule = group.what == std::string_view("schedule");
    const bool is_batch = group.what == std::string_view("micro-batches");
    const bool is_sharding = group.what == std::string_view("sharding");
    if ((is_schedule && !same_pipe) || ((is_batch || is_sharding) && !same_mesh)) continue;
    std::vector<std::string_view> rows = group.rows;
    if (is_degrees && !same_pipe) {
      rows.insert(rows.end(), {"schedule", "chunks", "stage_layers"});
    }
    if (is_degrees && !same_mesh) rows.insert(rows.end(), {"micro_batches", "shard", "reduce"});
    proto::Recipe alone = own;
    bool differs = false;
    for (const std::string_view name : rows) {
      const Row& row = *FindRow(RecipeRows(), name);
      if (FieldText(row, own) == FieldText(row, recipe)) continue;
      CopyField(row, recipe, &alone);
      if (!HasField(row, recipe)) ClearField(row, &alone);
      differs = true;
    }
    if (differs) changed.emplace_back(&group, std::move(alone));
  }
  if (changed.size() < 2 || better.changes.size() < 2) return;
  for (auto& [group, alone] : changed) {
    if (CpuSeconds() > end) return;
    ChangeAlone change{.what = group->what};
    PlanRequest request = spec.given;
    request.recipe = alone;
    request.cluster.mutable_device()->clear_memory_bytes();
    const absl::StatusOr<CompiledPlan> compiled =
        CompileRequest(spec.source, request, MakeCandidate(alone));
    if (compiled.ok()) {
      change.works = true;
      change.seconds = compiled->found.step_seconds - own_seconds_;
      change.bytes = compiled->found.bytes - own_bytes_;
      const bool acts = std::abs(change.seconds) > kLeastEffect * own_seconds_ ||
                        std::abs(change.bytes) > kLeastEffect * static_cast<double>(own_bytes_);
      if (!acts) continue;
      change.fits = frame_.capacity == 0 || compiled->found.bytes <= frame_.capacity;
      const absl::StatusOr<foreign::Job> job =
          foreign::JobFromPlan(compiled->plan, run_, spec.given.cluster);
      const auto changes =
          job.ok() ? foreign::ListChanges(system, own_job_, *job, facts_.settings) : std::nullopt;
      if (!changes || changes->empty()) continue;
      for (const auto& one : *changes) change.settings.push_back(one.Text());
    }
    better.alone.push_back(std::move(change));
  }
}

std::string BetterFinder::Text() const {
  if (!is_told()) {
    return absl::StrCat("better: not told for ", facts_.system, ", whose files are not written\n");
  }
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
