// oneflow fit: does a model fit a cluster, how fast does it train, how far may it grow?
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "planning/fit/defaults.h"
#include "planning/fit/quantities.h"
#include "planning/search/plan_words.h"
#include "planning/simulate/simulate_on.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/named_graph.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/shell_word.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/explain/fit_answer.h"
#include "tools/oneflow/explain/fit_foreign.h"
#include "tools/oneflow/explain/fit_model.h"

namespace oneflow {
namespace {

// The budgets of models and clusters up to these, and of others, in seconds.
constexpr int64_t kLargeModel = 100'000'000'000, kManyDevices = 512;
constexpr double kSeconds = 20, kSecondsOfLarge = 60;
// Their parts: of a search that has found a plan, of one that has not, of limits, and of further
// plans behind them.
constexpr double kSearchPart = 0.4, kMostPart = 0.75, kLimitPart = 0.5, kMorePart = 1;

Arguments WithoutOwn(Arguments args) {
  std::erase_if(args.flags,
                [](const auto& flag) { return flag.first == "batch" || flag.first == "sequence"; });
  return args;
}

absl::StatusOr<DeviceGrid> GridFromFlags() {
  if (FLAGS_devices.empty()) {
    return InputError("--devices", "is missing", "write --devices=64, or 8x8 for 8 nodes of 8");
  }
  return ParseDeviceGrid(FLAGS_devices);
}

// The nodes of the cluster have as many devices as the grid says, or it is part of one.
absl::Status CheckGrid(const DeviceGrid& grid, const proto::Cluster& cluster) {
  if (grid.nodes == 0 || cluster.level().empty()) return absl::OkStatus();
  const int64_t node = cluster.level(0).size(), each = grid.devices / grid.nodes;
  if (node == 0 || each == node || (grid.nodes == 1 && each < node)) return absl::OkStatus();
  return InputError("--devices=" + FLAGS_devices,
                    absl::StrCat("the nodes of ", cluster.name(), " have ", node, " devices"),
                    absl::StrCat("write the number of devices, --devices=", grid.devices,
                                 ", or give a file of --cluster with nodes of ", each));
}

// Flags that compile takes as they were given, but for model, batch and what depends on them.
std::string OtherFlags(const Arguments& args, const proto::Recipe& recipe) {
  std::vector<std::string> words;
  for (const auto& [name, value] : args.flags) {
    const bool own =
        name == "format" || name == "threads" || name == "imbalance" || name == "approximate";
    if (own || FindFlag(verbs::kCompile, name) == nullptr) continue;
    words.push_back(ShellWord(absl::StrCat("--", name, "=", value)));
  }
  if (!args.Given("precision") && recipe.precision() == proto::BF16) {
    words.emplace_back("--precision=bf16");
  }
  if (!args.Given("device") && recipe.device() == proto::CUDA) words.emplace_back("--device=cuda");
  return absl::StrJoin(words, " ");
}

struct Asked {
  FitModel model;
  FitQuestion question;
  FitFrame frame;
};

// --batch, or the usual one.
absl::Status SetBatch(const std::string& given, Asked* asked) {
  FitFrame& frame = asked->frame;
  const int64_t sequence = std::max<int64_t>(1, frame.sequence);
  if (given.empty()) {
    frame.batch = FindUsualBatch(static_cast<double>(frame.parameters), sequence, frame.devices);
    frame.batch_note = "default batch: " + UsualBatchText(frame.batch, sequence);
  } else {
    ASSIGN_OR_RETURN(const BatchSize batch, ParseBatch(given));
    if (batch.tokens > 0 && batch.tokens < sequence) {
      return InputError("--batch=" + given,
                        absl::StrCat("is less than one sequence of ", sequence, " tokens"),
                        "give more, or shorter sequences with --sequence");
    }
    frame.batch =
        batch.sequences > 0 ? batch.sequences : RoundBatch(batch.tokens, sequence, frame.devices);
    if (batch.tokens > 0) frame.batch_note = UsualBatchText(frame.batch, sequence);
  }
  const Row& row = *FindRow(RecipeRows(), "batch");
  return SetField(row, absl::StrCat(frame.batch), &asked->question.spec.given.recipe);
}

absl::StatusOr<Asked> AskFromFlags(const Arguments& all) {
  Asked asked;
  const Arguments args = WithoutOwn(all);
  int64_t length = 0;
  if (const std::string given = all.First("sequence"); !given.empty()) {
    ASSIGN_OR_RETURN(length, ParseSequence(given));
  }
  ASSIGN_OR_RETURN(const DeviceGrid grid, GridFromFlags());
  if (FLAGS_cluster.empty()) {
    return InputError("--cluster",
                      "is missing: whether a model fits, and how fast it trains, depends on the "
                      "devices and their links",
                      "give --cluster=h100, or a file that `oneflow calibrate` writes");
  }
  ASSIGN_OR_RETURN(const proto::Model trained, TrainedFromFlags(args));
  ASSIGN_OR_RETURN(asked.model,
                   FindFitModel(args.positional[0], length, FLAGS_approximate, trained));
  SearchSpec& spec = asked.question.spec;
  spec.source = asked.model.source;
  spec.devices = grid.devices;
  for (const std::string& fix : args.Repeated("fix")) {
    RETURN_IF_ERROR(AddFixes("--fix=", fix, &spec.fixed));
  }
  ASSIGN_OR_RETURN(proto::Recipe recipe, RecipeFromFlags(args));
  ASSIGN_OR_RETURN(spec.given, RequestFromFlags(args, std::move(recipe)));
  const proto::Cluster& cluster = spec.given.cluster;
  RETURN_IF_ERROR(CheckGrid(grid, cluster));
  RETURN_IF_ERROR(CheckDevices(cluster, {{{"data", static_cast<int>(spec.devices)}}}));
  if (UsableBytes(cluster.device()) == 0) {
    return InputError("--memory", "is missing: without it everything fits",
                      "give the capacity of a device, as --memory=80GB");
  }
  RETURN_IF_ERROR(PriceQueues(args, spec.source.graph, &spec.given));
  const bool gpus = cluster.device().kind() == proto::Device::CUDA;
  if (!args.Given("device")) spec.given.recipe.set_device(gpus ? proto::CUDA : proto::CPU);
  if (!args.Given("precision")) spec.given.recipe.set_precision(gpus ? proto::BF16 : proto::F32);
  asked.question.with_sequence = asked.model.with_sequence;
  asked.frame = {.model = asked.model.name,
                 .cluster = cluster.name(),
                 .parameters = asked.model.parameters,
                 .devices = grid.devices,
                 .nodes = grid.nodes,
                 .capacity = UsableBytes(cluster.device()),
                 .kept = KeptBytes(cluster.device()),
                 .sequence = FindSequence(spec.source.graph),
                 .sequence_note = asked.model.sequence_note,
                 .precision = ChoiceText(spec.given.recipe, "precision")};
  RETURN_IF_ERROR(SetBatch(all.First("batch"), &asked));
  asked.frame.given_flags = [flags = asked.model.flags,
                             others = OtherFlags(args, spec.given.recipe)](int64_t batch,
                                                                           int64_t sequence) {
    return absl::StrCat(flags(sequence), " --batch=", batch, others.empty() ? "" : " ", others);
  };
  return asked;
}

absl::StatusOr<FitOptions> OptionsFromFlags(const Arguments& args, const FitFrame& frame) {
  const bool large = frame.parameters > kLargeModel || frame.devices > kManyDevices;
  double seconds = large ? kSecondsOfLarge : kSeconds;
  if (args.Given("budget_seconds")) seconds = FLAGS_budget_seconds;
  RETURN_IF_ERROR(CheckBudget(seconds));
  FitOptions options{.search_seconds = kSearchPart * seconds,
                     .most_seconds = kMostPart * seconds,
                     .limit_seconds = kLimitPart * seconds,
                     .more_seconds = kMorePart * seconds};
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(WithoutOwn(args)));
  options.threads = CountThreads(run);
  return options;
}

absl::Status AskFit(const Arguments& args) {
  if (!args.rest.empty() || NamesForeignFiles(args.positional)) return FitForeign(args);
  if (args.positional.size() != 1) {
    return InputError("oneflow fit",
                      args.positional.empty() ? "no model is given" : "several models are given",
                      "write one: a config.json or its folder, the name of a preset, or a graph: "
                      "`oneflow fit llama3.1-8b --devices=8x8 --cluster=h100`");
  }
  ASSIGN_OR_RETURN(const Asked asked, AskFromFlags(args));
  ASSIGN_OR_RETURN(const FitOptions options, OptionsFromFlags(args, asked.frame));
  return AnswerFit(asked.question, options, asked.frame, asked.model.differences);
}

}  // namespace

Verb FitVerb() {
  return {.id = verbs::kFit,
          .summary = "does a model fit a cluster, how fast does it train, how far may it grow",
          .examples =
              "oneflow fit llama-small --devices=2 --cluster=h100 --budget_seconds=3\n"
              "oneflow fit gpt.textproto --devices=1x4 --cluster=h100 --batch=16 "
              "--memory=1GB --reserve=0 --fix=context=1\n",
          .run = AskFit,
          .words = "MODEL",
          .takes_rest = true,
          .own_values = " batch sequence "};
}

}  // namespace oneflow
