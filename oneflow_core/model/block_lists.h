// Blocks of a model as lists, as config.json and graphs have them, and as the classes and runs of
// proto::BlockPattern.
//
//   std::vector<proto::Model> own = ListOwnNumbers(model);          // one a block, empty
//   for (size_t i = 0; i < own.size(); ++i) if (i % 6 < 5) own[i].set_window(1024);
//   SetBlocks(own, &model);                                // blocks: "5*local(window=1024),full"
#pragma once

#include <string>
#include <vector>

#include "proto/recipe.pb.h"

namespace oneflow {

// An empty element for each block. A model of more layers than can be built has fewer.
std::vector<proto::Model> ListOwnNumbers(const proto::Model& model);

// Sets the blocks of a model, whose numbers are `model`'s where they are not a block's own. Blocks
// of equal numbers are one class. The pattern is the shortest that is repeated, if need be with its
// last repetition cut; or runs, the last of which is all blocks that remain. Blocks that are all
// alike make no pattern: their numbers are set in `model`.
void SetBlocks(const std::vector<proto::Model>& own, proto::Model* model);

// The numbers of each block.
std::vector<proto::Model> ListBlocks(const proto::Model& model);
// Those of the first block with a window, and without; `model` itself where no block is.
proto::Model FindBlock(const proto::Model& model, bool has_window);

// `numbers` where they differ from `base`.
proto::Model ListChanges(const proto::Model& base, const proto::Model& numbers);

// The numbers in which two models differ, in any block, but for their families: "window=8", each as
// `a` has it. Names of classes do not matter, nor do numbers that say the same in other words.
std::vector<std::string> ListDifferences(const proto::Model& a, const proto::Model& b);

}  // namespace oneflow
