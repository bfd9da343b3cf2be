#include "planning/recipe/changes_that_fit.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/recipe/make_plan.h"
#include "planning/simulate/simulate_on.h"

namespace oneflow {
namespace {

constexpr std::string_view kSums = "sums in another order";
constexpr std::string_view kRounding = "updates rounded by the host";

// Choices that take the place of the recipe's.
struct Change {
  proto::Recipe recipe;   // these alone
  std::string_view bits;  // how they change, for people; empty: not at all
};

// Parts of the batch, or of all tokens.
struct TokenParts {
  int64_t batch = 1, all = 1;
};

TokenParts CountTokenParts(const proto::Mesh& mesh) {
  TokenParts parts;
  for (const proto::Mesh::Axis& axis : mesh.axis()) {
    if (!SplitsTokens(axis.name())) continue;
    parts.all *= axis.size();
    if (!axis.name().starts_with("context")) parts.batch *= axis.size();
  }
  return parts;
}

int CountLayouts(const proto::Shard& shard) {
  return shard.states_size() + shard.gradients_size() + shard.weights_size();
}

// `recipe` with these choices in the place of its own.
proto::Recipe With(proto::Recipe recipe, const proto::Recipe& choices) {
  for (const Row& row : RecipeRows()) {
    if (HasField(row, choices)) CopyField(row, choices, &recipe);
  }
  return recipe;
}

// In the order of what they usually cost. `given`: complete.
std::vector<Change> ListChanges(const proto::Graph& graph, const proto::Recipe& given) {
  std::vector<Change> changes;
  const bool trains = !graph.loss().empty();
  const bool moves_states = trains && given.steps_a_round() <= 1;  // each step updates
  const bool on_host = given.update_on() == proto::UPDATE_ON_HOST;
  // `more` beside what is offloaded.
  const auto offload = [&](const auto& more) {
    Change change;
    *change.recipe.mutable_offload() = given.offload();
    more(change.recipe.mutable_offload());
    changes.push_back(std::move(change));
  };
  const auto change = [&](const std::string& flags, std::string_view bits = "") {
    changes.push_back({MakeRecipe(flags), bits});
  };
  const bool activations = given.offload().has_activations();
  const auto& kept = given.offload().activations();
  if (given.host_memory() > 0 && activations && (!kept.has_share() || kept.share() > 0.5)) {
    offload([](proto::Offload* half) {
      half->mutable_activations()->set_share(0.5);
      half->mutable_activations()->set_all(false);
    });
  }
  if (trains && given.loss_pieces() == 0) change("--loss_pieces=auto", kSums);
  if (trains && !activations) offload([](proto::Offload* more) { more->mutable_activations(); });
  const TokenParts parts = CountTokenParts(given.mesh());
  for (const char* flags : {"--shard=states", "--shard=gradients", "--shard=weights"}) {
    const proto::Recipe split = MakeRecipe(flags);
    if (parts.all < 2 || CountLayouts(split.shard()) <= CountLayouts(given.shard())) continue;
    const bool sums = given.micro_batches() > 1 && split.shard().gradients_size() > 0;
    changes.push_back({split, sums ? kSums : ""});
  }
  if (moves_states && !given.offload().states() && !on_host) {
    offload([](proto::Offload* more) { more->set_states(true); });
  }
  Change full{MakeRecipe("--recompute=full"), ""};
  full.recipe.mutable_recompute()->set_gather(given.recompute().gather());
  if (full.recipe.recompute().SerializeAsString() != given.recompute().SerializeAsString()) {
    changes.push_back(std::move(full));
  }
  if (moves_states && !on_host) {
    change("--update_on=host", given.device() == proto::CUDA ? kRounding : "");
  }
  const int64_t m = 2 * given.micro_batches();
  if (given.batch() % m == 0 && given.batch() / m >= parts.batch) {
    change(absl::StrCat("--micro_batches=", m), kSums);
  }
  return changes;
}

// All of them; of a choice that several name the last, but what is offloaded adds up.
Change JoinChanges(const std::vector<Change>& changes) {
  Change all;
  proto::Offload offload;
  for (const Change& change : changes) {
    all.recipe = With(std::move(all.recipe), change.recipe);
    offload.MergeFrom(change.recipe.offload());
    if (all.bits.empty() || change.bits == kSums) all.bits = change.bits;
  }
  // Half of the activations is the first change: later ones have those that were given.
  const auto half = std::find_if(changes.begin(), changes.end(), [](const Change& change) {
    return change.recipe.offload().has_activations();
  });
  if (half != changes.end()) {
    *offload.mutable_activations() = half->recipe.offload().activations();
  }
  if (all.recipe.has_offload()) *all.recipe.mutable_offload() = offload;
  return all;
}

}  // namespace

absl::Status WithChangesThatFit(const absl::Status& refused, const GraphSource& source,
                                const PlanRequest& request,
                                const std::function<void(const std::string&)>& report) {
  PlanRequest given = request;
  if (!given.known_layouts) given.known_layouts = std::make_shared<KnownLayouts>();
  const absl::StatusOr<PlanRequest> complete = Completed(given);
  if (!complete.ok()) return refused;
  std::string lines;
  const auto attempt = [&](const Change& change) {
    const std::string flags = FlagsText(RecipeRows(), change.recipe);
    report(absl::StrCat("it does not fit; trying ", flags));
    PlanRequest changed = given;
    changed.recipe = With(given.recipe, change.recipe);
    const absl::StatusOr<Planned> planned = MakePlan(source, changed);
    if (!planned.ok()) return;
    const proto::Plan& plan = planned->plan;
    absl::StrAppendFormat(&lines, "\n  %s: %.2f GiB", flags,
                          static_cast<double>(MostDeviceBytes(plan)) / (1 << 30));
    const absl::StatusOr<SimulatedRun> run = SimulateProved(given.cluster, plan, "train", 2);
    if (run.ok()) absl::StrAppendFormat(&lines, ", a step of %.3g s", run->StepSeconds());
    if (!change.bits.empty()) absl::StrAppend(&lines, " (", std::string(change.bits), ")");
  };
  const std::vector<Change> changes = ListChanges(source.graph, complete->recipe);
  for (const Change& change : changes) attempt(change);
  if (lines.empty() && changes.size() > 1) attempt(JoinChanges(changes));
  const std::string tried = lines.empty()
                                ? "\nno flag that was tried makes it fit; use more devices"
                                : "\nit fits with" + lines;
  return absl::ResourceExhaustedError(absl::StrCat(refused.message(), tried));
}

}  // namespace oneflow
