// A plan as the configuration of another system: Megatron-LM, Megatron-Bridge, torchtitan,
// DeepSpeed or accelerate (both under the Trainer of Hugging Face).
//
//   ASSIGN_OR_RETURN(const System system, FindSystem("megatron"));
//   ASSIGN_OR_RETURN(const std::vector<Rounded> nearest, RoundFor(system, job));
//   const std::vector<EmittedFile> files = WriteFor(system, nearest.front().job);
//
// What a system cannot do is rounded to the nearest that it can, and each change is listed with its
// reason; a job of which nothing near is known is refused. fates.h says for every choice and system
// what becomes of it. A file never says another model, number of devices or batch than the job.
//
// It is not a reader of such files, compiles nothing and reads no flag.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"
#include "proto/train.pb.h"

namespace oneflow::foreign {

enum class System { kMegatron, kBridge, kTorchtitan, kDeepSpeed, kAccelerate };
inline constexpr System kSystems[] = {System::kMegatron, System::kBridge, System::kTorchtitan,
                                      System::kDeepSpeed, System::kAccelerate};

// "megatron", the word of --emit; "Megatron-LM", the name in sentences.
std::string_view SystemWord(System system);
std::string_view SystemName(System system);
// An input error that lists the words.
absl::StatusOr<System> FindSystem(std::string_view word);

// Everything that a configuration says.
struct Job {
  std::string name;            // of the model
  proto::Model model;          // complete (oneflow_core/model/model.h)
  proto::Recipe recipe;        // complete; with stage_layers, where the mesh has an axis pipe
  proto::Optimizer optimizer;  // absent numbers: their defaults
  proto::Run run;              // steps and seed are written
  int64_t parameters = 0;
  int64_t block_parameters = 0;    // of the largest block
  std::vector<int> block_classes;  // of each block (block_classes.h)
  int devices_a_node = 8;
};

// A choice that the system takes otherwise than the job has it.
struct Rounding {
  std::string row;       // of RecipeRows or OptimizerRows: "recompute"
  std::string from, to;  // as the flag takes them; "" of a field that is absent
  std::string why;       // what the system does: "one number of blocks, for every stage"
  bool operator==(const Rounding&) const = default;
};

struct Rounded {
  Job job;  // what the files say; rounded again it stays
  std::vector<Rounding> roundings;
  std::vector<std::string> differences;  // of the system that no choice here expresses
};

// The job as the system can run it. Where several values of a choice are as near (a recompute
// between two that it has), there are several, and who compiles them takes the best; the first is
// the one that takes least memory. Input errors name the flag that has nothing near.
absl::StatusOr<std::vector<Rounded>> RoundFor(System system, const Job& job);

struct EmittedFile {
  std::string name;  // "run.sh"
  std::string text;
  bool executable = false;
};

// The files, the one that starts the training first. Requires a job of RoundFor.
std::vector<EmittedFile> WriteFor(System system, const Job& job);

}  // namespace oneflow::foreign
