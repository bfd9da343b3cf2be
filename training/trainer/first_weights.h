// FirstWeights: the variables with which a new run begins, from the folders that have them: those
// of --init_from, of the graph's base, and the values of program init for what neither has.
//
//   ASSIGN_OR_RETURN(const auto weights, FirstWeights::Open(plan, run, group.IsFirst()));
//   context.load = [&](const Piece& piece) { return weights.Load(piece); };
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/run_context.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "training/checkpoint/base.h"

namespace oneflow {

class FirstWeights {
 public:
  // A frozen variable is the base's, where the graph has one. Any other is that of --init_from, or
  // of the base if the run has no --init_from. A trained variable that this folder lacks, such as
  // an adapter, has its initial values if the graph has frozen ones; else that is an error, and so
  // is an --init_from that has no variable of the graph and is not its base. The variables of
  // folders are checked. `verifies`: the hash of the base. `plan` outlives it.
  static absl::StatusOr<FirstWeights> Open(const proto::Plan& plan, const proto::Run& run,
                                           bool verifies);

  // The folder that says what model it is: of --init_from, or else the base.
  const WeightSource& model() const { return from_ != nullptr ? *from_ : *base_; }
  // True if all variables are of --init_from, so that its graph is expected to be the plan's.
  bool all_from_one() const { return from_ != nullptr && initial_ + of_base_ == 0; }

  // Fills the piece; a state of the optimizer with zeros. Thread-safe.
  absl::Status Load(const Piece& piece) const;

  // "the run begins with the weights of run/gpt2; those of 12 variables of models/gpt2 are not
  // trained; 8 variables that it lacks begin with their initial values".
  std::string Describe() const;

 private:
  struct Origin {
    const proto::Variable* variable = nullptr;
    const WeightSource* source = nullptr;  // null: initial values
  };

  uint64_t seed_ = 0;
  std::unique_ptr<WeightSource> from_, base_;  // either may be null
  std::map<std::string, Origin> origins_;      // by the name of a variable of the graph
  int64_t initial_ = 0;                        // variables with initial values
  int64_t of_base_ = 0;                        // frozen variables of the base
};

}  // namespace oneflow
