#include "tests/cluster/training.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/temporary_directory.h"
#include "tests/e2e/small_run.h"
#include "training/trainer/trainer.h"

namespace oneflow::cluster {
namespace {

constexpr int64_t kSteps = 7;
constexpr int kProcesses = 4;

// Text in which a token follows from the one before, mostly.
class Text final : public TokenSource {
 public:
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    uint64_t state = static_cast<uint64_t>(step) * 1000003 + static_cast<uint64_t>(sample) + 1;
    int64_t token = 0;
    for (int32_t& t : tokens) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      token = (token * 5 + 3 + static_cast<int64_t>(state >> 62)) % 21;
      t = static_cast<int32_t>(token);
    }
    return absl::OkStatus();
  }
};
const Text text;

// Discards the output of programs while it exists.
class Quiet {
 public:
  Quiet() {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (const int fd : {1, 2}) {
      Flush();
      kept_[fd - 1] = dup(fd);
      dup2(nowhere, fd);
    }
    close(nowhere);
  }
  ~Quiet() {
    Flush();
    for (const int fd : {1, 2}) {
      dup2(kept_[fd - 1], fd);
      close(kept_[fd - 1]);
    }
  }

 private:
  static void Flush() {
    std::fflush(nullptr);
    std::cout.flush();
  }
  int kept_[2];
};

SmallRun MakeRun(const std::string& mesh, const std::string& shard) {
  SmallRun run;
  run.model.set_layers(2);
  run.Set("mesh", mesh);
  run.Set("shard", shard);
  run.Set("--batch=8 --micro_batches=2");
  run.steps = kSteps;
  return run;
}

Training MakeTraining(const proto::Plan& plan) {
  Training training{plan, text, {}, kProcesses};
  training.options.run.set_steps(kSteps);
  training.options.run.set_checkpoint_every(1);
  training.options.run.set_threads(1);
  return training;
}

void Check(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

Reference Undisturbed(const proto::Plan& plan) {
  const TemporaryDirectory folder;
  TrainerOptions options = MakeTraining(plan).options;
  options.run.set_checkpoint_dir(folder.path() + "/ckpt");
  options.run.set_metrics(folder.path() + "/metrics");
  SoleProcess alone;
  const auto trainer = Trainer::Create(plan, {.train = &text}, options, &alone, {});
  Check(trainer.status());
  Check((*trainer)->Run());
  return {ReadLosses(options.run.metrics()), ReadCheckpoints(options.run.checkpoint_dir())};
}

}  // namespace

std::vector<std::unique_ptr<Subject>> MakeSubjects() {
  std::vector<std::unique_ptr<Subject>> subjects;
  // Its embedding is more than one piece.
  SmallRun large = MakeRun("pipe=2,data=2", "none");
  large.model.set_vocab(4401);
  large.model.set_sequence(4);
  for (const SmallRun& run :
       {MakeRun("data=2,tensor=2", "none"), large, MakeRun("data=4", "states")}) {
    proto::Plan plan = CompileSmall(run);
    Reference reference = Undisturbed(plan);
    subjects.push_back(
        std::make_unique<Subject>(Subject{run.Get("mesh"), std::move(plan), std::move(reference)}));
  }
  return subjects;
}

std::string RunSeed(const std::vector<std::unique_ptr<Subject>>& subjects, uint64_t seed,
                    const Faults& faults, Coverage* coverage) {
  const Subject& subject = *subjects[seed % subjects.size()];
  const TemporaryDirectory folder;
  const Quiet quiet;
  Cluster cluster(MakeTraining(subject.plan), subject.reference, folder.path(), seed, faults,
                  coverage);
  const std::string wrong = cluster.Run();
  return wrong.empty() ? "" : absl::StrCat(subject.name, ", ", wrong);
}

}  // namespace oneflow::cluster
