// Bytes that a call of a kernel reads. Shared by predictions and measurements of calls.
#pragma once

#include <numeric>
#include <string_view>
#include <vector>

#include "oneflow_core/op/op_def.h"

namespace oneflow {

// Bytes of `inputs`, each once. A lookup (OpDef::looks_up) reads as much of its table as it writes:
// one row, or one element, for each id. `form` is the kernel's (FormName).
inline double BytesRead(std::string_view form, std::vector<double> inputs, double first_output) {
  const OpDef* def = FindOpDef(form);
  if (def != nullptr && def->looks_up && !inputs.empty()) inputs[def->indices.of] = first_output;
  return std::accumulate(inputs.begin(), inputs.end(), 0.0);
}

}  // namespace oneflow
