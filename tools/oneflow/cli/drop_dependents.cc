#include "tools/oneflow/cli/drop_dependents.h"

#include <string_view>

#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

enum When {
  kGiven,     // the flag is given
  kOther,     // the message says another value of it
  kMovesBits  // the other value moves bits
};

struct Dependents {
  std::string_view flag;
  When when;
  std::string_view fields;
  std::string_view value = "";  // of the flag; "": any
};

constexpr Dependents kDependents[] = {
    {"schedule", kGiven, "order"},
    {"schedule", kOther, "chunks extra_in_flight warm_ups"},
    {"schedule", kMovesBits, "global_norm staleness steps_a_round"},  // weights lag, or not
    {"order", kGiven, "schedule chunks extra_in_flight staleness steps_a_round warm_ups"},
    {"mesh", kOther, "keep_axis_order stage_layers warm_ups"},
    {"micro_batches", kOther, "warm_ups"},
    {"precision", kOther, "residual frozen_weights"},
    {"lr_schedule", kOther, "decay_steps min_learning_rate", "constant"},
};

bool SaysOther(const Row& row, const std::string& given, const google::protobuf::Message& message) {
  return HasField(row, message) && FieldText(row, message) != given;
}

bool MovesBits(const Row& row, const std::string& given, const google::protobuf::Message& message) {
  const auto* recipe = dynamic_cast<const proto::Recipe*>(&message);
  if (recipe == nullptr || row.moves == nullptr) return false;
  proto::Recipe now = *recipe;
  return SetField(row, given, &now).ok() && row.moves(now) != row.moves(*recipe);
}

bool Applies(const Dependents& rule, const Row& row, const std::string& given,
             const google::protobuf::Message& message) {
  if (!rule.value.empty() && given != rule.value) return false;
  if (rule.when == kGiven) return true;
  if (!SaysOther(row, given, message)) return false;
  return rule.when == kOther || MovesBits(row, given, message);
}

// The chunks of each stage, as the message says them and flags beside it.
int CountChunks(const Arguments& args, proto::Recipe recipe) {
  for (const char* name : {"schedule", "chunks"}) {
    if (!args.Given(name)) continue;
    // A wrong value was refused.
    (void)SetField(*FindRow(RecipeRows(), name), args.Repeated(name)[0], &recipe);
  }
  return WithDefaults(std::move(recipe)).chunks();
}

}  // namespace

std::vector<std::string> DropDependents(std::span<const Row> rows, const Arguments& args,
                                        google::protobuf::Message* message) {
  std::vector<std::string> dropped;
  const auto drop = [&](std::string_view name) {
    const Row* row = FindRow(rows, name);
    if (row == nullptr || args.Given(name) || !HasField(*row, *message)) return;
    ClearField(*row, message);
    dropped.emplace_back(name);
  };
  auto* const recipe = dynamic_cast<proto::Recipe*>(message);
  const int chunks = recipe != nullptr ? WithDefaults(*recipe).chunks() : 0;
  for (const Dependents& rule : kDependents) {
    const Row* row = FindRow(rows, rule.flag);
    if (row == nullptr || !args.Given(rule.flag)) continue;
    if (!Applies(rule, *row, args.Repeated(rule.flag)[0], *message)) continue;
    for (const auto name : absl::StrSplit(ToAbsl(rule.fields), ' ')) {
      drop(ToStd(name));
    }
  }
  // There is a number of layers for each chunk.
  if (recipe != nullptr && CountChunks(args, *recipe) != chunks) drop("stage_layers");
  return dropped;
}

}  // namespace oneflow
