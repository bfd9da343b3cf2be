#include "tools/oneflow/prepare_training.h"

#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/print/plan_text.h"
#include "tools/oneflow/check_decay.h"
#include "tools/oneflow/flags.h"
#include "tools/oneflow/load.h"
#include "tools/oneflow/plan_facts.h"

namespace oneflow {
namespace {

// A number of steps, or of batches that are read as steps are.
absl::Status CheckSteps(const std::string& flag, int64_t steps) {
  if (steps >= 1 && steps <= TokenSource::kMost) return absl::OkStatus();
  return InputError(flag + std::to_string(steps), "is out of range",
                    "use at least 1 and at most " + std::to_string(TokenSource::kMost));
}

absl::StatusOr<TokenDataset> OpenData(const std::string& flag, const std::string& text,
                                      const ModelFacts& model) {
  if (text.empty()) return InputError("--" + flag, "is missing", "write --" + flag + "=text.txt");
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOfFlag(flag, text));
  return TokenDataset::Open(files, model.vocab, model.sequence);
}

// Training data, and validation data: --eval_data, or the last --eval_fraction of --data, or none.
absl::StatusOr<TokenSplit> OpenSplit(const ModelFacts& model) {
  ASSIGN_OR_RETURN(const TokenDataset data, OpenData("data", FLAGS_data, model));
  if (FLAGS_eval_data.empty()) return SplitTokens(data, FLAGS_eval_fraction, model.sequence);
  ASSIGN_OR_RETURN(const TokenDataset eval, OpenData("eval_data", FLAGS_eval_data, model));
  return TokenSplit{data, eval};
}

// A plan whose updates wait for no norm cannot clip by it.
absl::Status CheckClip(const proto::Plan& plan, const proto::Optimizer& optimizer) {
  if (!plan.train().no_global_norm() || optimizer.clip() == 0) return absl::OkStatus();
  return InputError("--clip", "the updates of this plan do not wait for the norm of the gradients",
                    "leave it out, or compile with --global_norm and a synchronous schedule");
}

}  // namespace

absl::Status CheckTrainFlags() {
  RETURN_IF_ERROR(CheckSteps("--steps=", FLAGS_steps));
  if (FLAGS_eval_every < 0 || FLAGS_checkpoint_every < 0) {
    return InputError("--eval_every, --checkpoint_every", "must not be negative");
  }
  if (FLAGS_checkpoint_every > 0 && FLAGS_checkpoint_dir.empty()) {
    return InputError("--checkpoint_every", "there is no folder to write to",
                      "add --checkpoint_dir=DIR");
  }
  if (FLAGS_keep < 0) return InputError("--keep", "must not be negative", "0 keeps all");
  if (FLAGS_keep > 0 && FLAGS_checkpoint_dir.empty()) {
    return InputError("--keep", "there are no checkpoints to keep", "add --checkpoint_dir=DIR");
  }
  if (!(FLAGS_stall_seconds >= 0)) return InputError("--stall_seconds", "must not be negative");
  RETURN_IF_ERROR(CheckSteps("--eval_batches=", FLAGS_eval_batches));
  if (FLAGS_eval_every > 0 && FLAGS_eval_data.empty() && FLAGS_eval_fraction == 0) {
    return InputError("--eval_every", "there is nothing to validate on",
                      "add --eval_data=FILE or --eval_fraction=0.1");
  }
  if (!FLAGS_eval_data.empty() && FLAGS_eval_fraction != 0) {
    return InputError("--eval_fraction", "cannot be given together with --eval_data");
  }
  if (FLAGS_eval_fraction < 0 || FLAGS_eval_fraction >= 1) {
    return InputError("--eval_fraction", "must be at least 0 and below 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<PreparedTraining> PrepareTraining(const Arguments& args, proto::Plan given) {
  ASSIGN_OR_RETURN(const ModelFacts model, FactsOfModel(given));
  ASSIGN_OR_RETURN(TokenSplit data, OpenSplit(model));
  PreparedTraining prepared{std::move(given), std::move(data), {}, {}};
  const proto::Plan& plan = prepared.plan;

  TrainLoopOptions& options = prepared.loop;
  options.seed = FLAGS_seed;
  options.steps = FLAGS_steps;
  options.tokens = prepared.data.train.size();
  options.eval_every = FLAGS_eval_every;
  options.eval_batches = FLAGS_eval_batches;
  options.checkpoint_every = FLAGS_checkpoint_every;
  options.checkpoint_dir = FLAGS_checkpoint_dir;
  options.keep = FLAGS_keep;
  ASSIGN_OR_RETURN(
      options.optimizer,
      OptimizerFromFlags(args, plan.train().has_optimizer() ? &plan.train().optimizer() : nullptr));
  RETURN_IF_ERROR(CheckDecay(args, options.optimizer));
  RETURN_IF_ERROR(CheckClip(plan, options.optimizer));

  MetricsOptions& log = prepared.log;
  log.path = FLAGS_metrics;
  log.json = FLAGS_format == "json";
  log.last_step = FLAGS_steps;
  log.tokens_a_step =
      static_cast<double>(plan.train().batch()) * static_cast<double>(model.sequence);
  log.flops_a_step = FlopsOfStep(plan);
  return prepared;
}

}  // namespace oneflow
