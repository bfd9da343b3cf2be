#include "oneflow_core/train/learning_rate.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

namespace oneflow {
namespace {

proto::Optimizer DefaultOptimizer() {
  proto::Optimizer optimizer;
  optimizer.set_learning_rate(3e-4);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_epsilon(1e-8);
  optimizer.set_weight_decay(0.1);
  optimizer.set_clip(1.0);
  return optimizer;
}

proto::Optimizer Schedule(proto::Optimizer::Schedule schedule, int64_t warmup, int64_t decay = 0) {
  proto::Optimizer optimizer = DefaultOptimizer();
  optimizer.set_learning_rate(1.0);
  optimizer.set_min_learning_rate(0.1);
  optimizer.set_lr_schedule(schedule);
  optimizer.set_warmup_steps(warmup);
  optimizer.set_decay_steps(decay);
  return optimizer;
}

TEST_CASE("LearningRate: warm-up ends at the peak") {
  const auto constant = Schedule(proto::Optimizer::CONSTANT, 4);
  CHECK(LearningRate(constant, 0, 100) == Approx(0.25));
  CHECK(LearningRate(constant, 3, 100) == 1.0);
  CHECK(LearningRate(constant, 4, 100) == 1.0);
  CHECK(LearningRate(constant, 1000, 100) == 1.0);
  CHECK(LearningRate(Schedule(proto::Optimizer::CONSTANT, 0), 0, 100) == 1.0);
}

TEST_CASE("LearningRate: linear and cosine run from the peak to the minimum") {
  const auto linear = Schedule(proto::Optimizer::LINEAR, 10);
  CHECK(LearningRate(linear, 10, 110) == Approx(1.0));
  CHECK(LearningRate(linear, 60, 110) == Approx(0.55));
  CHECK(LearningRate(linear, 110, 110) == Approx(0.1));
  CHECK(LearningRate(linear, 500, 110) == Approx(0.1));
  const auto cosine = Schedule(proto::Optimizer::COSINE, 10);
  CHECK(LearningRate(cosine, 10, 110) == Approx(1.0));
  CHECK(LearningRate(cosine, 35, 110) == Approx(0.1 + 0.9 * 0.8535533906));
  CHECK(LearningRate(cosine, 60, 110) == Approx(0.55));
  CHECK(LearningRate(cosine, 110, 110) == Approx(0.1));
}

TEST_CASE("LearningRate: decay_steps ends the decay before the run ends") {
  const auto linear = Schedule(proto::Optimizer::LINEAR, 0, 10);
  CHECK(LearningRate(linear, 5, 1000) == Approx(0.55));
  CHECK(LearningRate(linear, 10, 1000) == Approx(0.1));
}

TEST_CASE("LearningRate: a run that is all warm-up") {
  const auto cosine = Schedule(proto::Optimizer::COSINE, 10);
  CHECK(LearningRate(cosine, 9, 5) == 1.0);
  CHECK(LearningRate(cosine, 10, 10) == Approx(0.1));
}

std::string Error(void (proto::Optimizer::*set)(double), double value) {
  proto::Optimizer optimizer = DefaultOptimizer();
  (optimizer.*set)(value);
  return std::string(CheckOptimizer(optimizer, "--").message());
}

TEST_CASE("CheckOptimizer: each number has its range") {
  using O = proto::Optimizer;
  CHECK(CheckOptimizer(DefaultOptimizer(), "--").ok());
  CHECK(Error(&O::set_learning_rate, 0) ==
        "--learning_rate=0: is out of range; use more than 0, or leave it out; the default: 3e-4");
  CHECK(Error(&O::set_learning_rate, std::numeric_limits<double>::quiet_NaN()) != "");
  CHECK(Error(&O::set_learning_rate, std::numeric_limits<double>::infinity()) != "");
  CHECK(Error(&O::set_min_learning_rate, 1) ==
        "--min_learning_rate=1: is out of range; use a number from 0 to the learning rate, 0.0003");
  CHECK(Error(&O::set_beta1, 1) ==
        "--beta1=1: is out of range; use 0 or more, and less than 1, or leave it out; the default: "
        "0.9");
  CHECK(Error(&O::set_beta2, -0.5) ==
        "--beta2=-0.5: is out of range; use 0 or more, and less than 1, or leave it out; the "
        "default: 0.95");
  CHECK(Error(&O::set_epsilon, 0) ==
        "--epsilon=0: is out of range; use more than 0, or leave it out; the default: 1e-8");
  CHECK(Error(&O::set_weight_decay, -1) ==
        "--weight_decay=-1: is out of range; use 0 or more, or leave it out; the default: 0.1");
  CHECK(Error(&O::set_clip, -1) ==
        "--clip=-1: is out of range; use 0 or more, or leave it out; the default: 1.0");
  CHECK(Error(&O::set_clip, 0) == "");
}

TEST_CASE("CheckOptimizer: steps") {
  CHECK(CheckOptimizer(Schedule(proto::Optimizer::COSINE, -1), "--").message() ==
        "--warmup_steps=-1: is out of range; use 0 or more, or leave it out; the default: 0");
  CHECK(CheckOptimizer(Schedule(proto::Optimizer::COSINE, 0, -2), "--").message() ==
        "--decay_steps=-2: is out of range; use 0 or more, or leave it out; the default: 0");
  CHECK(CheckOptimizer(Schedule(proto::Optimizer::COSINE, 20, 20), "--").message() ==
        "--decay_steps=20: is not after the warm-up of 20 steps; "
        "give the step at which the decay ends, counted from step 0");
}

TEST_CASE("CheckClip: clipping needs a norm for which updates wait") {
  proto::Optimizer optimizer = DefaultOptimizer();
  CHECK(CheckClip(optimizer, /*global_norm=*/true).ok());
  CHECK(CheckClip(optimizer, /*global_norm=*/false).message() ==
        "--clip=1: needs the norm of all gradients, for which no update of this plan waits; use "
        "--clip=0, or --global_norm and a schedule whose steps do not overlap");
  optimizer.set_clip(0);
  CHECK(CheckClip(optimizer, /*global_norm=*/false).ok());
}

}  // namespace
}  // namespace oneflow
