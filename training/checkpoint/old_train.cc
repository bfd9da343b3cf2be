#include "training/checkpoint/old_train.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// Unspecified was f32.
proto::DataType StoredType(proto::DataType type) {
  return type == proto::DATA_TYPE_UNSPECIFIED ? proto::F32 : type;
}

}  // namespace

proto::Trained FromOldTrain(const proto::Train& train) {
  proto::Trained trained;
  proto::Recipe& recipe = *trained.mutable_recipe();
  *trained.mutable_optimizer() = train.optimizer();
  recipe.set_batch(train.batch());
  recipe.set_micro_batches(train.micro_batches());
  recipe.set_schedule(train.schedule().empty() ? "1f1b" : train.schedule());
  if (train.chunks() > 0) recipe.set_chunks(train.chunks());
  recipe.set_extra_in_flight(train.extra_in_flight());
  recipe.set_staleness(train.staleness());
  if (train.steps_a_round() > 0) recipe.set_steps_a_round(train.steps_a_round());
  recipe.set_global_norm(!train.no_global_norm());
  if (!train.recompute().empty()) {
    // It moves no bits: a text of another form is left out.
    (void)SetField(*FindRow(RecipeRows(), "recompute"), train.recompute(), &recipe);
  }
  recipe.set_precision(StoredType(train.precision()));
  recipe.set_residual(StoredType(train.residual()));
  recipe.set_fuse(!train.no_fusion());
  recipe.set_documents(train.documents());
  recipe.set_loss_pieces(train.loss_pieces());
  return trained;
}

}  // namespace oneflow
