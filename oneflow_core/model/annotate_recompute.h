// Selects the ops of a model that the backward recomputes: writes Op::recompute.
//
//   none        nothing (but what the graph itself says)
//   attention   its core: scores, softmax, dropout and weighted values; Korthikanti's selective
//   selective   that, norms, activations and dropout, each alone: ops that take little time, and
//               whose inputs the backward has anyway (OpDef::selective)
//   full        a block at a time: of each block only its input is kept
//   gather      beside one of these: the backward repeats the forward's gathers of activations
//               (sequence parallelism gathers before products); only parts are kept. It is no
//               property of ops: the pass insert_boxing does it
//
// Blocks of one model may have different policies. A slice of the model is one position along the
// pipe: stages times chunks, as --stage_layers counts them. In each slice the blocks are taken in
// order: the first policy takes its number of blocks, then the next one takes its own.
//
//   full:2,attention             of each slice the first two blocks full, all others attention
//   full:3/2/1/0,attention       the first three of slice 0, the first two of slice 1, ...
//   full:2,selective:3           two, then three; none for the blocks that remain
//   selective,none:1,full:1      none the first, full the second, selective all that remain
//
// At most one policy has no counts. It takes the blocks that remain, at any position in the list. A
// count that is larger than the blocks left takes all of them.
//
// Where a model has several classes of blocks (block_classes.h), a policy may be that of one class.
// Policies of classes take their blocks first, in the same way; those of no class then take of all
// blocks that are left.
//
//   full@b                       all blocks of class b, nothing of others
//   full@b:2,attention           the first two of class b in each slice, all others attention
//   full@a:1/0,none@b,selective  of slice 0 the first one of class a; none of class b; selective
//                                all others of class a, and all of other classes
//
// In a graph of one's own, `recompute: "name"` on an op makes scopes of any ops.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/graph/block_classes.h"
#include "oneflow_core/graph/graph.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// The policy of each block of slice `slice`, whose blocks are of these classes, in order. Where a
// term has fewer counts than there are slices, and more than one, the others are 0.
std::vector<std::string> ChoosePolicies(const proto::Recompute& recompute, int slice,
                                        const std::vector<int>& classes);

// An input error where a term has counts for another number of slices.
absl::Status CheckCounts(const proto::Recompute& recompute, int stages, int chunks);

// Writes Op::recompute. `classes` are those of the graph as it was written. Reads Op::stage as the
// slice, of mesh.stages() times `chunks`: AnnotateModel has set it, and FoldStages has not folded
// it yet. A block of several stages belongs to the first one. Errors: counts for another number of
// slices; a policy but none and gather for a graph without blocks (Op::block); a class that the
// graph does not have.
absl::Status AnnotateRecompute(Graph* graph, const proto::Recompute& recompute,
                               const BlockClasses& classes, int chunks = 1);

}  // namespace oneflow
