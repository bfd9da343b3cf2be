// The tensors that a forward keeps for its backward, as Korthikanti et al. (2022) count them.
#pragma once

#include <string>
#include <vector>

#include "tools/foreign/bytes/setup.h"

namespace oneflow::foreign {

// Who computes a block, which decides what is kept beside the inputs of products.
enum class Kernels {
  kFused,     // Megatron, NeoX: a gate and its product are kept once, norms keep their inputs
  kEager,     // torchtitan: a gate's activation is a tensor of its own
  kCompiled,  // torchtitan with torch.compile: as kFused
  kModels,    // transformers: the same, and norms compute in f32
};

// A part of what a block keeps of a token.
struct SavedTensor {
  std::string what, formula;  // "gate, up and their product", "6 x 28,672"
  double bytes = 0;           // of a token, before a tensor axis splits it
  bool is_split = false;      // over tensor axes; else only with sequence parallelism
};

// `policy`: "none", "attention", "selective", "full", or "modules" with Megatron's names of what it
// recomputes ("mlp, layernorm").
std::vector<SavedTensor> SavedByBlock(const Setup& setup, const Facts& facts, Kernels kernels,
                                      const std::string& policy);

// The lines of kind "activations" of a stage: its blocks, and one that is computed again.
std::vector<ByteLine> ActivationLines(const Setup& setup, const Facts& facts, Kernels kernels,
                                      const StageShare& stage);

// Of the last stage: inputs of the last norm and the head, and logits of `bytes` each.
std::vector<ByteLine> HeadLines(const Setup& setup, const Facts& facts, double bytes,
                                const std::string& what);

}  // namespace oneflow::foreign
