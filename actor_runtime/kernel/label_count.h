// The number of labels that count in a step, in kernels that divide by it, or multiply by it what
// others will divide. Internal to kernel/ and cuda/kernel/.
#pragma once

namespace oneflow {

// What a sum over `count` labels is divided by. A sum over none is zero, but for the losses of
// routers, which are no sums over labels: they stay as they are.
constexpr double Divisor(double count) { return count > 0 ? count : 1.0; }

// The same, as a factor.
constexpr double MeanFactor(double count) { return 1.0 / Divisor(count); }

}  // namespace oneflow
