// The classes of the module `_engine`.
#pragma once

#include <pybind11/pybind11.h>

#include "absl/status/status.h"

namespace oneflow {

// Adds Trainer: one training in this process, a step at a time.
void BindTrainer(pybind11::module_& module);

// Adds Weights: the variables of a checkpoint, or of a folder of Hugging Face.
void BindWeights(pybind11::module_& module);

// (exit code, message, hint): how the package learns of an error.
pybind11::tuple ErrorTuple(const absl::Status& status);

}  // namespace oneflow
