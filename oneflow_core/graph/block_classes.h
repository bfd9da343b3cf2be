// Classes of blocks: which blocks of a model are alike.
//
// A model is a chain of blocks (Op::block), and blocks of one class are copies of each other: the
// same ops of the same shapes, with weights of their own. What is measured or made of one of them
// holds for all. Gemma 3 has two classes, blocks with a window and blocks without, and the pattern
// "10*(5*a b) 2*a".
//
//   const BlockClasses classes = FindBlockClasses(graph);
//   classes.PatternText();          // "10*(5*a b) 2*a"
//   classes.class_of[5];            // 1
//   BlockClassName(1);              // "b"
//
// It looks at a model as it was written, before passes: it does not compare layouts or stages.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/graph.pb.h"

namespace oneflow {

struct BlockClasses {
  // Of each block; classes count from 0 in the order of their first blocks. Empty: the model has no
  // blocks, or does not number them from 0 without a gap.
  std::vector<int> class_of;

  int size() const;                      // how many classes there are
  std::vector<int> FirstBlocks() const;  // of each class
  std::vector<int> CountBlocks() const;  // of each class

  // The classes of all blocks in order, "5*a b a" of 7 blocks. Runs that repeat are folded.
  std::string PatternText() const;
};

// Two blocks are of one class if their ops, in the order of the graph, have the same kinds,
// attributes (but for those that say how a variable begins), own shapes and types, both or neither
// a mark `recompute`, and the same inputs. Inputs are the same if they are the same op of the
// block, or the same op outside of blocks, or each the first (second, ...) tensor that the block
// reads of the block before it. The first block may read tensors outside of blocks instead of
// these. Takes time linear in the graph.
BlockClasses FindBlockClasses(const proto::Graph& graph);

// "a", "b", ..., "z", "aa", "ab", ...
std::string BlockClassName(int index);
// The inverse; nothing: `name` is no name of a class.
std::optional<int> ParseBlockClassName(std::string_view name);

}  // namespace oneflow
