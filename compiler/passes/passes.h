// The passes of the front end, in the order in which compile runs them. Each is a function on the
// Graph IR, in a file of its own name. It finishes its one job, or returns an error with the
// location, the mistake and a hint. No pass knows registers, orders or bytes of memory.
//
//      FoldStages           with several chunks a stage: positions along the pipe -> (stage, chunk)
//   1. BindBatch            dims named "batch" get the micro-batch's size
//   2. CheckAndInferShapes  ops fit their definitions; shapes and dtypes of all tensors
//      GivePositions        with --documents, or where an axis splits positions: positions (and
//                           documents) become inputs of the ops that look from token to token
//      MaskLabels           with --masked_labels: losses are means over the labels that count
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
//      ScaleHiddenLosses    where labels are counted: losses of routers by their number in a step
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

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/sbp/gradient_mirror.h"
#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/layouts.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/dtype.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// --- fold_stages ---

// Requires 1 <= chunks. An op beyond the last position is an input error; with one
// chunk nothing happens.
absl::Status FoldStages(Graph* graph, int chunks);

// --- bind_batch ---

// Requires micro_batch_size >= 1. A dimension of size 0 with another name is an input error.
absl::Status BindBatch(Graph* graph, int64_t micro_batch_size);

// --- infer_shapes ---

// Requires bound batch dimensions. After it, ops have all the outputs of their kind.
absl::Status CheckAndInferShapes(Graph* graph);

// --- remove_dropout ---

// Dropouts that are left without readers stay in the graph: Prune drops them.
void RemoveDropout(Graph* graph);

// --- remove_hidden_losses ---

// Such losses, and what made them, stay in the graph: Prune drops them.
void RemoveHiddenLosses(Graph* graph);

// --- remove_capacity ---

// Before shapes are inferred: slots follow from the attributes.
void RemoveCapacity(Graph* graph, bool fed);

// --- give_positions ---

// The number of devices over which axes of the mesh split the positions of tokens, by constraints
// that ask for S(1) of them. 1: no constraint does.
int PositionParts(const Graph& graph);

// Infers the shapes of the new graph, and adds to `notes` what a user may want to know. Requires
// inferred shapes, and composite ops as they are written (before Decompose). Errors: a graph that
// looks from token to token in other ways; a run of tokens that is cut.
absl::Status GivePositions(Graph* graph, bool documents, std::vector<std::string>* notes);

// --- mask_labels ---

// Requires losses as they are written (before Decompose).
void MaskLabels(Graph* graph);

// --- join_positions ---

// Joins the positions of a program that is fed its tokens in the order of positions: no axis splits
// them.
void JoinPositions(Graph* graph);

// --- decompose ---

// Requires inferred shapes. `micro_batches`: M of a step. The loss is the mean over all rows of a
// step, so the losses of its micro-batches add up. A loss that ignores negative labels is a sum
// until DivideByCount.
absl::Status Decompose(Graph* graph, int64_t micro_batches);

// --- omit_logits ---

struct OmitLogitsOptions {
  // The most pieces of the rows of a device; 0: the number that UsualLogitRows gives. In that case
  // logits stay a tensor if all rows are one piece, or if an axis splits the vocabulary. They then
  // take less memory than the full head and its gradient, which pieces need.
  int64_t pieces = 0;
  // True if a graph whose logits cannot be omitted is an input error; else it stays as it is.
  bool needed = true;
  DType dtype = DType::kF32;  // of logits
};

// Returns a note of the result, or of the reason against it. Requires decomposed losses; the logits
// must not be an output of the graph.
absl::StatusOr<std::string> OmitLogits(Graph* graph, const OmitLogitsOptions& options);

// --- cache_attention ---

// The name of the input that gives the position of a piece's first token.
inline constexpr char kPositionInput[] = "position";

// Infers the shapes of the new graph. Requires inferred shapes, no composite ops (Decompose), 1
// <= positions. A graph that computes with its tokens in ways that do not fit pieces is an input
// error.
absl::Status CacheAttention(Graph* graph, int64_t positions);

// --- place_variables ---

// An op whose stage the mesh lacks, or one that reads from a later stage, is an input error.
absl::Status PlaceVariables(Graph* graph);

// --- count_choices ---

// Requires placed variables and no gradients yet. Errors: a bias with a `bias_rate` that is no
// variable, or that another op also reads: a rule moves it by the choices of one router.
absl::Status CountChoices(Graph* graph);

// Returns the count of the choices of `route`. Requires counted choices.
TensorId FindChoiceCount(const Graph& graph, const Op& route);

// Appends the sum over all routers to the update, on the stage of the loss: "choices.sum" adds them
// up, and "choices" is what all devices have together. Without routers, or if they differ in the
// number of their experts, nothing is summed. Requires a graph with a loss and its update.
absl::Status SumChoices(Graph* graph);

// Has each stage add up its own, so that it sends one sum: "choices.sum" becomes "choices.sum@0",
// "choices.sum@1", ..., in its layout. Runs after infer_sbp, whose choice must not depend on
// stages, and before boxing. Extends `choice` to the new ops.
void SumChoicesByStage(Graph* graph, SbpChoice* choice);

// Returns the tensor that SumChoices appended last; -1 if nothing.
TensorId FindChoices(const Graph& graph);

// --- differentiate ---

struct UseGradient {
  OpId use = -1;  // the forward op that reads the variable
  TensorId grad = -1;
};

// Gradients of one variable op (a replica, when several stages hold the variable).
struct VariableGradients {
  TensorId variable = -1;
  std::vector<UseGradient> uses;  // in op order, never empty
};

struct Gradients {
  std::vector<VariableGradients> variables;  // in op order
  std::vector<GradientMirror> mirrors;       // at most one for each gradient tensor
};

// Requires shapes, primitive ops and placed variables. `loss`: a scalar that depends on a variable.
// Op and tensor ids that were there before stay as they are.
absl::StatusOr<Gradients> Differentiate(Graph* graph, TensorId loss);

// --- add_optimizer ---

// The versions of the weights of a stage: see compiler/schedule/update_rule.h.
struct WeightVersions {
  int64_t lag = 0, versions = 1;
};

struct OptimizerOptions {
  bool wait_for_norm = true;  // adamw reads the norm: it clips by it, and skips what is not finite
  // By stage; empty: one version everywhere. With versions there is no norm, because stages do not
  // wait for it.
  std::vector<WeightVersions> versions;
};

// Requires placed variables, counted choices, and the gradients that Differentiate returned for
// this very graph.
absl::Status AddOptimizer(Graph* graph, const Gradients& gradients,
                          const OptimizerOptions& options = {});

// --- divide_by_count ---

// The number of labels that count, f64[]; -1 if the graph does not count them.
TensorId FindLabelCount(const Graph& graph);
// The op of a scalar by such a number.
inline constexpr char kDivide[] = "divide";

// Requires decomposed losses and, if the graph is trained, its update.
absl::Status DivideByCount(Graph* graph);

// --- mixed_precision ---

struct MixedPrecisionOptions {
  DType residual = DType::kF32;  // or bf16: the type of the residual stream
  // Casts the biases of bf16 products like their weights, because cuBLASLt only adds biases of the
  // result's type.
  bool narrow_biases = false;
  // Frozen variables that are read as bf16 rest so. `resting`: by name, the types of variables that
  // the programs before have.
  bool narrow_frozen = false;
  std::map<std::string, DType> resting = {};
};

// Requires shapes, primitive ops and placed variables; SBP not yet. Ops move: `mirrors`, from
// Differentiate, follow them.
absl::Status MixedPrecision(Graph* graph, const MixedPrecisionOptions& options,
                            std::vector<GradientMirror>* mirrors);

// The number of ops that multiply matrices of bf16.
int CountNarrowProducts(const Graph& graph);

// --- scale_hidden_losses ---

// Runs after infer_sbp, so that layouts do not depend on stages, and before boxing. Extends
// `choice` to the new ops. Errors: labels that are counted and come from no data.
absl::Status ScaleHiddenLosses(Graph* graph, SbpChoice* choice);

// --- piece_attention ---

// Uses at most `pieces`, as many as divide the groups that a device has. Runs after infer_sbp,
// which chooses whether to gather, and before boxing. Extends `choice` to the new ops.
void PieceAttention(Graph* graph, int pieces, SbpChoice* choice);

// --- split_variables ---

// Requires the `choice` that InferSbp made for this very graph. Tensor ids stay as they are.
void SplitVariables(Graph* graph, SbpChoice* choice);

// --- recompute ---

inline constexpr double kDear = 20;

// Extends `choice` to the clones and adds notes. Requires inferred SBP and no boxing yet. Ops with
// one scope name on several stages or chunks are one scope on each.
void Recompute(Graph* graph, SbpChoice* choice);

// --- cast_uses ---

// Extends `choice` to the casts. Runs after split_variables and recompute; requires no boxing yet.
void CastUses(Graph* graph, SbpChoice* choice);

// --- insert_boxing ---

// Requires the `choice` that InferSbp made for this very graph. `cluster` gives the costs of
// boxing: within a stage those on the stage alone, so that no number of stages changes a path;
// between stages those on the whole mesh.
absl::Status InsertBoxing(Graph* graph, const SbpChoice& choice, const proto::Cluster& cluster = {},
                          bool regather = false);

// --- fuse ---

struct FuseOptions {
  bool row_stats = false;
};

// Requires inserted boxing; VerifyGraph proves the result. Returns the new id of each tensor; -1
// for tensors that no op makes any more.
std::vector<TensorId> Fuse(Graph* graph, const FuseOptions& options = {});

// --- rest_on_host ---

// Requires inserted boxing. `micro_batches`: of a step.
void RestOnHost(int64_t micro_batches, Graph* graph);

// --- order_update ---

// Ops of other phases keep their positions. Requires inserted boxing, and that no op of the update
// but a variable comes before an op that fires with every micro-batch.
void OrderUpdate(Graph* graph);

// --- verify_graph ---

// Returns an internal error: a graph that fails shows a mistake of the compiler, not of its user.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace oneflow
