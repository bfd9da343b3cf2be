// LanguageModel: the logits of the token that follows a text, by a plan compiled with
// PlanRequest.generate.
//
//   LanguageModel model(*runtime, facts);      // weights loaded
//   ASSIGN_OR_RETURN(auto logits, model.Next(tokens));
//   tokens.push_back(ArgMax(logits));
//   ASSIGN_OR_RETURN(logits, model.Next(tokens));   // computes the one new position
//
// Programs prefill enter keys and values of the positions before the last one into the plan's
// caches, and decode computes the last one. A text longer than the model's
// sequence is seen through a window that jumps: see WindowBegin.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/kernel/run_context.h"
#include "compiler/programs.h"
#include "training/trainer/plan_facts.h"

namespace oneflow {

// The first token that the model sees of `tokens` tokens: 0 while they fit `sequence`. Then the
// window jumps on by half a sequence at a time and is computed anew, for every position in it has
// changed: once in sequence / 2 tokens, which see between half a sequence and a full one.
int64_t WindowBegin(int64_t tokens, int64_t sequence);

// The program that takes the next of `left` >= 1 positions before the last one: the smallest that
// takes all of them and is at least three quarters full, or else the largest that is full; null
// where they are so few that decode takes less time. `prefills`: as FindPrefills gives them.
const Prefill* NextPrefill(std::span<const Prefill> prefills, int64_t left);

class LanguageModel {
 public:
  // `runtime` must outlive it, and nobody else may run its prefill and decode.
  LanguageModel(Runtime& runtime, const ModelFacts& facts);

  // Logits of the token after `tokens`, which are those of the last call and more; at least one,
  // each below facts.vocab. Valid until the next call.
  absl::StatusOr<std::span<const float>> Next(std::span<const int32_t> tokens);

 private:
  absl::Status Feed(const std::string& program, std::span<const int32_t> tokens);
  absl::Status FillCaches(std::span<const int32_t> tokens);

  Runtime& runtime_;
  const ModelFacts facts_;
  const std::vector<Prefill> prefills_;
  std::vector<float> logits_;
  int64_t begin_ = 0, fed_ = 0;  // the caches hold tokens [begin_, fed_)
};

}  // namespace oneflow
