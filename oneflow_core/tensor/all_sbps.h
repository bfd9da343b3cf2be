// Lists every nd-SBP of a tensor on some axes. For tests.
#pragma once

#include <utility>
#include <vector>

#include "oneflow_core/tensor/sbp.h"

namespace oneflow {

// Returns all nd-SBPs with one of choices[a] on axis a; the last axis changes first.
inline std::vector<NdSbp> AllSbps(const std::vector<std::vector<Sbp>>& choices) {
  std::vector<NdSbp> all = {{}};
  for (const std::vector<Sbp>& on_axis : choices) {
    std::vector<NdSbp> longer;
    for (const NdSbp& sbp : all) {
      for (const Sbp choice : on_axis) {
        longer.push_back(sbp);
        longer.back().push_back(choice);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace oneflow
