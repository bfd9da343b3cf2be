// Results of PyTorch for a small GPT-2: the committed files that make_reference.py writes.
//
//   ASSIGN_OR_RETURN(Reference reference, LoadReference("tests/numerics/bias"));
//   Difference d = Compare(grad, reference.gradients.at("wte").as<float>());
//   CHECK(d.relative < 1e-5);
//
// The model is BuildModel(reference.config); names of tensors are those of its variables. Ten AdamW
// steps: learning rate 1e-3 constant, betas 0.9 and 0.95, epsilon 1e-8, clipped to norm 1, weight
// decay 0.1 on all but biases and layer norms.
//
// The gradient of a key bias, h.*.attn.qkv.bias[1], is zero but for rounding (softmax does not see
// it), and AdamW makes steps of full size of rounding errors: compare trained ones with StepBound()
// only.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/model/model.h"
#include "proto/train.pb.h"
#include "training/data/npy.h"

namespace oneflow {

struct Reference {
  proto::Model config = MakeModel("family: 'gpt'");
  int64_t batch = 0;
  proto::Optimizer optimizer;
  std::map<std::string, NpyArray> weights;    // before the first step, f32
  std::map<std::string, NpyArray> gradients;  // of the first batch, at `weights`, before clipping
  std::map<std::string, NpyArray> trained;    // weights after all steps
  NpyArray tokens, labels;                    // i32 [steps, batch, sequence]: a batch a step
  NpyArray logits;                            // f32 [batch, sequence, vocab] of the first batch
  std::vector<double> losses, norms;          // of each step, before its update

  int steps() const { return static_cast<int>(losses.size()); }
  // Ids of one step, [batch, sequence].
  std::span<const int32_t> StepTokens(int step) const;
  std::span<const int32_t> StepLabels(int step) const;
  // The largest change of an element of a key bias by AdamW.
  double StepBound() const;
};

// `folder` is tests/numerics/bias or tests/numerics/no_bias, from the workspace's root.
absl::StatusOr<Reference> LoadReference(const std::string& folder);

struct Difference {
  double absolute = 0;  // largest |actual - expected|
  double relative = 0;  // the norm of actual - expected over the norm of expected
};
// NaN anywhere makes both infinite. Requires equal sizes.
Difference Compare(std::span<const float> actual, std::span<const float> expected);

}  // namespace oneflow
