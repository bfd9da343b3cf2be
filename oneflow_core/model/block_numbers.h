// The numbers of each block of a model whose blocks follow a pattern (proto BlockPattern).
//
//   // blocks: "5*local(window=1024),full", layers: 26
//   FindBlockClass(model, 5)   // 1, "full"; and 0 of block 6, as the runs are repeated
//   BlockNumbers(model, 0)     // the model with window 1024
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// An input error: runs for more blocks than the model has layers, so that a class has none.
absl::Status CheckPattern(const proto::Model& model);

// The class of a block; 0 where all are alike.
int FindBlockClass(const proto::Model& model, int64_t block);
// The first block of each class.
std::vector<int64_t> FirstBlocks(const proto::Model& model);

// The model with the numbers of a block's class, and without the pattern.
proto::Model BlockNumbers(const proto::Model& model, int64_t block);

}  // namespace oneflow
