// The numbers of decoders: what follows from those that are said, and what holds of them.
#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/block_numbers.h"
#include "oneflow_core/model/decoder.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// The usual width of a gated MLP with as many weights as one of 4 * hidden: 8/3 of it, rounded up
// to a multiple of 64.
int64_t UsualInner(int64_t hidden) { return (hidden * 8 / 3 + 63) / 64 * 64; }

// Numbers that act on the experts of a mixture.
constexpr std::string_view kOfExperts[] = {
    "experts_per_token", "shared_inner", "norm_topk_prob", "capacity",       "slots",
    "slot_groups",       "scores",       "bias_rate",      "aux_loss_coeff", "z_loss_coeff",
    "routed_positions",  "router_bias",  "expert_bias",    "routed_scale"};

absl::Status CheckNoExperts(const proto::Model& said) {
  for (const std::string_view name : kOfExperts) {
    const Row& row = *FindRow(ModelRows(), name);
    if (!HasField(row, said)) continue;
    return InputError("--" + std::string(name) + "=" + FieldText(row, said),
                      "acts on nothing without experts", "add --experts=N, or leave it out");
  }
  return absl::OkStatus();
}

// The groups of queues where none are given: experts of 8 groups are split over 2, 4 or 8 devices.
int64_t UsualSlotGroups(int64_t experts) {
  int64_t groups = std::min<int64_t>(experts, 8);
  while (experts % groups != 0) --groups;
  return groups;
}

// Completes slots and slot_groups, of which a capacity is a case. Experts and positions are right.
absl::Status FinishSlots(const proto::Model& said, proto::Model* model) {
  const bool of_each = model->capacity() > 0;
  int64_t experts = model->experts();  // that the groups of all blocks divide
  for (const int64_t block : FirstBlocks(*model)) {
    const int64_t own = BlockNumbers(*model, block).experts();
    if (own > 0) experts = std::gcd(experts, own);
    if (!of_each || own == 0 || own == model->experts()) continue;
    return InputError(absl::StrCat("--capacity=", model->capacity()),
                      "has a queue for each expert, and blocks have different numbers of them",
                      absl::StrCat("use --slots=", model->capacity()));
  }
  if (of_each && (said.slots() > 0 || said.slot_groups() > 0)) {
    return InputError(absl::StrCat("--capacity=", model->capacity()),
                      "is --slots with a queue for each expert, and --slots or --slot_groups is "
                      "given, too",
                      "leave out one of them");
  }
  if (of_each) {
    model->set_slots(model->capacity());
    model->set_slot_groups(experts);
    model->set_capacity(0);
  }
  const int64_t groups = model->slot_groups();
  if (model->slots() == 0) {
    if (groups == 0) return absl::OkStatus();
    return InputError(absl::StrCat("--slot_groups=", groups), "acts on nothing without --slots",
                      "add --slots=1.25, or leave it out");
  }
  if (groups > 0 && experts % groups != 0) {
    return InputError(absl::StrCat("--slot_groups=", groups),
                      absl::StrCat("does not divide the ", model->experts(), " experts",
                                   experts < model->experts() ? " and those of each class" : ""),
                      absl::StrCat("use a divisor of ", experts));
  }
  if (groups == 0) model->set_slot_groups(UsualSlotGroups(experts));
  const std::string flag = absl::StrCat(of_each ? "--capacity=" : "--slots=", model->slots());
  constexpr char kMend[] = "use slots relative to even routing, as 1.25, or 0 to drop nothing";
  if (model->slots() > static_cast<double>(experts)) {
    return InputError(flag, "is out of range", kMend);
  }
  const int64_t positions =
      model->routed_positions() > 0 ? model->routed_positions() : model->sequence();
  const double even = static_cast<double>(positions * model->experts_per_token()) /
                      static_cast<double>(model->slot_groups());
  if (model->slots() < 1 && model->slots() * even < 1) {
    return InputError(flag,
                      absl::StrCat("leaves less than one slot to a queue, of ", even,
                                   " tokens where routing is even"),
                      kMend);
  }
  return absl::OkStatus();
}

absl::Status CheckExperts(const proto::Model& model) {
  const int64_t experts = model.experts(), chosen = model.experts_per_token();
  if (chosen > experts) {
    return InputError("--experts_per_token=" + std::to_string(chosen),
                      "is out of range: there are " + std::to_string(experts) + " experts",
                      "use 1 to " + std::to_string(experts));
  }
  const int64_t positions =
      model.routed_positions() > 0 ? model.routed_positions() : model.sequence();
  if (model.sequence() % positions != 0) {
    return InputError("--routed_positions=" + std::to_string(positions),
                      "does not divide --sequence=" + std::to_string(model.sequence()),
                      "use a divisor, or leave it out: a whole sequence is routed together then");
  }
  return absl::OkStatus();
}

// What holds of the numbers of each block.
absl::Status CheckBlock(const proto::Model& model) {
  if (model.experts() > 0) RETURN_IF_ERROR(CheckExperts(model));
  if (model.heads() % model.groups() != 0) {
    return InputError("--groups=" + std::to_string(model.groups()),
                      "does not divide --heads=" + std::to_string(model.heads()),
                      "each group has an equal part of the query heads");
  }
  const int64_t rotated = RotatedElements(model);
  if (rotated % 2 != 0 && rotated == model.head_dim()) {
    return InputError("--head_dim=" + std::to_string(model.head_dim()), "is odd",
                      "use an even number: rotary positions turn pairs of elements");
  }
  if (rotated % 2 != 0 && model.rope_scaling().kind() == proto::RopeScaling::YARN) {
    return InputError(absl::StrCat("--rotary_share=", model.rotary_share()),
                      absl::StrCat("turns ", rotated, " elements of a head, an odd number"),
                      "use a share of an even number, as YaRN demands it");
  }
  if (rotated == 0 && model.rotary_share() > 0) {
    return InputError(absl::StrCat("--rotary_share=", model.rotary_share()),
                      "turns no element of a head", "use 0, or a larger share");
  }
  if (model.norm_offset() != 0 && model.norm_all_heads()) {
    return InputError(absl::StrCat("--norm_offset=", model.norm_offset()),
                      "is for norms of one head, and --norm_all_heads is given",
                      "leave one of the two out");
  }
  return absl::OkStatus();
}

// What a mixture is made of is the model's; a class says that its blocks have none, or which of its
// numbers are others.
absl::Status CheckClassExperts(const proto::Model& model) {
  for (const proto::BlockPattern::Class& c : model.blocks().classes()) {
    if (model.experts() == 0 && c.numbers().experts() > 0) {
      return InputError("blocks " + c.name(), "have experts, and the model has none",
                        "write --experts=N beside --blocks, and experts=0 for classes without");
    }
    if (model.experts() > 0 && (!c.numbers().has_experts() || c.numbers().experts() > 0)) continue;
    RETURN_IF_ERROR(Annotate(CheckNoExperts(c.numbers()), "blocks " + c.name()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FinishDecoder(const proto::Model& said, proto::Model* model) {
  const int64_t heads = model->heads(), hidden = model->hidden();
  if (!said.has_groups() && said.has_heads() && !said.has_preset()) model->set_groups(heads);
  if (!said.has_inner() && said.has_hidden()) model->set_inner(UsualInner(hidden));
  if (!said.has_head_dim() && (said.has_heads() || said.has_hidden())) {
    if (hidden % heads != 0) {
      return InputError("--heads=" + std::to_string(heads),
                        "does not divide --hidden=" + std::to_string(hidden),
                        "write --head_dim=N, the size of a head");
    }
    model->set_head_dim(hidden / heads);
  }
  RETURN_IF_ERROR(CheckClassExperts(*model));
  if (model->experts() > 0) {
    RETURN_IF_ERROR(CheckExperts(*model));
    RETURN_IF_ERROR(FinishSlots(said, model));
  } else if (!said.has_experts()) {
    RETURN_IF_ERROR(CheckNoExperts(said));
  }
  if (model->next_tokens() > 0 && model->sequence() < 2) {
    return InputError("--next_tokens=1",
                      "predicts the label after the next, and a sequence has one",
                      "use a --sequence of 2 or more");
  }
  RETURN_IF_ERROR(CheckPattern(*model));
  if (model->blocks().run().empty()) return CheckBlock(*model);
  for (const int64_t block : FirstBlocks(*model)) {
    const int index = FindBlockClass(*model, block);
    RETURN_IF_ERROR(Annotate(CheckBlock(BlockNumbers(*model, block)),
                             "blocks " + model->blocks().classes(index).name()));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
