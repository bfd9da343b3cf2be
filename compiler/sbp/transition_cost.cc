#include "compiler/sbp/transition_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace oneflow {
namespace {

// A tensor of about so many bytes, of which any of the dimensions that are split has even parts.
BoxedTensor EvenTensor(Sbp from, Sbp to, double bytes, DType dtype, int64_t devices) {
  BoxedTensor tensor{{}, /*element_bytes=*/1, dtype};
  double rest = bytes;
  const int dims = std::max({1, from.split() ? from.dim + 1 : 0, to.split() ? to.dim + 1 : 0});
  for (int d = 0; d < dims; ++d) {
    const bool split = (from.split() && from.dim == d) || (to.split() && to.dim == d);
    tensor.dims.push_back(split ? devices : 1);
    if (split) rest /= static_cast<double>(devices);
  }
  tensor.dims.push_back(std::max<int64_t>(1, std::llround(rest)));
  // A sum may be taken in parts of its last dimension.
  if (from.partial()) {
    tensor.dims.back() = (tensor.dims.back() + devices - 1) / devices * devices;
  }
  return tensor;
}

// Seconds of one primitive; infinite where there is none.
double StepSeconds(const BoxingCosts& costs, const BoxedTensor& tensor, const NdSbp& from,
                   const NdSbp& to) {
  const BoxingStep step = BoxingStepBetween(costs, tensor, from, to);
  return step.kind.empty() ? std::numeric_limits<double>::infinity() : step.seconds;
}

}  // namespace

// On one axis no path is shorter than one primitive, or two with B or a split between.
double TransitionCosts::Seconds(Sbp from, Sbp to, double bytes, DType dtype) const {
  if (from == to || mesh_.axes[axis_].size == 1) return 0;
  const Key key = {
      static_cast<int>(from.kind), from.dim, static_cast<int>(to.kind), to.dim, bytes, dtype};
  const auto [known, fresh] = known_.try_emplace(key, 0);
  if (!fresh) return known->second;
  const BoxingCosts costs{cluster_, mesh_, &kernels_};
  const int64_t devices = mesh_.axes[axis_].size;
  NdSbp before(mesh_.axes.size(), B()), after = before, between = before;
  before[axis_] = from, after[axis_] = to;
  const BoxedTensor tensor = EvenTensor(from, to, bytes, dtype, devices);
  double& seconds = known->second;
  seconds = StepSeconds(costs, tensor, before, after);
  for (int d = -1; d < static_cast<int>(tensor.dims.size()); ++d) {
    between[axis_] = d < 0 ? B() : S(d);
    const bool even = d < 0 || tensor.dims[d] % devices == 0;
    if (!even || between == before || between == after) continue;
    seconds = std::min(seconds, StepSeconds(costs, tensor, before, between) +
                                    StepSeconds(costs, tensor, between, after));
  }
  return seconds;
}

}  // namespace oneflow
