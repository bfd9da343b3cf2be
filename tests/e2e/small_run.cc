#include "tests/e2e/small_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/interleaved_for_test.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/random/random.h"
#include "oneflow_core/base/temporary_directory.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/train/learning_rate.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {
namespace {

void Check(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

// Learnable text: each token follows from the one before, with a little noise.
class Chain : public TokenSource {
 public:
  explicit Chain(int64_t vocab) : vocab_(vocab), noise_(7, "chain") {}
  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    uint64_t index = static_cast<uint64_t>(step * 1000 + sample) * 1000;
    int64_t token = static_cast<int64_t>(noise_.Below(index++, static_cast<uint64_t>(vocab_)));
    for (int32_t& t : tokens) {
      t = static_cast<int32_t>(token);
      token = (token * 5 + 3 + static_cast<int64_t>(noise_.Below(index++, 2))) % vocab_;
    }
    return absl::OkStatus();
  }

 private:
  int64_t vocab_;
  RandomStream noise_;
};

}  // namespace

SmallRun::SmallRun() {
  model.set_layers(4);
  model.set_heads(2);
  model.set_hidden(16);
  model.set_sequence(8);
  model.set_vocab(21);  // odd: vocabulary parallelism is ragged
}

void SmallRun::Set(std::string_view flags) { Check(SetFields(RecipeRows(), flags, &recipe)); }

void SmallRun::Set(std::string_view name, std::string_view text) {
  const Row& row = *FindRow(RecipeRows(), name);
  if (text.empty()) return ClearField(row, &recipe);
  Check(SetField(row, text, &recipe));
}

std::string SmallRun::Get(std::string_view name) const {
  return FieldText(*FindRow(RecipeRows(), name), recipe);
}

double LargestDifference(const SmallResult& a, const SmallResult& b) {
  if (a.losses.size() != b.losses.size()) throw std::runtime_error("runs of other steps");
  double largest = 0;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    if (!std::isfinite(a.losses[i]) || !std::isfinite(b.losses[i])) return INFINITY;
    largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]) / std::abs(b.losses[i]));
  }
  return largest;
}

std::string RecordKey(const SmallRun& run) {
  return absl::StrCat(run.model.ShortDebugString(), ";", FlagsText(RecipeRows(), run.recipe), ";",
                      run.threads, ";", run.cluster.ShortDebugString(), run.edit ? ";edited" : "");
}

namespace {

// Training of a plan with `tokens`, which reports to `result`. All outlive it.
RunContext ContextToTrain(const SmallRun& run, const proto::Plan& plan, const TokenSource& tokens,
                          SmallResult* result) {
  const int64_t reports = run.steps * StepsARound(plan);
  result->losses.resize(reports);
  result->norms.resize(reports);
  RunContext context;
  context.seed = run.seed;
  context.micro_batches = run.recipe.micro_batches();
  context.micro_batch_size = run.recipe.batch() / run.recipe.micro_batches();
  context.tokens = &tokens;
  if (run.recipe.documents()) context.end_of_text = 0;
  const proto::Optimizer& o = plan.optimizer();
  context.optimizer = [&o, &run](int64_t step) {
    return StepNumbers{LearningRate(o, step, run.steps),
                       o.beta1(),
                       o.beta2(),
                       o.epsilon(),
                       o.weight_decay(),
                       o.clip(),
                       step};
  };
  context.report = [&run, result](int64_t step, std::span<const double> values) {
    result->losses[step] = values[kReportedLoss];
    result->norms[step] = values[kReportedNorm];
    const auto choices = values.subspan(kReportedScalars);
    if (!choices.empty()) result->choices.emplace_back(choices.begin(), choices.end());
    if (run.on_report) run.on_report(step);
  };
  return context;
}

// Runs init and train through `run_program(name, context, steps)`.
template <typename RunProgram>
SmallResult TrainWith(const SmallRun& run, const proto::Plan& plan, RunProgram run_program) {
  const Chain tokens(run.model.vocab());
  SmallResult result;
  const RunContext context = ContextToTrain(run, plan, tokens, &result);
  Check(run_program("init", {.seed = run.seed}, 1));
  Check(run_program("train", context, run.steps));
  return result;
}

}  // namespace

namespace {

std::unique_ptr<Runtime> Started(const SmallRun& run, const proto::Plan& plan) {
  RuntimeOptions options;
  options.threads = run.threads * MeshFromProto(run.recipe.mesh()).value().devices();
  options.backend = run.backend;
  options.synchronous = run.synchronous;
  options.trace = run.trace;
  if (run.interleaving) options = Interleaved(*run.interleaving, std::move(options));
  return Runtime::Create(plan, options).value();
}

// Between run.before and run.after.
absl::Status RunWatched(const SmallRun& run, Runtime* runtime, const std::string& program,
                        const RunContext& context, int64_t steps) {
  if (run.before) run.before(*runtime, program);
  const absl::Status status = runtime->Run(program, context, steps);
  if (run.after) run.after(*runtime, program);
  return status;
}

SmallResult TrainOn(const SmallRun& run, Runtime* runtime) {
  return TrainWith(run, runtime->plan(),
                   [&](const char* program, const RunContext& context, int64_t steps) {
                     return RunWatched(run, runtime, program, context, steps);
                   });
}

}  // namespace

SmallResult Train(const SmallRun& run) { return Train(run, CompileSmall(run)); }

SmallResult Train(const SmallRun& run, const proto::Plan& plan) {
  return TrainOn(run, Started(run, plan).get());
}

namespace {

// Variables that are trained, in full.
std::map<std::string, std::vector<std::byte>> Save(Runtime* runtime) {
  std::map<std::string, std::vector<std::byte>> variables;
  std::mutex mutex;
  RunContext context;
  context.save = [&](const Piece& piece) {
    const std::scoped_lock lock(mutex);
    const size_t bytes = ElementBytes(piece.dtype);
    std::vector<std::byte>& full = variables[*piece.name];
    full.resize(Product(*piece.dims) * bytes);
    ForRuns(*piece.dims, *piece.slice, 0, piece.slice->elements(),
            [&](int64_t element, int64_t index, int64_t count) {
              std::copy_n(piece.data + element * bytes, count * bytes,
                          full.begin() + static_cast<int64_t>(index * bytes));
            });
    return absl::OkStatus();
  };
  Check(runtime->Run("save", context, 1));
  return variables;
}

// The folder of a checkpoint of what the runtime holds, under `directory`.
std::string SaveCheckpoint(const std::string& directory, Runtime* runtime) {
  Check(BeginAttempt(directory, 0));
  const auto writer = CheckpointWriter::Create(directory, runtime->plan(), {}, {}).value();
  RunContext context;
  context.save = [&](const Piece& piece) { return writer->Write(piece); };
  Check(runtime->Run("save", context, 1));
  const std::vector<std::string> parts = {writer->Finish().value()};
  return CommitParts(directory, runtime->plan(), {}, {}, parts).value();
}

}  // namespace

Trained TrainAndSave(const SmallRun& run, const proto::Plan& plan) {
  const auto runtime = Started(run, plan);
  Trained trained{TrainOn(run, runtime.get()), {}};
  trained.variables = Save(runtime.get());
  return trained;
}

Trained TrainInTurns(const SmallRun& run, int64_t first, const proto::Plan& plan,
                     const proto::Plan& other) {
  const Chain tokens(run.model.vocab());
  const TemporaryDirectory directory;
  Trained trained;
  std::string folder;
  {
    const auto runtime = Started(run, plan);
    Check(runtime->Run("init", {.seed = run.seed}, 1));
    const RunContext context = ContextToTrain(run, plan, tokens, &trained.result);
    Check(runtime->Run("train", context, first));
    folder = SaveCheckpoint(directory.path(), runtime.get());
  }
  const auto runtime = Started(run, other);
  const auto reader = CheckpointReader::Open(folder).value();
  Check(reader->VerifyPieces(other, {}));
  RunContext load;
  load.load = [&](const Piece& piece) { return reader->Load(piece); };
  Check(runtime->Run("load", load, 1));
  RunContext context = ContextToTrain(run, other, tokens, &trained.result);
  context.first_step = first;
  Check(runtime->Run("train", context, run.steps - first));
  trained.variables = Save(runtime.get());
  return trained;
}

SecondResult TrainAfterFailure(const SmallRun& run, const proto::Plan& plan) {
  const auto runtime = Started(run, plan);
  SecondResult second;
  try {
    TrainOn(run, runtime.get());
  } catch (const std::runtime_error& error) {
    second.failure = error.what();
  }
  if (second.failure.empty()) throw std::logic_error("the first training did not fail");
  second.result = TrainOn(run, runtime.get());
  return second;
}

Given RunEveryProgram(const SmallRun& run) {
  const proto::Plan plan = CompileSmall(run);
  const auto runtime = Started(run, plan);
  const Chain tokens(run.model.vocab());
  const TemporaryDirectory directory;
  Check(BeginAttempt(directory.path(), 0));
  const auto writer = CheckpointWriter::Create(directory.path(), plan, {}, {}).value();
  std::unique_ptr<CheckpointReader> reader;
  RunContext zeros, eval, save, load;
  Given given;
  std::mutex mutex;
  std::string running;
  zeros.load = [](const Piece& piece) {
    std::fill_n(reinterpret_cast<int32_t*>(piece.data), piece.slice->elements(), 0);
    return absl::OkStatus();
  };
  zeros.save = [&](const Piece& piece) {
    const std::scoped_lock lock(mutex);
    std::vector<std::byte>& bytes = given.fetched[absl::StrCat(
        running, " ", *piece.name, piece.as_produced ? " as produced, " : ", ", piece.rank)];
    const auto size = static_cast<int64_t>(piece.slice->elements() * ElementBytes(piece.dtype));
    bytes.insert(bytes.end(), piece.data, piece.data + size);
    return absl::OkStatus();
  };
  eval.micro_batch_size = run.recipe.batch() / run.recipe.micro_batches();
  eval.tokens = &tokens;
  if (run.recipe.documents()) eval.end_of_text = 0;
  eval.report = [&](int64_t, std::span<const double> values) { given.losses.push_back(values[0]); };
  save.save = [&](const Piece& piece) { return writer->Write(piece); };
  load.load = [&](const Piece& piece) { return reader->Load(piece); };
  // All others, which are fed, get zeros.
  const std::map<std::string, const RunContext*> contexts = {
      {"eval", &eval}, {"save", &save}, {"load", &load}};
  const bool trains = plan.program(1).name() == "train";
  for (const proto::Program& program : plan.program()) {
    const std::string& name = program.name();
    if (name == "init" && trains) continue;  // comes with it
    running = name;
    if (name == "train") {
      TrainOn(run, runtime.get());
    } else if (name == "init") {
      Check(RunWatched(run, runtime.get(), name, {.seed = run.seed}, 1));
    } else {
      if (name == "load") {
        const std::vector<std::string> parts = {writer->Finish().value()};
        const std::string folder = CommitParts(directory.path(), plan, {}, {}, parts).value();
        reader = CheckpointReader::Open(folder).value();
        Check(reader->VerifyPieces(plan, {}));
      }
      Check(RunWatched(run, runtime.get(), name,
                       contexts.contains(name) ? *contexts.at(name) : zeros, 2));
    }
  }
  return given;
}

}  // namespace oneflow
