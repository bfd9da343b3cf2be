#include "tools/oneflow/fitting_flags.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor_runtime/simulate/simulate_on.h"
#include "oneflow_core/model/sharding.h"

namespace oneflow {
namespace {

struct Change {
  std::string flags;
  bool moves_bits = false;
  std::function<void(CompileOptions*)> apply;
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

std::vector<Change> ListChanges(const CompileOptions& given) {
  std::vector<Change> changes;
  const TokenParts parts = CountParts(given.mesh);
  const bool several = given.train.micro_batches() > 1;
  for (const auto& [name, shard] :
       {std::pair("states", ShardStates()), std::pair("gradients", ShardGradients()),
        std::pair("weights", ShardWeights())}) {
    const bool more =
        shard.states.size() + shard.gradients.size() + shard.weights.size() >
        given.shard.states.size() + given.shard.gradients.size() + given.shard.weights.size();
    if (parts.all < 2 || !more) continue;
    changes.push_back({absl::StrCat("--shard=", name), several && !shard.gradients.empty(),
                       [shard = shard](CompileOptions* options) { options->shard = shard; }});
  }
  if (!given.train.recompute().starts_with("full")) {
    changes.push_back({"--recompute=full", false,
                       [](CompileOptions* options) { options->train.set_recompute("full"); }});
  }
  const int64_t m = 2 * given.train.micro_batches();
  if (given.train.batch() % m == 0 && given.train.batch() / m >= parts.batch) {
    changes.push_back({absl::StrCat("--micro_batches=", m), true,
                       [m](CompileOptions* options) { options->train.set_micro_batches(m); }});
  }
  return changes;
}

// The most that a device takes.
int64_t CountBytes(const proto::Plan& plan) {
  int64_t most = 0;
  for (const proto::StageMemory& memory : plan.memory()) {
    if (memory.kind() == proto::DEVICE) most = std::max(most, memory.arena_bytes());
  }
  return most;
}

// The line of a change; empty where the plan does not fit with it.
std::string TryChange(const std::string& flags, bool moves_bits, const GraphSource& source,
                      const CompileOptions& options) {
  std::fprintf(stderr, "oneflow: it does not fit; trying %s\n", flags.c_str());
  const absl::StatusOr<proto::Plan> plan = Compile(source, options);
  if (!plan.ok()) return "";
  std::string line = absl::StrFormat("\n  %s: %.2f GiB", flags,
                                     static_cast<double>(CountBytes(*plan)) / (1 << 30));
  const absl::StatusOr<SimulatedRun> run = SimulateOn(options.cluster, *plan, "train", 2);
  if (run.ok()) absl::StrAppendFormat(&line, ", a step of %.3g s", run->StepSeconds());
  if (moves_bits) line += " (sums in another order)";
  return line;
}

}  // namespace

absl::Status WithFlagsThatFit(const absl::Status& refused, const GraphSource& source,
                              const CompileOptions& given) {
  const std::vector<Change> changes = ListChanges(given);
  std::string lines;
  for (const Change& change : changes) {
    CompileOptions options = given;
    change.apply(&options);
    lines += TryChange(change.flags, change.moves_bits, source, options);
  }
  if (lines.empty() && changes.size() > 1) {
    CompileOptions options = given;
    std::string flags;
    bool moves_bits = false;
    for (const Change& change : changes) {
      change.apply(&options);
      // Of the names of --shard the last holds.
      if (change.flags.starts_with("--shard") && change.flags != "--shard=weights") continue;
      absl::StrAppend(&flags, flags.empty() ? "" : " ", change.flags);
      moves_bits |= change.moves_bits;
    }
    lines = TryChange(flags, moves_bits, source, options);
  }
  const std::string tried = lines.empty()
                                ? "\nno flag that was tried makes it fit; use more devices"
                                : "\nit fits with" + lines;
  return absl::ResourceExhaustedError(absl::StrCat(refused.message(), tried));
}

}  // namespace oneflow
