// The rows of proto Optimizer: AdamW and its learning rate (learning_rate.h).
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

using enum FlagGroup;

const Row kOptimizerRows[] = {
    // A row is a few lines, its sentence the last.
    // clang-format off
    {.name = "learning_rate", .value = "RATE", .default_text = "3e-4", .group = kOptimizerGroup,
     .above = 0, .bits = Bits::kValues, .foreign = "lr", .sentence = "Peak learning rate."},
    {.name = "min_learning_rate", .value = "RATE", .default_text = "0", .group = kOptimizerGroup,
     .least = 0, .bits = Bits::kValues, .foreign = "min_lr",
     .sentence = "Learning rate at the end of the decay."},
    {.name = "lr_schedule", .value = "constant|linear|cosine", .default_text = "constant",
     .group = kOptimizerGroup, .bits = Bits::kValues,
     .foreign = "lr_decay_style decay_type lr_scheduler_type",
     .sentence = "Decay of the learning rate."},
    {.name = "warmup_steps", .value = "N", .default_text = "0", .group = kOptimizerGroup,
     .least = 0, .bits = Bits::kValues, .foreign = "lr_warmup_iters warmup_iters warmup_num_steps",
     .sentence = "Steps of linear warm-up."},
    {.name = "decay_steps", .value = "N", .default_text = "0", .group = kOptimizerGroup,
     .rare = true, .least = 0, .bits = Bits::kValues, .foreign = "lr_decay_iters",
     .sentence = "Step at which the decay ends; 0: the last of the run."},
    {.name = "beta1", .value = "RATE", .default_text = "0.9", .group = kOptimizerGroup,
     .rare = true, .least = 0, .below = 1, .bits = Bits::kValues, .foreign = "adam_beta1",
     .sentence = "First beta of AdamW."},
    {.name = "beta2", .value = "RATE", .default_text = "0.95", .group = kOptimizerGroup,
     .rare = true, .least = 0, .below = 1, .bits = Bits::kValues, .foreign = "adam_beta2",
     .sentence = "Second beta of AdamW."},
    {.name = "epsilon", .value = "X", .default_text = "1e-8", .group = kOptimizerGroup,
     .rare = true, .above = 0, .bits = Bits::kValues, .foreign = "adam_eps adam_epsilon eps",
     .sentence = "Epsilon of AdamW."},
    {.name = "weight_decay", .value = "RATE", .default_text = "0.1", .group = kOptimizerGroup,
     .least = 0, .bits = Bits::kValues, .foreign = "wd",
     .sentence = "Decoupled weight decay of AdamW, on matrices and embeddings."},
    {.name = "clip", .value = "NORM", .default_text = "1.0", .group = kOptimizerGroup, .least = 0,
     .bits = Bits::kValues,
     .foreign = "clip_grad grad_clip gradient_clipping max_norm max_grad_norm",
     .sentence = "Global norm that gradients are clipped to; 0 clips nothing."},
    // clang-format on
};

}  // namespace

std::span<const Row> OptimizerRows() { return kOptimizerRows; }

}  // namespace oneflow
