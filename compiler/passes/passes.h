// The passes of the front end, in the order in which compile runs them. Each is a function on the
// Graph IR, in a file of its own name. It finishes its one job, or returns an error with the
// location, the mistake and a hint. No pass knows registers, orders or bytes of memory.
//
//      FoldStages           with several chunks a stage: positions along the pipe -> (stage, chunk)
//   1. BindBatch            dims named "batch" get the micro-batch's size
//   2. CheckAndInferShapes  ops fit their definitions; shapes and dtypes of all tensors
//      GivePositions        with --documents, or where an axis splits positions: positions (and
//                           documents) become inputs of the ops that look from token to token
//      JoinPositions        of programs that are fed: no axis splits positions
//   3. Decompose            composite ops -> primitive ones
//      OmitLogits           with --loss_pieces: no tensor holds the logits of a loss
//   4. PlaceVariables       one variable (and one input) op for each stage that uses it
//      CountChoices         for mixtures of experts: the choices of each router in a micro-batch
//   5. Differentiate        appends the backward ops; one gradient for each use of a variable
//   6. AddOptimizer         appends the update: gradients over uses, global norm, AdamW
//      DivideByCount        where labels are counted: the loss becomes a mean
//      SumChoices           for mixtures: the choices of all routers in a step, for the report
//   7. MixedPrecision       where asked: products in bf16, casts where types disagree
//   8. InferSbp             the SBP of each tensor on each mesh axis
//      SumChoicesByStage    for mixtures: each stage adds up its own
//      ScaleRouterLosses    where labels are counted: losses of routers by their number in a step
//      PieceAttention       where asked: keys and values that are gathered, in pieces of heads
//      SplitVariables       states, gradients and weights at rest in parts
//      Recompute            ops that the backward repeats instead of keeping their results
//      CastUses             weights at rest in parts: cast for each use instead of once a step
//   9. InsertBoxing         ops that turn one SBP into another, and cross stages
//      Fuse                 a product and its element-wise activation -> one op
//      RestOnHost           where asked: the parts of variables that rest in the host's memory
//      OrderUpdate          with overlap: the update in the order in which gradients are finished
//  10. VerifyGraph          proves 8 and 9 against the ops' tables
//
// Four phases end with 4, 7, 9 and the last pass. CheckGraph closes the first two, and VerifyGraph
// the others (front_end.cc).
//
// Forward-only programs (eval, generate, run) leave out 5, 6 and the counts of choices. They have
// no dropout: RemoveDropout comes after 2. Programs that continue a text piece by piece (prefill,
// decode) have CacheAttention after 3.
#pragma once

#include "compiler/passes/add_optimizer.h"
#include "compiler/passes/bind_batch.h"
#include "compiler/passes/cache_attention.h"
#include "compiler/passes/cast_uses.h"
#include "compiler/passes/count_choices.h"
#include "compiler/passes/decompose.h"
#include "compiler/passes/differentiate.h"
#include "compiler/passes/divide_by_count.h"
#include "compiler/passes/fold_stages.h"
#include "compiler/passes/fuse.h"
#include "compiler/passes/give_positions.h"
#include "compiler/passes/infer_shapes.h"
#include "compiler/passes/insert_boxing.h"
#include "compiler/passes/mixed_precision.h"
#include "compiler/passes/omit_logits.h"
#include "compiler/passes/order_update.h"
#include "compiler/passes/piece_attention.h"
#include "compiler/passes/place_variables.h"
#include "compiler/passes/recompute.h"
#include "compiler/passes/remove_capacity.h"
#include "compiler/passes/remove_dropout.h"
#include "compiler/passes/rest_on_host.h"
#include "compiler/passes/scale_router_losses.h"
#include "compiler/passes/split_variables.h"
#include "compiler/passes/verify_graph.h"
#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/layouts.h"
