// What a call of a kernel reads: the one place that knows of kernels that do not read all of their
// inputs. Shared by those who predict calls and those who measure them.
#pragma once

#include <numeric>
#include <string_view>
#include <vector>

namespace oneflow {

// Bytes of `inputs`, each once. A lookup reads of its table (input 0) as much as it writes: one
// row, or one element, for each id.
inline double BytesRead(std::string_view kernel, std::vector<double> inputs, double first_output) {
  const bool looks_up = kernel == "embedding" || kernel == "pick";
  if (looks_up && !inputs.empty()) inputs[0] = first_output;
  return std::accumulate(inputs.begin(), inputs.end(), 0.0);
}

}  // namespace oneflow
