// Trainer in a group of one: a stop in any program of a training ends it with a checkpoint, and it
// goes on to the losses of one that was not stopped.
#include "training/trainer/trainer.h"

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/base/temporary_directory.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr int64_t kSteps = 7;

class Text final : public TokenSource {
 public:
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    int64_t token = step * 5 + sample;
    for (int32_t& t : tokens) t = static_cast<int32_t>((token = token * 5 + 3) % 21);
    return absl::OkStatus();
  }
};

std::string ProgramThatRuns(const RunContext& run) {
  return run.save        ? "save"
         : run.load      ? "load"
         : run.optimizer ? "train"
         : run.tokens    ? "eval"
                         : "init";
}

std::vector<double> Losses(const std::string& metrics) {
  std::vector<double> losses;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    losses.push_back(nlohmann::json::parse(line)["loss"].get<double>());
  }
  return losses;
}

// Trains in `folder`, from its newest checkpoint if there is one. While the program `stop_in` runs,
// each firing asks for a stop; in program train those from the second step on.
absl::Status TrainIn(const proto::Plan& plan, const std::string& folder,
                     const std::string& stop_in = "", bool checkpoints = true,
                     const TrainerObserver& observer = {}) {
  const Text text;
  TrainerOptions options;
  options.run.set_steps(kSteps);
  options.run.set_eval_every(3);
  options.run.set_eval_batches(2);
  options.run.set_checkpoint_every(2);
  if (checkpoints) options.run.set_checkpoint_dir(folder + "/ckpt");
  if (checkpoints) options.run.set_resume("auto");
  options.run.set_metrics(folder + "/metrics");
  options.run.set_threads(2);
  Trainer* training = nullptr;
  options.runtime.make_kernel = [&](const KernelSetup& setup) -> absl::StatusOr<Kernel> {
    absl::StatusOr<Kernel> kernel = MakeKernel(setup);
    if (!kernel.ok()) return kernel;
    return Kernel([&training, &stop_in, inner = *kernel](const KernelCall& call) {
      const std::string program = ProgramThatRuns(*call.run);
      if (program == stop_in && (program != "train" || call.firing >= call.run->micro_batches)) {
        training->AskStop();
      }
      return inner(call);
    });
  };
  SoleProcess alone;
  absl::StatusOr<std::unique_ptr<Trainer>> trainer = Trainer::Create(
      plan, {.train = &text, .validation = &text, .tokens = 100}, options, &alone, observer);
  if (!trainer.ok()) return trainer.status();
  training = trainer->get();
  return training->Run();
}

proto::Plan PlanToTrain() {
  SmallRun run;
  run.Set("--mesh=pipe=2");
  run.model.set_layers(2);
  run.steps = kSteps;
  return CompileSmall(run);
}

TEST_CASE("a training rests between two steps, and ends there if it is to") {
  const proto::Plan plan = PlanToTrain();
  const TemporaryDirectory free, resting, ended;
  REQUIRE(TrainIn(plan, free.path()).ok());
  std::vector<int64_t> rests;
  REQUIRE(TrainIn(plan, resting.path(), "", true,
                  {.between_steps =
                       [&](int64_t steps_done) {
                         rests.push_back(steps_done);
                         return true;
                       }})
              .ok());
  CHECK(rests == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(Losses(resting.path() + "/metrics") == Losses(free.path() + "/metrics"));
  // It ends after a step without a checkpoint of its own, saves one, and goes on.
  CHECK(absl::IsCancelled(
      TrainIn(plan, ended.path(), "", true,
              {.between_steps = [](int64_t steps_done) { return steps_done < 3; }})));
  CHECK(LatestCheckpoint(ended.path() + "/ckpt")->ends_with("00000003"));
  REQUIRE(TrainIn(plan, ended.path()).ok());
  CHECK(Losses(ended.path() + "/metrics") == Losses(free.path() + "/metrics"));
}

TEST_CASE("a training that is stopped in any of its programs goes on to the same losses") {
  const proto::Plan plan = PlanToTrain();
  const TemporaryDirectory undisturbed;
  REQUIRE(TrainIn(plan, undisturbed.path()) == absl::OkStatus());
  const std::vector<double> losses = Losses(undisturbed.path() + "/metrics");
  REQUIRE(losses.size() == kSteps);
  for (const std::vector<std::string>& stops : {std::vector<std::string>{"init"},
                                                {"train"},
                                                {"eval"},
                                                {"save"},
                                                {"eval", "load"},
                                                {"save", "load", "eval", "train"}}) {
    const TemporaryDirectory folder;
    for (const std::string& program : stops) {
      INFO(program);
      const absl::Status stopped = TrainIn(plan, folder.path(), program);
      INFO(stopped);
      CHECK(absl::IsCancelled(stopped));
      CHECK(Losses(folder.path() + "/metrics").size() < kSteps);
    }
    CHECK(TrainIn(plan, folder.path()) == absl::OkStatus());
    CHECK(Losses(folder.path() + "/metrics") == losses);
  }
}

TEST_CASE("without a folder for checkpoints a training that is stopped ends at once") {
  const TemporaryDirectory folder;
  const absl::Status stopped = TrainIn(PlanToTrain(), folder.path(), "train", false);
  CHECK(absl::IsCancelled(stopped));
  CHECK_THAT(std::string(stopped.message()), Catch::Contains("give --checkpoint_dir=DIR"));
}

// Sample i has text for half of itself where i divides by 3, for 2 tokens where it divides by 5,
// and nothing else but ends of documents; `none`: nothing else at all.
class Padded final : public TokenSource {
 public:
  Padded(int64_t batch, bool none) : batch_(batch), none_(none) {}

  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    const int64_t index = step * batch_ + sample;
    const size_t text = none_ ? 0 : index % 3 == 0 ? tokens.size() / 2 : index % 5 == 0 ? 2 : 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = i < text ? static_cast<int32_t>(1 + (7 * index + 5 * i) % 20) : 0;
    }
    return absl::OkStatus();
  }

 private:
  const int64_t batch_;
  const bool none_;
};

struct Outcome {
  std::vector<nlohmann::json> lines;
  std::vector<std::string> notices;
};

// A step, and a validation of 24 samples in micro-batches of `size`.
Outcome TrainOnDocuments(int64_t size, bool none) {
  const TemporaryDirectory folder;
  SmallRun run;
  run.model.set_layers(1);
  run.Set("--documents --batch=12");
  run.recipe.set_micro_batches(run.recipe.batch() / size);
  const proto::Plan plan = CompileSmall(run);
  const Padded train(run.recipe.batch(), none), validation(size, none);
  TrainerOptions options;
  options.run.set_steps(1);
  options.run.mutable_optimizer()->set_learning_rate(1e-30);
  options.run.set_eval_batches(24 / size);
  options.run.set_metrics(folder.path() + "/metrics");
  options.run.set_threads(1);
  Outcome outcome;
  TrainerObserver observer;
  observer.notice = [&](const std::string& sentence) { outcome.notices.push_back(sentence); };
  SoleProcess alone;
  const auto trainer = Trainer::Create(plan,
                                       {.train = &train,
                                        .validation = &validation,
                                        .end_of_text = 0,
                                        .train_name = "--data=a",
                                        .validation_name = "--eval_data=b"},
                                       options, &alone, observer)
                           .value();
  REQUIRE(trainer->Run() == absl::OkStatus());
  std::ifstream file(options.run.metrics());
  for (std::string line; std::getline(file, line);) {
    outcome.lines.push_back(nlohmann::json::parse(line));
  }
  return outcome;
}

TEST_CASE("a validation is a mean over labels, whatever the micro-batches") {
  const Outcome one = TrainOnDocuments(1, false);
  REQUIRE(one.lines.size() == 1);
  CHECK(one.notices.empty());
  const double loss = one.lines[0]["eval_loss"].get<double>();
  CHECK(loss == Approx(std::log(21)).epsilon(0.05));  // random weights; most samples have no label
  for (const int64_t size : {2, 4, 12}) {
    const Outcome other = TrainOnDocuments(size, false);
    CHECK(other.lines[0]["eval_loss"].get<double>() == Approx(loss).epsilon(1e-6));
    CHECK(other.lines[0]["loss"].get<double>() ==
          Approx(one.lines[0]["loss"].get<double>()).epsilon(1e-6));
    CHECK(other.lines[0]["labels"] == one.lines[0]["labels"]);
  }
}

TEST_CASE("no label counts: there is no loss, and a warning names the data") {
  const Outcome none = TrainOnDocuments(4, true);
  REQUIRE(none.lines.size() == 1);
  CHECK(none.lines[0]["loss"].is_null());
  CHECK(none.lines[0]["eval_loss"].is_null());
  CHECK(none.lines[0]["labels"] == 0);
  const std::string why =
      " are 0, the end of a document; use data that has text, or name another token with "
      "--end_of_text_id";
  CHECK(none.notices ==
        std::vector<std::string>{
            "warning: no label of the validation counts, so it has no loss: all tokens read of "
            "--eval_data=b" +
                why,
            "warning: no label of step 1 counts, so it has no loss: all tokens read of --data=a" +
                why});
}

}  // namespace
}  // namespace oneflow
