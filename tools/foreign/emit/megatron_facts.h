// A job in the numbers of Megatron's core, for Megatron-LM and Megatron-Bridge. Internal to this
// folder.
#pragma once

#include <string>
#include <vector>

#include "tools/foreign/emit/degrees.h"
#include "tools/foreign/emit/emit.h"
#include "tools/foreign/emit/layout.h"

namespace oneflow::foreign {

struct MegatronFacts {
  AxisDegrees degrees;
  Nodes nodes;
  int64_t micro_batch = 1;
  int split = 0;                    // states, gradients, weights: how many of them
  int64_t copies = 1;               // of the distributed optimizer
  bool host = false;                // the host updates
  int chunks = 1;                   // of a stage
  MegatronEnds ends;                // of the slices
  std::string layout;               // where neither equal slices nor the ends say them
  std::string granularity, method;  // of recompute; "" of none
  int recompute_layers = 0;
  std::vector<std::string> modules;
  int64_t offloaded_blocks = 0;
  std::string decay;            // "cosine"
  int64_t bucket_elements = 0;  // 0: the system's own
  // Of a mixture.
  std::string balance;  // "seq_aux_loss", "none"
  bool pre_softmax = false;

  bool fsdp() const { return split >= 2; }
  bool optimizer() const { return split >= 1 || host; }
  std::string strategy() const { return split == 2 ? "optim_grads" : "optim_grads_params"; }
};

// Requires a job of RoundFor.
MegatronFacts FindMegatronFacts(const Job& job);

}  // namespace oneflow::foreign
