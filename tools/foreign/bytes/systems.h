// The formulas of each system, each in the file of its name.
#pragma once

#include "tools/foreign/bytes/saved.h"
#include "tools/foreign/bytes/setup.h"

namespace oneflow::foreign {

SystemBytes MegatronBytes(const Facts& facts, const Setup& setup);
SystemBytes DeepSpeedBytes(const Facts& facts, const Setup& setup);
// FSDP of PyTorch under accelerate and the Trainer, and torchtitan; without shards, DDP.
SystemBytes FsdpBytes(const Facts& facts, const Setup& setup);

// What megatron/training/theoretical_memory_usage.py prints, step by step as it computes it.
struct MegatronEstimate {
  double weights_and_optimizer = 0, activations = 0;
  bool has_sequence_parallelism = false;  // which of its two formulas of activations
};
MegatronEstimate EstimateLikeMegatron(const Facts& facts, const Setup& setup);

// estimate_zero2_model_states_mem_needs and estimate_zero3_model_states_mem_needs, of parameters
// split by tensor and pipe already.
struct ZeroEstimate {
  double device = 0, host = 0;  // of a GPU, of a node
};
ZeroEstimate EstimateZero2(double parameters, int64_t a_node, int64_t nodes, bool offloads_states);
ZeroEstimate EstimateZero3(double parameters, double largest_layer, int64_t a_node, int64_t nodes,
                           bool offloads_states, bool offloads_weights);

// What no formula counts.
std::vector<std::string> CommonlyLeftOut();

}  // namespace oneflow::foreign
