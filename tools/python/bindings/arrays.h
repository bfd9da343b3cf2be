// Tensors as NumPy's arrays.
#pragma once

#include <pybind11/numpy.h>

#include "training/data/npy.h"

namespace oneflow {

// A copy. NumPy has no bf16: it becomes f32, which holds it exactly.
pybind11::array ToNumpy(const NpyArray& array);

}  // namespace oneflow
