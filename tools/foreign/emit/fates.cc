#include "tools/foreign/emit/fates.h"

#include <algorithm>
#include <iterator>

#include "glog/logging.h"
#include "oneflow_core/base/strings.h"

namespace oneflow::foreign {
namespace {

using enum Fate;

// Megatron-LM and Megatron-Bridge share their core; DeepSpeed and accelerate are driven by the same
// Trainer. A sentence holds for the systems whose fate may round.
struct Entry {
  std::string_view row;
  RowFate megatron, torchtitan, deepspeed, accelerate;
};

constexpr std::string_view kOneAxis =
    "the axes pipe, data, context and tensor in a fixed order, one each";
constexpr std::string_view kNoPipe = "there is no pipeline";
constexpr std::string_view kNoLag = "weights do not lag behind";
constexpr std::string_view kTrainer = "the Trainer decays to the last step";
constexpr RowFate kOnHere = {kHere};

const Entry kEntries[] = {
    {"purpose", {kNeeded}, {kNeeded}, {kNeeded}, {kNeeded}},
    {"mesh",
     {kNearest, kOneAxis},
     {kNearest, kOneAxis},
     {kNearest, "one axis of data"},
     {kNearest, "one axis of data"}},
    {"device", {kNeeded}, {kNeeded}, {kNeeded}, {kNeeded}},
    {"sequence_parallel",
     {kSaid},
     {kFixed, "tensor parallelism splits positions between blocks"},
     kOnHere,
     kOnHere},
    {"split_products",
     {kFixed, "weights are never gathered over tensor"},
     {kFixed, "weights are never gathered over tensor"},
     kOnHere,
     kOnHere},
    {"experts",
     {kNearest, "the axis that splits experts is the inner part of data"},
     {kNearest, "the axis that splits experts is the inner part of data"},
     {kNeeded},
     {kNeeded}},
    {"shard",
     {kNearest,
      "the distributed optimizer splits states over data and context; Megatron-FSDP "
      "gradients and weights, too, without a pipeline"},
     {kNearest,
      "FSDP splits states, gradients and weights over the same devices, context among them"},
     {kNearest, "ZeRO splits over all of data"},
     {kNearest, "FSDP splits states, gradients and weights over the same devices"}},
    {"gather",
     {kFixed, "Megatron-FSDP gathers weights for each use"},
     {kNearest, "weights are gathered for each use, or kept from the forward to the backward"},
     {kFixed, "ZeRO 3 gathers weights for each use"},
     {kNearest, "weights are gathered for each use, or kept from the forward to the backward"}},
    {"reduce",
     {kFixed, "gradients that are not split are reduced once a step"},
     {kFixed, "gradients are reduced as a micro-batch ends, in a pipeline once a step"},
     {kFixed, "gradients that are not split are reduced once a step"},
     {kFixed, "gradients that are not split are reduced once a step"}},
    {"overlap",
     {kSaid},
     {kFixed, "exchanges of weights and gradients run beside compute"},
     {kSaid},
     {kFixed, "exchanges of weights and gradients run beside compute"}},
    {"bucket_bytes",
     {kSaid},
     {kFixed, "an exchange is that of one block"},
     {kSaid},
     {kFixed, "an exchange is that of one block"}},
    {"prefetch",
     {kFixed, "weights are gathered one block ahead"},
     {kFixed, "weights are gathered one block ahead"},
     {kSaid},
     {kFixed, "weights are gathered one block ahead"}},
    {"context_pieces",
     {kFixed, "keys and values are gathered in one piece"},
     {kFixed, "keys and values are gathered in one piece"},
     kOnHere,
     kOnHere},
    {"keep_axis_order", kOnHere, kOnHere, kOnHere, kOnHere},
    {"batch", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"micro_batches", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"schedule",
     {kNearest, "there are 1f1b, and interleaved for multiples of the stages"},
     {kNearest, kNoLag},
     {kFixed, kNoPipe},
     {kFixed, kNoPipe}},
    {"chunks",
     {kNearest, "only interleaved has chunks"},
     {kNearest, "only interleaved has chunks"},
     {kFixed, kNoPipe},
     {kFixed, kNoPipe}},
    {"stage_layers", {kSaid}, {kSaid}, kOnHere, kOnHere},
    {"order",
     {kFixed, "orders cannot be written"},
     {kFixed, "an order is a file of its own"},
     {kFixed, kNoPipe},
     {kFixed, kNoPipe}},
    {"extra_in_flight",
     {kFixed, "a stage holds what the schedule needs"},
     {kFixed, "a stage holds what the schedule needs"},
     {kFixed, kNoPipe},
     {kFixed, kNoPipe}},
    {"fill_memory", kOnHere, kOnHere, kOnHere, kOnHere},
    {"warm_ups",
     {kFixed, "there is no zero_bubble"},
     {kFixed, "warm-ups are those of equal stages"},
     {kFixed, kNoPipe},
     {kFixed, kNoPipe}},
    {"staleness", {kFixed, kNoLag}, {kFixed, kNoLag}, {kFixed, kNoLag}, {kFixed, kNoLag}},
    {"steps_a_round", {kFixed, kNoLag}, {kFixed, kNoLag}, {kFixed, kNoLag}, {kFixed, kNoLag}},
    {"global_norm",
     {kNearest, "the norm is computed where gradients are clipped"},
     {kFixed, "the norm is always computed"},
     {kFixed, "the norm is always computed"},
     {kFixed, "the norm is always computed"}},
    {"recompute",
     {kNearest,
      "full of the first blocks of every slice, as many in each, or the core of attention "
      "in all blocks; sequence parallelism gathers again in the backward"},
     {kNearest, "one policy for all blocks: none, selective or full, which gather again"},
     {kNearest, "all blocks or none"},
     {kNearest, "all blocks or none"}},
    {"precision",
     {kSaid},
     {kNearest, "mixed precision needs FSDP or context parallelism beside tensor and pipe"},
     {kSaid},
     {kSaid}},
    {"residual",
     {kSaid},
     {kFixed, "the residual stream has the type of products"},
     {kFixed, "the residual stream has the type of products"},
     {kFixed, "the residual stream has the type of products"}},
    {"frozen_weights",
     {kFixed, "all weights are trained"},
     {kFixed, "all weights are trained"},
     {kFixed, "all weights are trained"},
     {kFixed, "all weights are trained"}},
    {"fuse",
     {kSaid},
     {kNearest, "zero bubble does not run compiled blocks"},
     {kFixed, "models of transformers run op by op"},
     {kFixed, "models of transformers run op by op"}},
    {"loss_pieces",
     {kFixed, "logits are whole"},
     {kFixed, "logits are whole"},
     {kFixed, "logits are whole"},
     {kFixed, "logits are whole"}},
    {"offload",
     {kNearest,
      "activations of whole blocks without pipeline and recompute; states where the host "
      "updates"},
     {kNearest, "states, gradients and weights rest on the host together, and the host updates"},
     {kNearest, "states where the host updates, and weights beside them with ZeRO 3"},
     {kNearest, "states, gradients and weights rest on the host together, and the host updates"}},
    {"update_on",
     {kNearest, "states that rest on the host are updated there"},
     {kNearest, "weights that rest on the host are updated there, and no others"},
     {kNearest, "states that rest on the host are updated there"},
     {kNearest, "weights that rest on the host are updated there, and no others"}},
    {"host_memory", kOnHere, kOnHere, kOnHere, kOnHere},
    {"documents",
     {kSaid},
     {kNearest, "flex attention masks documents, with one device for the positions of a sequence"},
     {kFixed, "a sequence is one text"},
     {kFixed, "a sequence is one text"}},
    {"masked_labels", kOnHere, kOnHere, kOnHere, kOnHere},
    {"state_layouts", kOnHere, kOnHere, kOnHere, kOnHere},
    // The optimizer.
    {"learning_rate", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"min_learning_rate", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"lr_schedule", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"warmup_steps", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"decay_steps",
     {kSaid},
     {kNearest, "the decay ends with the last step, or later"},
     {kFixed, kTrainer},
     {kFixed, kTrainer}},
    {"beta1", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"beta2", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"epsilon", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"weight_decay", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
    {"clip", {kSaid}, {kSaid}, {kSaid}, {kSaid}},
};

const Entry* FindEntry(std::string_view row) {
  const auto* const entry = std::find_if(std::begin(kEntries), std::end(kEntries),
                                         [&](const Entry& e) { return e.row == row; });
  return entry == std::end(kEntries) ? nullptr : entry;
}

}  // namespace

bool HasFate(std::string_view row) { return FindEntry(row) != nullptr; }

RowFate FateIn(System system, std::string_view row) {
  const Entry* entry = FindEntry(row);
  CHECK(entry != nullptr) << row;
  switch (system) {
    case System::kMegatron:
    case System::kBridge: return entry->megatron;
    case System::kTorchtitan: return entry->torchtitan;
    case System::kDeepSpeed: return entry->deepspeed;
    case System::kAccelerate: return entry->accelerate;
  }
  LOG(FATAL) << "no such system";
}

}  // namespace oneflow::foreign
