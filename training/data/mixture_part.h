// MixturePart: one part of a weighted mixture of data, as runs and checkpoints keep it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace oneflow {

struct MixturePart {
  std::string file;    // its name without the folder, for people
  int64_t tokens = 0;  // that it holds
  double weight = 0;   // the probability that a sample comes from it; all add up to one
  // The same order of data: the name does not matter.
  bool SameAs(const MixturePart& other) const {
    return tokens == other.tokens && weight == other.weight;
  }
  bool operator==(const MixturePart&) const = default;
};
using MixtureParts = std::vector<MixturePart>;  // empty: the data are no mixture

}  // namespace oneflow
