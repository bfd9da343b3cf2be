// What formulas need of a configuration: the numbers of its model, and for each stage of the pipe
// the parameters and the micro-batches that one of its devices holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/foreign/bytes/bytes.h"
#include "tools/foreign/read/facts.h"

namespace oneflow::foreign {

// The numbers of a model, in the terms of Megatron.
struct Shape {
  int64_t layers = 0, hidden = 0, heads = 0, groups = 0, head_dim = 0, ffn = 0, vocab = 0;
  bool gated = false, biases = false, tied = false, layer_norm = false, qkv_bias = false;
  bool qk_norm = false;
  int64_t positions = 0;                                      // rows of a learned table
  int64_t experts = 0, experts_of_token = 0, shared_ffn = 0;  // experts are `ffn` wide
  bool is_unfused = false;  // attention writes its scores to memory

  int64_t projection() const { return heads * head_dim; }  // elements of a token's queries
};

// Parameters of the model, by how axes split them. What the system has more than the nearest model
// here is counted with `block_split`.
struct Parts {
  double block_split = 0;       // of a block, split over tensor
  double block_replicated = 0;  // norms, biases of outputs, the router
  double block_expert = 0;      // all experts of a block
  double embedding = 0;         // split over tensor
  double positions = 0;
  double final_norm = 0;
};

// What a device of a stage holds.
struct StageShare {
  int64_t index = 0, of = 1;
  int64_t blocks = 0;
  bool is_first = true, is_last = true;
  double dense = 0, expert = 0;  // parameters
  double embedding = 0;          // of `dense`: embedding and head
  double held = 1;               // micro-batches whose activations it holds at its peak
  std::string held_text;         // "8 micro-batches", "23/2 micro-batches"

  std::string Name() const;  // "stage 0 of 8", "each device"
};

struct Setup {
  Shape shape;
  Parts parts;
  int64_t tensor = 1, pipe = 1, context = 1, data = 1;
  int64_t sequence = 0, micro = 1, micro_batches = 0;  // 0: not known
  int64_t devices = 1, a_node = 1;
  int64_t dense_ways = 1, expert_ways = 1;  // devices that share the states
  int64_t experts_over = 1;                 // devices that the experts of a block are split over
  int64_t element = 2;                      // bytes of an activation
  std::vector<StageShare> stages;
  std::vector<std::string> notes;

  int64_t tokens() const { return sequence / context * micro; }  // of a micro-batch, on a device
  double block() const;  // parameters of a block on a device
};

// An input error names what is not known.
absl::StatusOr<Setup> MakeSetup(const Facts& facts);

// The setting with the key; null if there is none.
const Setting* FindSetting(const Facts& facts, std::string_view key);

// Lines of `bytes` for each parameter of the stage, those of experts split by expert_ways.
ByteLine ParameterLine(const char* kind, std::string what, double bytes, const StageShare& stage,
                       int64_t dense_ways, int64_t expert_ways);
ByteLine PlainLine(const char* kind, std::string what, std::string formula, double bytes);

// "8 x 4,096".
std::string Times(double factor, int64_t number);

// Bytes of a parameter for the optimizer's moments, by its name.
double MomentBytes(const Facts& facts, double element);

// Takes the stage whose lines have the largest sum.
void KeepLargest(std::vector<ByteLine> lines, const StageShare& stage, SystemBytes* bytes);

}  // namespace oneflow::foreign
