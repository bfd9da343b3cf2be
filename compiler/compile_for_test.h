// A GPT small enough for tests, and the options with which tests compile models.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {

inline constexpr int kTrain = 1;  // index of the program "train" in a plan that trains

inline proto::Model SmallGpt(int64_t layers = 2) {
  return MakeModel(absl::StrCat("family: 'gpt' layers: ", layers,
                                " heads: 4 hidden: 32 sequence: 16 vocab: 64"));
}
inline proto::Model TinyGpt(int64_t layers) {
  return MakeModel(
      absl::StrCat("family: 'gpt' layers: ", layers, " heads: 2 hidden: 16 sequence: 8 vocab: 32"));
}

// The request of such flags, "--shard=weights", beside these.
inline PlanRequest OptionsFor(const std::string& mesh, int64_t batch = 16,
                              int64_t micro_batches = 4, const std::string& schedule = "1f1b",
                              const std::string& flags = "") {
  return {.recipe = MakeRecipe("--mesh=" + mesh + " --batch=" + std::to_string(batch) +
                               " --micro_batches=" + std::to_string(micro_batches) +
                               " --schedule=" + schedule + " " + flags)};
}

}  // namespace oneflow
