#include "tools/oneflow/train/prepare_training.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/check_decay.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/load.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/train/train_flags.h"
#include "training/checkpoint/checkpoint.h"
#include "training/trainer/plan_facts.h"
#include "training/trainer/resume.h"

namespace oneflow {
namespace {

// A plan whose updates wait for no norm cannot clip by it.
absl::Status CheckClip(const proto::Plan& plan, const proto::Optimizer& optimizer) {
  if (plan.recipe().global_norm() || optimizer.clip() == 0) return absl::OkStatus();
  return InputError("--clip", "the updates of this plan do not wait for the norm of the gradients",
                    "leave it out, or compile with --global_norm and a synchronous schedule");
}

// A new run moves the checkpoints of its folder aside: not those that it begins with.
absl::Status CheckKeepsSource(const std::string& init_from) {
  std::error_code error;
  if (init_from.empty() || FLAGS_checkpoint_dir.empty()) return absl::OkStatus();
  const auto source = std::filesystem::canonical(init_from, error).parent_path();
  if (error || !std::filesystem::equivalent(source, FLAGS_checkpoint_dir, error) || error) {
    return absl::OkStatus();
  }
  return InputError("--checkpoint_dir=" + FLAGS_checkpoint_dir,
                    "holds the checkpoint of --init_from, and a new run moves those in its folder "
                    "aside",
                    "give another folder, or go on with that run by --resume");
}

}  // namespace

absl::StatusOr<PreparedTraining> PrepareTraining(const Arguments& args, proto::Plan given) {
  ASSIGN_OR_RETURN(ModelFacts model, FactsOfModel(given));
  std::string init_from;
  if (!FLAGS_init_from.empty()) {
    ASSIGN_OR_RETURN(init_from, FindStepFolder("--init_from", FLAGS_init_from, PrintNotice));
    ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(init_from));
    // Ids behind the vocabulary are padding: data must not have them.
    if (reader->notes().vocab > 0) model.vocab = std::min(model.vocab, reader->notes().vocab);
  }
  const std::string resumed = CheckpointOfResume();
  if (resumed.empty()) RETURN_IF_ERROR(CheckKeepsSource(init_from));
  ASSIGN_OR_RETURN(TrainingData data,
                   OpenTrainingData(args, model,
                                    {.checkpoint = resumed.empty() ? init_from : resumed,
                                     .documents = given.recipe().documents()}));
  if (!init_from.empty()) {
    ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(init_from));
    // That it is not checked is said when the run begins.
    RETURN_IF_ERROR(CheckTokenizer(init_from, reader->tokenizer(), "--data", data.tokenizer, {}));
  }
  PreparedTraining prepared{std::move(given), std::move(data), {}};
  const proto::Plan& plan = prepared.plan;

  TrainerOptions& options = prepared.options;
  options.seed = FLAGS_seed;
  options.steps = FLAGS_steps;
  options.eval_every = FLAGS_eval_every;
  options.eval_batches = FLAGS_eval_batches;
  options.checkpoint_every = FLAGS_checkpoint_every;
  options.checkpoint_dir = FLAGS_checkpoint_dir;
  options.keep = FLAGS_keep;
  options.init_from = init_from;
  ASSIGN_OR_RETURN(options.optimizer,
                   OptimizerFromFlags(args, plan.has_optimizer() ? &plan.optimizer() : nullptr));
  RETURN_IF_ERROR(CheckDecay(args, options.optimizer));
  RETURN_IF_ERROR(CheckClip(plan, options.optimizer));

  ASSIGN_OR_RETURN(options.resume, ResumeFromFlags());
  options.metrics = FLAGS_metrics;
  options.trace = FLAGS_trace;
  options.stall_seconds = FLAGS_stall_seconds;
  options.runtime.threads = FLAGS_threads;
  ASSIGN_OR_RETURN(options.runtime.isa, IsaFromFlags());
  ASSIGN_OR_RETURN(options.runtime.host_link, HostLinkFromFlags());
  options.runtime.synchronous = FLAGS_synchronous;
  return prepared;
}

}  // namespace oneflow
