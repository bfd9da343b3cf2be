// Annotates a model for a mesh: the only code that chooses stages and SBPs for the models of the
// table of families (families.h). It reads the family's row and Op::block, and knows no model by
// name. It only writes annotations: Tensor.constraint and Op.stage. It infers nothing; infer_sbp
// decides everything that it leaves free.
//
//   axis                  constraints
//   data,   data.0, ...   inputs and the residual stream S(0) (the batch); variables B: their
//                         states, gradients and weights at rest are split as their attributes say
//   tensor, tensor.0, ... variables as the family's row says: products split by heads, columns,
//                         rows and words; all other variables, the inputs and the residual stream B
//   pipe                  blocks in order, embedding first, head and loss last, equally many
//                         in each slice unless head or embedding is heavy (balance_stages.h); over
//                         `chunks` times as many chunks, which the stages take in turn
//   expert, expert.0, ... as data: it splits the batch, and the experts
//   context, ...          inputs and the residual stream S(1) (positions); variables B, and sharded
//                         as on data
//   any other             none
//
// The experts of a mixture are split over the axes of `experts`, or over `expert`, in as many
// groups as the parts, and their products are computed on their devices. A mixture with a capacity
// has its own number of groups, which the parts must divide.
//
// If query heads share keys and values in groups, `tensor` splits the groups. More devices than
// groups are written as factors, tensor=8x2: the first factors split the groups. On the others keys
// and values are replicated, and the query heads of a group are split.
//
// A variable gets the attributes of its sharding (sharding.h). `split_dim` is the dimension that
// the data axes together split as evenly as can be and no tensor axis splits, even if nothing is
// split along it. `states`, `gradients`, `reduced` and `gather_once` are axes; `gather_shared` is a
// flag. A variable that has no such dimension stays replicated.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Annotates `graph` for `mesh`; graph->mesh is ignored. The user's annotations win: a constraint on
// (tensor, axis) is kept, and if any op has a stage, all stages are kept. A graph of no family, or
// without blocks, only gets S(0) on data axes for inputs whose first dimension is named "batch",
// and attributes for its variables.
//
// The recipe's fields that it obeys:
//   sequence_parallel  the residual stream is free on tensor axes, so there is sequence parallelism
//                      if infer_sbp finds that it costs no more
//   shard, reduce, gather   of variables, over data axes: attributes of their ops
//   experts            the axis that splits experts: "data.1"; empty: "expert", where there is one
//   stage_layers       the number of blocks of each chunk along the pipe, in order; none: as above.
//                      Only the first chunk, which has the embedding, and the last, which has the
//                      head, may have none
// `chunks`: of a stage.
//
// Errors: an unknown family; fewer blocks than chunks; fewer groups, heads or words than parts;
// stage_layers that do not match chunks or blocks, or that accompany the user's stages.
absl::Status AnnotateModel(Graph* graph, const Mesh& mesh, const proto::Recipe& recipe = {},
                           int chunks = 1);

}  // namespace oneflow
