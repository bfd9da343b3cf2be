// What a run that goes on from a checkpoint is told of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/checkpoint/checkpoint.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/train.pb.h"

namespace oneflow {

// What the bits of a run depend on, beside its seed, which is refused if it is another.
struct RunFacts {
  proto::Train train;  // its optimizer is the run's
  proto::Graph graph;
  std::string mesh;    // as text; empty: not known
  int64_t tokens = 0;  // of the data that is trained on; 0: not known
};

RunFacts FactsOf(const CheckpointReader& checkpoint);
RunFacts FactsOf(const proto::Plan& plan, const proto::Optimizer& optimizer, int64_t tokens);

// How `now` differs from `was`, a phrase for each kind: "with other numbers: batch 8, now 4". What
// changes no bits is left out: stages, schedule, recompute, what variables begin with, whether
// masks are stored; so is what is not known.
std::vector<std::string> ChangesOfRun(const RunFacts& was, const RunFacts& now);

// A run that goes on with other facts is not the one that was interrupted. It may be meant, so it
// is told on stderr, not refused.
void WarnOfChanges(const std::string& folder, const RunFacts& was, const RunFacts& now);

// --resume: never, always, or if there is a complete checkpoint (auto).
enum class Resume { kNever, kAlways, kIfThere };
absl::StatusOr<Resume> ParseResume(std::string_view text);

// Whether a run goes on from a checkpoint of `dir`; kIfThere tells on stderr which it does. An
// error where kAlways finds none, or where `dir` is one checkpoint itself.
absl::StatusOr<bool> GoesOn(Resume resume, const std::string& dir);

// LatestCheckpoint; a folder of a later step that is not complete is told on stderr.
absl::StatusOr<std::string> CheckpointToUse(const std::string& dir);

}  // namespace oneflow
