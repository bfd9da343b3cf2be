// Splits the states, the gradient and the weight at rest of each variable as its attributes say
// (oneflow_core/model/sharding.h). Before this pass nothing is split, and all choices of infer_sbp
// stay, so a split changes no layout in which the model computes.
//
//   variable w, its moments     B -> S(split_dim) on the axes of `states`
//   casts of w once a step      the same (cast_uses.h may make them casts for each use)
//   the gradient of a use       P -> S(split_dim) on the axes of `gradients`, P -> B on those of
//                               `reduced`: a new op in the backward, add_n "dw.part", takes the sum
//                               of the devices and adds it up over the micro-batches
//   sum_uses, sum_squares,      B -> S(split_dim) on the axes of `states`; the result of
//   adamw                       sum_squares is then S(0)
//
// insert_boxing does the rest: it gathers w for its readers, over the axes of `gather_once` once a
// step, and reduces gradients. An axis on which infer_sbp has already split a variable keeps that
// layout. Each element goes through the same sums as without a split, with two exceptions.
// `gradients` and `reduced` reduce before the sum over micro-batches, and a split over two factors
// of an axis sums factor by factor.
#pragma once

#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires the `choice` that InferSbp made for this very graph. Tensor ids stay as they are.
void SplitVariables(Graph* graph, SbpChoice* choice);

}  // namespace oneflow
