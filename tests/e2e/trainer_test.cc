// Trainer in a group of one: a stop in any program of a training ends it with a checkpoint, and it
// goes on to the losses of one that was not stopped.
#include "actor_runtime/trainer/trainer.h"

#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "actor_runtime/data/temporary_directory.h"
#include "actor_runtime/kernel/kernel.h"
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
                     const std::string& stop_in = "", bool checkpoints = true) {
  const Text text;
  TrainerOptions options;
  options.steps = kSteps;
  options.optimizer = plan.train().optimizer();
  options.eval_every = 3;
  options.eval_batches = 2;
  options.checkpoint_every = 2;
  if (checkpoints) options.checkpoint_dir = folder + "/ckpt";
  if (checkpoints) options.resume = Resume::kIfThere;
  options.metrics = folder + "/metrics";
  options.runtime.threads = 2;
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
      plan, {.train = &text, .validation = &text, .tokens = 100}, options, &alone, {});
  if (!trainer.ok()) return trainer.status();
  training = trainer->get();
  return training->Run();
}

proto::Plan PlanToTrain() {
  SmallRun run;
  run.mesh = "pipe=2";
  run.model.layers = 2;
  run.steps = kSteps;
  return CompileSmall(run);
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

}  // namespace
}  // namespace oneflow
