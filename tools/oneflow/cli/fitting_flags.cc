#include "tools/oneflow/cli/fitting_flags.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/sbp/known_layouts.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/model/annotate_recompute.h"
#include "oneflow_core/model/offload.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/plan/arenas.h"
#include "planning/simulate/simulate_on.h"

namespace oneflow {
namespace {

constexpr char kSums[] = "sums in another order";
constexpr char kRounding[] = "updates rounded by the host";

struct Change {
  std::string flags;
  std::string bits;  // how they change, for people; empty: not at all
  std::function<void(PlanRequest*)> apply;
};

// Parts of the batch, or of all tokens.
struct TokenParts {
  int64_t batch = 1, all = 1;
};

TokenParts CountParts(const Mesh& mesh) {
  TokenParts parts;
  for (const Mesh::Axis& axis : mesh.axes) {
    if (!SplitsTokens(axis.name)) continue;
    parts.all *= axis.size;
    if (!axis.name.starts_with("context")) parts.batch *= axis.size;
  }
  return parts;
}

// True if a step's update is applied before the next step reads the weights.
bool IsSynchronous(const PlanRequest& given) {
  const absl::StatusOr<Schedule> schedule =
      given.order ? *given.order : MakeSchedule(given.train, given.mesh.stages());
  return schedule.ok() && schedule->rule.synchronous();
}

// `more` of what is offloaded, as the flag says it.
Change OffloadChange(const PlanRequest& given, const std::function<void(Offload*)>& more) {
  Offload offload = given.offload;
  more(&offload);
  return {absl::StrCat("--offload=", ToString(offload)), "",
          [more](PlanRequest* options) { more(&options->offload); }};
}

void AddShards(const PlanRequest& given, std::vector<Change>* changes) {
  if (CountParts(given.mesh).all < 2) return;
  for (const auto& [name, shard] :
       {std::pair("states", ShardStates()), std::pair("gradients", ShardGradients()),
        std::pair("weights", ShardWeights())}) {
    const bool more =
        shard.states.size() + shard.gradients.size() + shard.weights.size() >
        given.shard.states.size() + given.shard.gradients.size() + given.shard.weights.size();
    if (!more) continue;
    changes->push_back({absl::StrCat("--shard=", name),
                        given.recipe.micro_batches() > 1 && !shard.gradients.empty() ? kSums : "",
                        [shard = shard](PlanRequest* options) { options->shard = shard; }});
  }
}

// All blocks whole, and `gather` as it is.
void AddRecompute(const PlanRequest& given, std::vector<Change>* changes) {
  const absl::StatusOr<RecomputePolicy> policy = ParseRecompute(given.recipe.recompute());
  if (!policy.ok()) return;  // compiling has said so
  RecomputePolicy full = *policy;
  full.terms = {{.policy = "full", .counts = {}}};
  if (full == *policy) return;
  const std::string words = ToString(full);
  changes->push_back({absl::StrCat("--recompute=", words), "",
                      [words](PlanRequest* options) { options->train.set_recompute(words); }});
}

// In the order of what they usually cost.
std::vector<Change> ListChanges(const GraphSource& source, const PlanRequest& given) {
  std::vector<Change> changes;
  const bool trains = !source.graph.loss().empty();
  const bool moves_states = trains && IsSynchronous(given);
  const auto& activations = given.offload.activations;
  if (given.recipe.host_memory() > 0 && activations && activations->share.value_or(1) > 0.5) {
    changes.push_back(OffloadChange(given, [](Offload* offload) {
      offload->activations = Offload::Activations{.share = 0.5};
    }));
  }
  if (trains && given.recipe.loss_pieces() == 0) {
    changes.push_back({"--loss_pieces=auto", "",
                       [](PlanRequest* options) { options->train.set_loss_pieces(-1); }});
  }
  if (trains && !activations) {
    changes.push_back(
        OffloadChange(given, [](Offload* offload) { offload->activations.emplace(); }));
  }
  AddShards(given, &changes);
  if (moves_states && !given.offload.states && !given.recipe.update_on() == proto::UPDATE_ON_HOST) {
    changes.push_back(OffloadChange(given, [](Offload* offload) { offload->states = true; }));
  }
  AddRecompute(given, &changes);
  if (moves_states && !given.recipe.update_on() == proto::UPDATE_ON_HOST) {
    changes.push_back({"--update_on=host", given.device_kind == proto::CUDA ? kRounding : "",
                       [](PlanRequest* options) { options->offload.update_on_host = true; }});
  }
  const int64_t m = 2 * given.recipe.micro_batches();
  if (given.recipe.batch() % m == 0 && given.recipe.batch() / m >= CountParts(given.mesh).batch) {
    changes.push_back({absl::StrCat("--micro_batches=", m), kSums,
                       [m](PlanRequest* options) { options->train.set_micro_batches(m); }});
  }
  return changes;
}

// All of them, of a flag that several name the last.
Change JoinChanges(const std::vector<Change>& changes, const PlanRequest& given) {
  PlanRequest options = given;
  std::vector<std::string> flags;
  Change all;
  for (const Change& change : changes) {
    change.apply(&options);
    if (all.bits.empty() || change.bits == kSums) all.bits = change.bits;
    const std::string name = change.flags.substr(0, change.flags.find('='));
    std::erase_if(flags, [&](const std::string& flag) { return flag.starts_with(name + "="); });
    // What --offload names adds up.
    flags.push_back(name == "--offload" ? absl::StrCat("--offload=", ToString(options.offload))
                                        : change.flags);
  }
  all.flags = absl::StrJoin(flags, " ");
  all.apply = [options](PlanRequest* to) { *to = options; };
  return all;
}

// The line of a change; empty where the plan does not fit with it.
std::string TryChange(const Change& change, const GraphSource& source, PlanRequest options) {
  change.apply(&options);
  std::fprintf(stderr, "oneflow: it does not fit; trying %s\n", change.flags.c_str());
  const absl::StatusOr<proto::Plan> plan = Compile(source, options);
  if (!plan.ok()) return "";
  std::string line = absl::StrFormat("\n  %s: %.2f GiB", change.flags,
                                     static_cast<double>(MostDeviceBytes(*plan)) / (1 << 30));
  const absl::StatusOr<SimulatedRun> run = SimulateProved(options.cluster, *plan, "train", 2);
  if (run.ok()) absl::StrAppendFormat(&line, ", a step of %.3g s", run->StepSeconds());
  if (!change.bits.empty()) absl::StrAppend(&line, " (", change.bits, ")");
  return line;
}

}  // namespace

absl::Status WithFlagsThatFit(const absl::Status& refused, const GraphSource& source,
                              const PlanRequest& options) {
  PlanRequest given = options;
  if (!given.known_layouts) given.known_layouts = std::make_shared<KnownLayouts>();
  const std::vector<Change> changes = ListChanges(source, given);
  std::string lines;
  for (const Change& change : changes) lines += TryChange(change, source, given);
  if (lines.empty() && changes.size() > 1) {
    lines = TryChange(JoinChanges(changes, given), source, given);
  }
  const std::string tried = lines.empty()
                                ? "\nno flag that was tried makes it fit; use more devices"
                                : "\nit fits with" + lines;
  return absl::ResourceExhaustedError(absl::StrCat(refused.message(), tried));
}

}  // namespace oneflow
