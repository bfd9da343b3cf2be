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

const Row kRecipeRows[] = {
    {.name = "purpose",
     .value = "training|generation|evaluation",
     .sentence = "Programs of the plan: all of training; or those that continue texts; or eval "
                 "alone.",
     .default_text = "training",
     .is_flag = false},

    // Parallelism.
    {.name = "mesh",
     .value = "AXES",
     .sentence = "Axes of the mesh of devices, e.g. pipe=2,data=2,tensor=2. Default: the graph's, "
                 "else one device.",
     .group = kParallelismGroup,
     .bits = Bits::kSums,
     .searched = Searched::kNever,
     .advice = "it chooses the mesh; fix degrees as in --fix=pipe=2,tensor=4",
     .form = &kMeshForm,
     .moves = AxesOfSums},
    {.name = "device",
     .value = "cpu|cuda",
     .sentence = "Kind of the devices of the plan.",
     .default_text = "cpu",
     .group = kParallelismGroup,
     .bits = Bits::kValues},
    {.name = "sequence_parallel",
     .sentence = "Activations between blocks may be split by position over tensor axes, where that "
                 "costs no more.",
     .default_text = "false",
     .group = kParallelismGroup,
     .bits = Bits::kSums,
     .searched = Searched::kChosen,
     .idle = IdleSequenceParallel},
    {.name = "experts",
     .value = "AXIS",
     .sentence =
         "Mesh axis that splits the experts of a mixture, as data.1. Default: expert, where "
         "the mesh has it.",
     .group = kParallelismGroup,
     .bits = Bits::kSums,
     .searched = Searched::kNever,
     .advice = "it splits experts over the axis expert; fix its degree as in --fix=expert=8"},
    {.name = "shard",
     .value = "LAYOUT",
     .sentence = "What is split over data axes: none, states (ZeRO 1), gradients (ZeRO 2), weights "
                 "(ZeRO 3), or axes for each (docs/sharding.md).",
     .default_text = "none",
     .group = kParallelismGroup,
     .bits = Bits::kSums,
     .searched = Searched::kChosen,
     .form = &kShardForm,
     .idle = IdleShard,
     .moves = SplitGradients},
    {.name = "gather",
     .value = "each_use|each_micro_batch|once",
     .sentence = "When weights that --shard splits are gathered.",
     .default_text = "each_use",
     .group = kParallelismGroup,
     .rare = kRare,
     .idle = IdleGather},
    {.name = "reduce",
     .value = "TIME",
     .sentence = "When gradients are summed over data axes that do not split them: once (a step), "
                 "each_micro_batch, or each_micro_batch:data.1.",
     .default_text = "once",
     .group = kParallelismGroup,
     .rare = kRare,
     .bits = Bits::kSums,
     .form = &kReduceForm,
     .idle = IdleReduce},
    {.name = "overlap",
     .value = "auto|true|false",
     .sentence = "Exchanges of a stage run while it computes. Default: auto, which is false where "
                 "devices are CPUs.",
     .absent = "auto",
     .group = kParallelismGroup,
     .rare = kRare,
     .find_default = FindOverlap,
     .idle = IdleOverlap},
    {.name = "bucket_bytes",
     .value = "BYTES",
     .sentence = "With --overlap, small exchanges are joined up to this size a device; 1 joins "
                 "none.",
     .default_text = "25MB",
     .group = kParallelismGroup,
     .rare = kRare,
     .least = 1,
     .form = &kBytesForm,
     .idle = IdleBuckets},
    {.name = "prefetch",
     .value = "N",
     .sentence = "With --overlap, weights are gathered N blocks ahead of their use. Default: auto, "
                 "2 or fewer that fit.",
     .absent = "auto",
     .group = kParallelismGroup,
     .rare = kRare,
     .least = 0,
     .most = 8,
     .idle = IdlePrefetch},
    {.name = "context_pieces",
     .value = "N",
     .sentence = "Where an axis context splits positions, keys and values are gathered in up to N "
                 "pieces of their heads; with --overlap each beside the attention of those before "
                 "it.",
     .default_text = "1",
     .group = kParallelismGroup,
     .rare = kRare,
     .least = 1,
     .most = 64,
     .idle = IdleContextPieces},
    {.name = "keep_axis_order",
     .sentence = "Keeps the axes of --mesh in the order written, whatever the levels of the "
                 "cluster.",
     .default_text = "false",
     .group = kParallelismGroup,
     .rare = kRare,
     .idle = IdleAxisOrder},

    // Schedule.
    {.name = "batch",
     .value = "N",
     .sentence = "Sequences of a step, over all devices and micro-batches.",
     .default_text = "8",
     .group = kScheduleGroup,
     .least = 1,
     .most = 0x1p32,
     .foreign = "global_batch_size train_batch_size",
     .bits = Bits::kValues},
    {.name = "micro_batches",
     .value = "N",
     .sentence = "Micro-batches of a step.",
     .default_text = "1",
     .group = kScheduleGroup,
     .least = 1,
     .most = 0x1p16,
     .bits = Bits::kSums,
     .searched = Searched::kChosen,
     .excludes = DivideBatch},
    {.name = "schedule",
     .value = "1f1b|gpipe|interleaved|zero_bubble|pipedream|2bw",
     .sentence = "Order of the pipeline.",
     .default_text = "1f1b",
     .group = kScheduleGroup,
     .bits = Bits::kValues,  // pipedream and 2bw
     .searched = Searched::kChosen,
     .idle = IdleSchedule,
     .moves = LaggingSchedule},
    {.name = "chunks",
     .value = "N",
     .sentence = "Slices of the model on each stage. Default: 2 where the schedule interleaves, "
                 "else 1.",
     .group = kScheduleGroup,
     .least = 1,
     .most = 1024,
     .searched = Searched::kChosen,
     .find_default = FindChunks},
    {.name = "stage_layers",
     .value = "N,N,...",
     .sentence =
         "Layers of each slice along the pipe (stages times chunks), e.g. 2,3,3,2. Default: "
         "balanced.",
     .group = kScheduleGroup,
     .rare = kRare,
     .searched = Searched::kChosen,
     .form = &kStageLayersForm},
    {.name = "order",
     .value = "FILE",
     .sentence = "File of an explicit pipeline order, instead of --schedule.",
     .group = kScheduleGroup,
     .rare = kRare,
     .searched = Searched::kNever,
     .advice = "a file of orders is one schedule; compile it with `oneflow compile`",
     .form = &kOrderForm,
     .excludes = ExcludeOrdered},
    {.name = "extra_in_flight",
     .value = "N",
     .sentence = "Micro-batches that a stage may hold beyond what the schedule needs.",
     .default_text = "0",
     .group = kScheduleGroup,
     .rare = kRare,
     .least = 0,
     .most = 0x1p16,
     .searched = Searched::kChosen,
     .idle = IdleExtraInFlight},
    {.name = "fill_memory",
     .sentence = "Holds as many micro-batches as fit in memory, where that shortens the bubble.",
     .default_text = "false",
     .group = kScheduleGroup,
     .rare = kRare,
     .searched = Searched::kNever,
     .advice = "leave it out, or write --fix=extra_in_flight=N"},
    {.name = "warm_ups",
     .value = "N+N,...",
     .sentence = "Micro-batches by which each stage of zero_bubble runs ahead: forwards before the "
                 "first backward, and backwards ahead of their gradients of weights.",
     .group = kScheduleGroup,
     .is_flag = false,
     .searched = Searched::kNever,
     .form = &kWarmUpsForm},
    {.name = "staleness",
     .value = "N",
     .sentence = "Updates by which the weights of a step may lag behind.",
     .default_text = "0",
     .group = kScheduleGroup,
     .rare = kRare,
     .least = 0,
     .most = 64,
     .bits = Bits::kValues,
     .searched = Searched::kNever,
     .advice = kLagging},
    {.name = "steps_a_round",
     .value = "N",
     .sentence = "Steps between two drains of the pipe, where weights lag. Default: 8 or more.",
     .group = kScheduleGroup,
     .rare = kRare,
     .least = 1,
     .most = 0x1p16,
     .bits = Bits::kValues,
     .searched = Searched::kNever,
     .advice = kLagging},
    {.name = "global_norm",
     .value = "BOOL",
     .sentence = "Updates wait for the norm of all gradients, to clip by it.",
     .default_text = "true",
     .group = kOptimizerGroup,
     .rare = kRare},

    // Memory and precision.
    {.name = "recompute",
     .value = "none|attention|selective|full[:COUNTS][,gather]",
     .sentence = "Part of each block that the backward recomputes. Blocks may differ: with "
                 "full:2,attention it is full for the first 2 of each slice along the pipe; "
                 "full:3/2 says it by slice. gather: it repeats the all-gathers of the forward.",
     .default_text = "none",
     .group = kMemoryGroup,
     .searched = Searched::kChosen,
     .form = &kRecomputeForm,
     .idle = IdleRecompute},
    {.name = "precision",
     .value = "f32|bf16",
     .sentence = "Type of matrix products; with bf16, master weights and sums stay f32.",
     .default_text = "f32",
     .group = kMemoryGroup,
     .bits = Bits::kValues},
    {.name = "residual",
     .value = "f32|bf16",
     .sentence = "Type of the residual stream; bf16 needs --precision=bf16, halves its bytes and "
                 "rounds its sums.",
     .default_text = "f32",
     .group = kMemoryGroup,
     .rare = kRare,
     .bits = Bits::kValues,
     .excludes = NeedNarrowProducts},
    {.name = "fuse",
     .value = "BOOL",
     .sentence = "One kernel computes a product and the element-wise ops after it, with the same "
                 "bits.",
     .default_text = "true",
     .group = kMemoryGroup,
     .rare = kRare},
    {.name = "loss_pieces",
     .value = "N|auto",
     .sentence =
         "Logits exist in N pieces of the tokens, which the backward makes again; 0: whole; "
         "auto: in as many as pay.",
     .default_text = "0",
     .group = kMemoryGroup,
     .bits = Bits::kSums,
     .form = &kLossPiecesForm,
     .idle = IdleLossPieces},
    {.name = "offload",
     .value = "WHAT",
     .sentence = "What rests in the host's memory between its uses: some of activations (or "
                 "activations:SHARE, activations:all), states and weights, joined by commas "
                 "(docs/memory_techniques.md).",
     .default_text = "none",
     .group = kMemoryGroup,
     .rare = kRare,
     .searched = Searched::kChosen,
     .form = &kOffloadForm,
     .idle = IdleOffload},
    {.name = "update_on",
     .value = "device|host",
     .sentence = "host: the host's processors update the weights; their states rest in its memory.",
     .default_text = "device",
     .group = kMemoryGroup,
     .rare = kRare,
     .bits = Bits::kValues,
     .idle = IdleUpdateOn},
    {.name = "host_memory",
     .value = "BYTES",
     .sentence = "What the devices of a node may take of its host's memory together; a plan that "
                 "needs more is refused. Default: no limit.",
     .group = kMemoryGroup,
     .rare = kRare,
     .is_limit = true,
     .least = 1,
     .form = &kBytesForm,
     .idle = IdleHostMemory},
    {.name = "documents",
     .sentence = "Samples are packed documents: none sees another, positions begin anew, no label "
                 "is of the next one.",
     .default_text = "false",
     .group = kDataGroup,
     .bits = Bits::kValues},
    {.name = "state_layouts",
     .sentence = "The plan's graph states the layouts that were chosen.",
     .default_text = "false",
     .group = kMemoryGroup,
     .is_flag = false},
};

}  // namespace

std::span<const Row> RecipeRows() { return kRecipeRows; }

}  // namespace oneflow
