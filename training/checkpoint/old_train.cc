#include "training/checkpoint/old_train.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// Unspecified was f32.
proto::DataType StoredType(proto::DataType type) {
  return type == proto::DATA_TYPE_UNSPECIFIED ? proto::F32 : type;
}

// The old form leaves zeros out, and they were meant: a default must not take their place.
proto::Optimizer WithZeros(const proto::Optimizer& old) {
  proto::Optimizer optimizer;
  optimizer.set_learning_rate(old.learning_rate());
  optimizer.set_min_learning_rate(old.min_learning_rate());
  optimizer.set_lr_schedule(old.lr_schedule());
  optimizer.set_warmup_steps(old.warmup_steps());
  optimizer.set_decay_steps(old.decay_steps());
  optimizer.set_beta1(old.beta1());
  optimizer.set_beta2(old.beta2());
  optimizer.set_epsilon(old.epsilon());
  optimizer.set_weight_decay(old.weight_decay());
  optimizer.set_clip(old.clip());
  return optimizer;
}

}  // namespace

proto::Trained FromOldTrain(const proto::Train& train) {
  proto::Trained trained;
  proto::Recipe& recipe = *trained.mutable_recipe();
  if (train.has_optimizer()) *trained.mutable_optimizer() = WithZeros(train.optimizer());
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
