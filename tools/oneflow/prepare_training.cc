#include "tools/oneflow/prepare_training.h"

#include <cstdio>
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

absl::StatusOr<TokenDataset> OpenData(const std::string& flag, const std::string& text,
                                      const ModelFacts& model) {
  if (text.empty()) return InputError("--" + flag, "is missing", "write --" + flag + "=text.txt");
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOfFlag(flag, text));
  ASSIGN_OR_RETURN(TokenDataset data, TokenDataset::Open(files, model.vocab, model.sequence));
  for (const std::string& empty : data.EmptyFiles()) {
    std::fprintf(stderr, "oneflow: warning: --%s: %s is empty\n", flag.c_str(), empty.c_str());
  }
  return data;
}

// Training data, and validation data: --eval_data, or the last --eval_fraction of --data, or none.
absl::StatusOr<TokenSplit> OpenSplit(const ModelFacts& model) {
  ASSIGN_OR_RETURN(const TokenDataset data, OpenData("data", FLAGS_data, model));
  if (FLAGS_eval_data.empty()) return SplitTokens(data, FLAGS_eval_fraction, model.sequence);
  ASSIGN_OR_RETURN(const TokenDataset eval, OpenData("eval_data", FLAGS_eval_data, model));
  const TokenizerId trained = data.tokenizer(), evaluated = eval.tokenizer();
  if (trained.known() && evaluated.known() && !trained.SameAs(evaluated)) {
    return InputError(
        "--eval_data=" + FLAGS_eval_data,
        "was made with tokenizer " + evaluated.Text() + ", but --data with " + trained.Text(),
        "make both with one tokenizer");
  }
  return TokenSplit{data, eval};
}

// A plan whose updates wait for no norm cannot clip by it.
absl::Status CheckClip(const proto::Plan& plan, const proto::Optimizer& optimizer) {
  if (!plan.train().no_global_norm() || optimizer.clip() == 0) return absl::OkStatus();
  return InputError("--clip", "the updates of this plan do not wait for the norm of the gradients",
                    "leave it out, or compile with --global_norm and a synchronous schedule");
}

}  // namespace

absl::StatusOr<PreparedTraining> PrepareTraining(const Arguments& args, proto::Plan given) {
  ASSIGN_OR_RETURN(const ModelFacts model, FactsOfModel(given));
  ASSIGN_OR_RETURN(TokenSplit data, OpenSplit(model));
  PreparedTraining prepared{std::move(given), std::move(data), {}, {}};
  const proto::Plan& plan = prepared.plan;

  TrainLoopOptions& options = prepared.loop;
  options.seed = FLAGS_seed;
  options.steps = FLAGS_steps;
  options.tokens = prepared.data.train.size();
  options.tokenizer = prepared.data.train.tokenizer();
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
