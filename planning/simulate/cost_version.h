// The version of what times are made of.
//
// Two times of one plan on one cluster are equal if they have one version. A change of a formula,
// or of a constant, of oneflow_core/cost or of the simulator that moves any time raises it;
// tests/e2e/cost_version_test.py fails until it does. Figures of cluster files do not: they are
// data.
#pragma once

namespace oneflow {

inline constexpr int kCostVersion = 1;

}  // namespace oneflow
