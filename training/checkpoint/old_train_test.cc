#include "training/checkpoint/old_train.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

proto::Trained Read(const std::string& text) {
  proto::Train train;
  REQUIRE(ParseText(text, "train", "train", &train).ok());
  return FromOldTrain(train);
}

TEST_CASE("FromOldTrain: zeros that the old form leaves out are values") {
  proto::Optimizer optimizer =
      Read("batch: 8 micro_batches: 2 optimizer { learning_rate: 0.01 beta2: 0.9 epsilon: 1e-8 }")
          .optimizer();
  SetDefaults(OptimizerRows(), &optimizer);
  CHECK(FlagsText(OptimizerRows(), optimizer) ==
        "--learning_rate=0.01 --min_learning_rate=0 --lr_schedule=constant --warmup_steps=0 "
        "--decay_steps=0 --beta1=0 --beta2=0.9 --epsilon=1e-08 --weight_decay=0 --clip=0");
}

TEST_CASE("FromOldTrain: choices of bits that the old form leaves out are values") {
  const proto::Recipe recipe = Read("batch: 8 micro_batches: 2").recipe();
  CHECK(FlagsText(RecipeRows(), recipe) ==
        "--batch=8 --micro_batches=2 --schedule=1f1b --extra_in_flight=0 --staleness=0 "
        "--global_norm=true --precision=f32 --residual=f32 --fuse=true --loss_pieces=0 "
        "--documents=false");
}

TEST_CASE("FromOldTrain: without an optimizer none is made up") {
  CHECK_FALSE(Read("batch: 8").has_optimizer());
}

}  // namespace
}  // namespace oneflow
