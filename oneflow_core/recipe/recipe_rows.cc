// The rows of Recipe: all that decides a plan beside the model and the cluster. A field without a
// default stays absent until planning chooses it.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/idle.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

using enum FlagGroup;

constexpr bool kRare = true;
constexpr std::string_view kLagging =
    "weights that lag are not searched; compile them with `oneflow compile`";

std::string FindOverlap(const proto::Recipe& recipe) {
  return recipe.device() == proto::CUDA ? "true" : "false";
}

std::string FindChunks(const proto::Recipe& recipe) {
  return recipe.schedule() == "interleaved" ? "2" : "1";
}

std::string FindResidual(const proto::Recipe& recipe) {
  return recipe.precision() == proto::BF16 ? "bf16" : "f32";
}

// Sums are made along all axes but those of stages and of one device.
std::string AxesOfSums(const proto::Recipe& recipe) {
  proto::Recipe sums;
  for (const auto& axis : recipe.mesh().axis()) {
    const bool factor = axis.name().find('.') != std::string::npos;
    if (axis.name() == "pipe" || (axis.size() == 1 && !factor)) continue;
    *sums.mutable_mesh()->add_axis() = axis;
  }
  const bool none = sums.mesh().axis().empty();
  return none ? "one device a stage" : kMeshForm.print(sums.mesh());
}

// All schedules give the same bits but those with which weights lag.
std::string LaggingSchedule(const proto::Recipe& recipe) {
  const bool lags = recipe.schedule() == "pipedream" || recipe.schedule() == "2bw";
  return lags ? recipe.schedule() : "synchronous";
}

// States and weights are split without a change.
std::string SplitGradients(const proto::Recipe& recipe) {
  const auto& axes = recipe.shard().gradients();
  return axes.empty() ? "no gradients" : absl::StrJoin(axes, "+");
}

absl::Status DivideBatch(const proto::Recipe& recipe) {
  const int64_t batch = recipe.batch(), m = recipe.micro_batches();
  if (batch % m == 0) return absl::OkStatus();
  return InputError(
      absl::StrCat("--micro_batches=", m), absl::StrCat("do not divide the batch of ", batch),
      absl::StrCat("use a batch of ", (batch / m + 1) * m, ", or a divisor of ", batch));
}

// A file of --order says all that these fields say.
absl::Status ExcludeOrdered(const proto::Recipe& recipe) {
  const std::pair<const char*, bool> fields[] = {{"schedule", recipe.has_schedule()},
                                                 {"chunks", recipe.has_chunks()},
                                                 {"extra_in_flight", recipe.has_extra_in_flight()},
                                                 {"staleness", recipe.has_staleness()},
                                                 {"steps_a_round", recipe.has_steps_a_round()}};
  for (const auto& [name, given] : fields) {
    if (!given) continue;
    return InputError(absl::StrCat("--", name),
                      "cannot be given together with --order: the file says it all",
                      "leave one of the two out");
  }
  return absl::OkStatus();
}

absl::Status NeedNarrowProducts(const proto::Recipe& recipe) {
  if (recipe.residual() != proto::BF16 || recipe.precision() == proto::BF16) {
    return absl::OkStatus();
  }
  return InputError("--residual=bf16", "is narrower than the products, which are f32",
                    "add --precision=bf16, or leave it out");
}

absl::Status NeedNarrowReaders(const proto::Recipe& recipe) {
  if (recipe.frozen_weights() != proto::BF16 || recipe.precision() == proto::BF16) {
    return absl::OkStatus();
  }
  return InputError("--frozen_weights=bf16", "are narrower than the products, which are f32",
                    "add --precision=bf16, or leave it out");
}

const Row kRecipeRows[] = {
    // A row is a few lines, its sentence the last.
    // clang-format off
    {.name = "purpose", .value = "training|generation|evaluation", .default_text = "training",
     .is_flag = false,
     .sentence = "Programs of the plan: all of training; or those that continue texts; or eval "
                 "alone."},
    // Parallelism.
    {.name = "mesh", .value = "AXES", .group = kParallelismGroup, .bits = Bits::kSums,
     .searched = Searched::kNever, .form = &kMeshForm, .moves = AxesOfSums,
     .advice = "it chooses the mesh; fix degrees as in --fix=pipe=2,tensor=4",
     .sentence = "Axes of the mesh of devices, e.g. pipe=2,data=2,tensor=2. Default: the graph's, "
                 "else one device."},
    {.name = "device", .value = "cpu|cuda", .default_text = "cpu", .group = kParallelismGroup,
     .bits = Bits::kValues, .sentence = "Kind of the devices of the plan."},
    {.name = "sequence_parallel", .default_text = "false", .group = kParallelismGroup,
     .bits = Bits::kSums, .searched = Searched::kChosen, .idle = IdleSequenceParallel,
     .sentence = "Activations between blocks may be split by position over tensor axes, where "
                 "that costs no more."},
    {.name = "split_products", .default_text = "false", .group = kParallelismGroup, .rare = kRare,
     .bits = Bits::kSums, .idle = IdleSplitProducts,
     .sentence = "Products are split over tensor axes as Megatron splits them, where an op can "
                 "compute so; else weights are gathered there where that takes less time."},
    {.name = "experts", .value = "AXIS", .group = kParallelismGroup, .bits = Bits::kSums,
     .searched = Searched::kNever,
     .advice = "it splits experts over the axis expert; fix its degree as in --fix=expert=8",
     .sentence = "Mesh axis that splits the experts of a mixture, as data.1. Default: expert, "
                 "where the mesh has it."},
    {.name = "shard", .value = "LAYOUT", .default_text = "none", .group = kParallelismGroup,
     .bits = Bits::kSums, .searched = Searched::kChosen, .form = &kShardForm, .idle = IdleShard,
     .moves = SplitGradients,
     .sentence = "What is split over data axes: none, states (ZeRO 1), gradients (ZeRO 2), "
                 "weights (ZeRO 3), or axes for each (docs/sharding.md)."},
    {.name = "gather", .value = "each_use|each_micro_batch|once", .default_text = "each_use",
     .group = kParallelismGroup, .rare = kRare, .idle = IdleGather,
     .sentence = "When weights that --shard splits are gathered."},
    {.name = "reduce", .value = "TIME", .default_text = "once", .group = kParallelismGroup,
     .rare = kRare, .bits = Bits::kSums, .form = &kReduceForm, .idle = IdleReduce,
     .sentence = "When gradients are summed over data axes that do not split them: once (a step), "
                 "each_micro_batch, or each_micro_batch:data.1."},
    {.name = "overlap", .value = "auto|true|false", .absent = "auto", .group = kParallelismGroup,
     .rare = kRare, .find_default = FindOverlap, .idle = IdleOverlap,
     .sentence = "Exchanges of a stage run while it computes. Default: auto, which is false where "
                 "devices are CPUs."},
    {.name = "bucket_bytes", .value = "BYTES", .default_text = "25MB", .group = kParallelismGroup,
     .rare = kRare, .form = &kBytesForm, .idle = IdleBuckets,
     .sentence = "With --overlap, small exchanges are joined up to this size a device; 1 joins "
                 "none."},
    {.name = "prefetch", .value = "N", .absent = "auto", .group = kParallelismGroup, .rare = kRare,
     .least = 0, .most = 8, .idle = IdlePrefetch,
     .sentence = "With --overlap, weights are gathered N blocks ahead of their use. Default: "
                 "auto, 2 or fewer that fit."},
    {.name = "context_pieces", .value = "N", .default_text = "1", .group = kParallelismGroup,
     .rare = kRare, .least = 1, .most = 64, .idle = IdleContextPieces,
     .sentence = "Where an axis context splits positions, keys and values are gathered in up to N "
                 "pieces of their heads; with --overlap each beside the attention of those before "
                 "it."},
    {.name = "keep_axis_order", .default_text = "false", .group = kParallelismGroup, .rare = kRare,
     .idle = IdleAxisOrder,
     .sentence = "Keeps the axes of --mesh in the order written, whatever the levels of the "
                 "cluster."},
    // Schedule.
    {.name = "batch", .value = "N", .default_text = "8", .group = kScheduleGroup, .least = 1,
     .most = 0x1p32, .bits = Bits::kValues, .foreign = "global_batch_size train_batch_size",
     .sentence = "Sequences of a step, over all devices and micro-batches."},
    {.name = "micro_batches", .value = "N", .default_text = "1", .group = kScheduleGroup,
     .least = 1, .most = 0x1p16, .bits = Bits::kSums, .searched = Searched::kChosen,
     .excludes = DivideBatch, .sentence = "Micro-batches of a step."},
    // pipedream and 2bw
    {.name = "schedule", .value = "1f1b|gpipe|interleaved|zero_bubble|pipedream|2bw",
     .default_text = "1f1b", .group = kScheduleGroup, .bits = Bits::kValues,
     .searched = Searched::kChosen, .idle = IdleSchedule, .moves = LaggingSchedule,
     .sentence = "Order of the pipeline."},
    {.name = "chunks", .value = "N", .group = kScheduleGroup, .least = 1, .most = 1024,
     .searched = Searched::kChosen, .find_default = FindChunks,
     .sentence = "Slices of the model on each stage. Default: 2 where the schedule interleaves, "
                 "else 1."},
    {.name = "stage_layers", .value = "N,N,...", .group = kScheduleGroup, .rare = kRare,
     .searched = Searched::kChosen, .form = &kStageLayersForm,
     .sentence = "Layers of each slice along the pipe (stages times chunks), e.g. 2,3,3,2. "
                 "Default: equally many, unless that makes the stage of the head longest."},
    {.name = "order", .value = "FILE", .group = kScheduleGroup, .rare = kRare,
     .searched = Searched::kNever, .form = &kOrderForm, .excludes = ExcludeOrdered,
     .advice = "a file of orders is one schedule; compile it with `oneflow compile`",
     .sentence = "File of an explicit pipeline order, instead of --schedule."},
    {.name = "extra_in_flight", .value = "N", .default_text = "0", .group = kScheduleGroup,
     .rare = kRare, .least = 0, .most = 0x1p16, .searched = Searched::kChosen,
     .idle = IdleExtraInFlight,
     .sentence = "Micro-batches that a stage may hold beyond what the schedule needs."},
    {.name = "fill_memory", .default_text = "false", .group = kScheduleGroup, .rare = kRare,
     .searched = Searched::kNever, .advice = "leave it out, or write --fix=extra_in_flight=N",
     .sentence = "Holds as many micro-batches as fit in memory, where that shortens the bubble."},
    {.name = "warm_ups", .value = "N+N,...", .group = kScheduleGroup, .is_flag = false,
     .searched = Searched::kNever, .form = &kWarmUpsForm,
     .sentence = "Micro-batches by which each stage of zero_bubble runs ahead: forwards before "
                 "the first backward, and backwards ahead of their gradients of weights."},
    {.name = "staleness", .value = "N", .default_text = "0", .group = kScheduleGroup,
     .rare = kRare, .least = 0, .most = 64, .bits = Bits::kValues, .searched = Searched::kNever,
     .advice = kLagging, .sentence = "Updates by which the weights of a step may lag behind."},
    {.name = "steps_a_round", .value = "N", .group = kScheduleGroup, .rare = kRare, .least = 1,
     .most = 0x1p16, .bits = Bits::kValues, .searched = Searched::kNever, .advice = kLagging,
     .sentence = "Steps between two drains of the pipe, where weights lag. Default: 8 or more."},
    {.name = "global_norm", .value = "BOOL", .default_text = "true", .group = kOptimizerGroup,
     .rare = kRare, .sentence = "Updates wait for the norm of all gradients, to clip by it."},
    // Memory and precision.
    {.name = "recompute", .value = "none|attention|selective|full[@CLASS][:COUNTS][,gather]",
     .default_text = "none", .group = kMemoryGroup, .searched = Searched::kChosen,
     .form = &kRecomputeForm, .idle = IdleRecompute,
     .sentence = "Part of each block that the backward recomputes. Blocks may differ: with "
                 "full:2,attention it is full for the first 2 of each slice along the pipe; "
                 "full:3/2 says it by slice; full@b for blocks of class b, where a model has "
                 "several. gather: it repeats the all-gathers of the forward."},
    {.name = "precision", .value = "f32|bf16", .default_text = "f32", .group = kMemoryGroup,
     .bits = Bits::kValues,
     .sentence = "Type of matrix products; with bf16, master weights and sums stay f32."},
    {.name = "residual", .value = "f32|bf16", .group = kMemoryGroup, .rare = kRare,
     .bits = Bits::kValues, .find_default = FindResidual, .excludes = NeedNarrowProducts,
     .sentence = "Type of the residual stream; bf16 needs --precision=bf16, halves its bytes and "
                 "rounds its sums. Default: as --precision."},
    {.name = "frozen_weights", .value = "f32|bf16", .group = kMemoryGroup, .rare = kRare,
     .bits = Bits::kValues, .idle = IdleFrozenWeights, .excludes = NeedNarrowReaders,
     .sentence = "Type in which weights rest that nothing trains; bf16 needs --precision=bf16, and "
                 "takes 2 bytes a parameter. Default: as --precision."},
    {.name = "fuse", .value = "BOOL", .default_text = "true", .group = kMemoryGroup, .rare = kRare,
     .sentence = "One kernel computes a product and the element-wise ops after it, with the same "
                 "bits."},
    {.name = "loss_pieces", .value = "N|auto", .default_text = "0", .group = kMemoryGroup,
     .bits = Bits::kSums, .form = &kLossPiecesForm, .idle = IdleLossPieces,
     .sentence = "Logits exist in N pieces of the tokens, which the backward makes again; 0: "
                 "whole; auto: in as many as pay."},
    {.name = "offload", .value = "WHAT", .default_text = "none", .group = kMemoryGroup,
     .rare = kRare, .searched = Searched::kChosen, .form = &kOffloadForm, .idle = IdleOffload,
     .sentence = "What rests in the host's memory between its uses: some of activations (or "
                 "activations:SHARE, activations:all), states and weights, joined by commas "
                 "(docs/memory_techniques.md)."},
    {.name = "update_on", .value = "device|host", .default_text = "device", .group = kMemoryGroup,
     .rare = kRare, .bits = Bits::kValues, .idle = IdleUpdateOn,
     .sentence = "host: the host's processors update the weights; their states rest in its memory."},
    {.name = "host_memory", .value = "BYTES", .group = kMemoryGroup, .rare = kRare,
     .is_limit = true, .form = &kBytesForm, .idle = IdleHostMemory,
     .sentence = "What the devices of a node may take of its host's memory together; a plan that "
                 "needs more is refused. Default: no limit."},
    {.name = "documents", .default_text = "false", .group = kDataGroup, .bits = Bits::kValues,
     .sentence = "Samples are packed documents: none sees another, positions begin anew, no label "
                 "is of the next one."},
    {.name = "masked_labels", .default_text = "false", .group = kDataGroup, .rare = kRare,
     .bits = Bits::kValues, .idle = IdleMaskedLabels,
     .sentence = "Some labels of the data do not count, as in chats: the loss is the mean over "
                 "those of the global batch that do. `train` sets it where --data needs it."},
    {.name = "state_layouts", .default_text = "false", .group = kMemoryGroup, .is_flag = false,
     .sentence = "The plan's graph states the layouts that were chosen."},
    // clang-format on
};

}  // namespace

std::span<const Row> RecipeRows() { return kRecipeRows; }

}  // namespace oneflow
