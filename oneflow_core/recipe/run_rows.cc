// The rows of Run and of its optimizer: a training beside its model, recipe and cluster.
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

using enum FlagGroup;

const Row kOptimizerRows[] = {
    {.name = "learning_rate",
     .value = "RATE",
     .sentence = "Peak learning rate.",
     .default_text = "3e-4",
     .group = kOptimizerGroup,
     .least = 0,
     .foreign = "lr",
     .bits = Bits::kValues},
};

const Row kRunRows[] = {
    {.name = "steps",
     .value = "N",
     .sentence = "Steps of the run.",
     .default_text = "100",
     .group = kRunGroup,
     .least = 0,
     .foreign = "train_iters training_steps max_iters max_steps"},
};

}  // namespace

std::span<const Row> OptimizerRows() { return kOptimizerRows; }

std::span<const Row> RunRows() { return kRunRows; }

}  // namespace oneflow
