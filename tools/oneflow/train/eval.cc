// oneflow eval: the loss of a checkpoint's model over files, each label once.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "tools/oneflow/cli/backend_flags.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/one_process.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/train/training_data.h"
#include "training/checkpoint/checkpoint.h"
#include "training/trainer/mean_loss.h"
#include "training/trainer/resume.h"
#include "training/trainer/runtime_options.h"
#include "training/trainer/training.h"
#include "training/trainer/weight_check.h"

namespace oneflow {
namespace {

constexpr char kLoss[] = "softmax_cross_entropy";

// Has the loss count its labels, so that padding is none. Returns the facts of the model. A loss
// that only acts through its gradient is none here.
absl::StatusOr<ModelFacts> CountLabels(proto::Graph* graph) {
  int losses = 0;
  for (proto::Op& op : *graph->mutable_op()) {
    const auto hidden = op.attr().find("gradient_only");
    if (op.kind() != kLoss || (hidden != op.attr().end() && hidden->second.b())) continue;
    ++losses;
    (*op.mutable_attr())["ignore_negative"].set_b(true);
  }
  if (losses != 1 || graph->loss().empty()) {
    return InputError("graph " + graph->name(), "has not one loss over labels",
                      "only models written by `oneflow model` (or alike) can be evaluated on text");
  }
  ASSIGN_OR_RETURN(Graph inferred, GraphFromProto(*graph, graph->name()));
  RETURN_IF_ERROR(CheckGraph(inferred));
  ModelFacts facts;
  for (const Op& op : inferred.ops) {
    Shape& shape = inferred.tensors[op.outputs[0]].shape;
    if (op.kind != "input") continue;
    std::replace(shape.dims.begin(), shape.dims.end(), int64_t{0}, int64_t{1});  // the batch
    if (AttrString(op, "source") == "tokens" && shape.rank() == 2) facts.sequence = shape.dims[1];
  }
  RETURN_IF_ERROR(InferShapes(&inferred));
  for (const Op& op : inferred.ops) {
    if (op.kind == kLoss) facts.vocab = inferred.tensors[op.inputs[0]].shape.dims.back();
  }
  if (facts.sequence > 0) return facts;
  return InputError("graph " + graph->name(), "reads no tokens",
                    "only models written by `oneflow model` (or alike) can be evaluated on text");
}

struct Result {
  std::string file;
  MeanLoss loss;
};

// A line of a loss and of its perplexity; and {"loss", "perplexity", "labels"} added to `json`.
std::string Describe(const std::string& name, const MeanLoss& loss, nlohmann::ordered_json* json) {
  std::string text = name + ": ";
  const std::optional<double> value = loss.value();
  const auto add = [&](const char* what, std::optional<double> number) {
    (*json)[what] = number && std::isfinite(*number) ? nlohmann::ordered_json(*number) : nullptr;
    absl::StrAppend(&text, what, " ", number ? NumberText(*number) : "none", ", ");
  };
  add("loss", value);
  add("perplexity", value ? std::optional(std::exp(*value)) : std::nullopt);
  (*json)["labels"] = static_cast<int64_t>(loss.labels());
  return absl::StrCat(text, static_cast<int64_t>(loss.labels()), " labels\n");
}

absl::Status PrintLosses(const std::string& checkpoint, int64_t step,
                         const std::vector<Result>& results) {
  MeanLoss total;
  for (const Result& result : results) total.Add(result.loss);
  nlohmann::ordered_json json = {{"checkpoint", checkpoint}, {"step", step}};
  const std::string all = Describe(absl::StrCat("all ", results.size(), " files"), total, &json);
  std::string text;
  for (const Result& result : results) {
    nlohmann::ordered_json file = {{"file", result.file}};
    text += Describe(result.file, result.loss, &file);
    json["files"].push_back(std::move(file));
  }
  return Print(results.size() > 1 ? text + all : text, json);
}

// The loss over the first --eval_batches micro-batches of a file, or all of it.
absl::StatusOr<MeanLoss> EvaluateFile(Runtime& runtime, const ModelFacts& facts,
                                      const TokenDataset& file,
                                      const std::optional<RecordSet>& records, int32_t end_of_text,
                                      std::optional<int64_t> most) {
  const int64_t size = FindProgram(runtime.plan(), "eval")->micro_batch_size();
  const auto tokens = records ? records->Pass(size) : file.Pass(size);
  const int64_t windows = records ? records->size() : file.Windows(facts.sequence);
  MeanLoss loss;
  RunContext context;
  context.micro_batch_size = size;
  context.tokens = tokens.get();
  context.end_of_text = records ? -1 : end_of_text;
  context.marks_documents = records.has_value();
  context.report = [&](int64_t, std::span<const double> values) { loss.Add(values); };
  const int64_t all = (windows + size - 1) / size;
  RETURN_IF_ERROR(runtime.Run("eval", context, most ? std::min(*most, all) : all));
  return loss;
}

absl::Status CheckLoss(const MeanLoss& loss, const WeightCheck& weights) {
  if (!loss.value() || std::isfinite(*loss.value())) return absl::OkStatus();
  const std::string found = weights.Found();
  return InputError(
      "--checkpoint=" + FLAGS_checkpoint,
      "its weights give a loss that is not finite" + (found.empty() ? "" : ": " + found),
      "use another checkpoint");
}

// What acts with --chat alone. Other needs of rows are those of training.
absl::Status CheckChat(const proto::Run& run) {
  if (run.chat() || !(run.has_loss_on() || run.has_chat_template())) return absl::OkStatus();
  return InputError(run.has_loss_on() ? "--loss_on" : "--chat_template", "acts only with --chat",
                    "add --chat, or leave it out");
}

absl::Status Evaluate(const Arguments& args) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  RETURN_IF_ERROR(CheckChat(run));
  ASSIGN_OR_RETURN(const bool works, WorksAlone("eval", run));
  if (!works) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string folder,
                   FindStepFolder("--checkpoint", FLAGS_checkpoint, PrintNotice));
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(folder, {.base = run.base()}));
  proto::Graph graph = reader->graph();
  ASSIGN_OR_RETURN(ModelFacts facts, CountLabels(&graph));
  // Ids behind the vocabulary are padding: data must not have them.
  if (const int64_t vocab = reader->notes().vocab; vocab > 0 && vocab < facts.vocab) {
    PrintNotice(absl::StrCat("warning: the vocabulary of ", vocab, " is padded to ", facts.vocab,
                             ", and the loss is one over all of these: larger than the model's; "
                             "import it without --pad_vocab to evaluate it"));
    facts.vocab = vocab;
  }
  ASSIGN_OR_RETURN(const proto::Recipe recipe, RecipeFromFlags(args));
  const bool documents = recipe.has_documents() ? recipe.documents() : reader->recipe().documents();
  ASSIGN_OR_RETURN(const EvaluationData data,
                   OpenEvaluationData(run, facts, {.checkpoint = folder, .documents = documents}));
  RETURN_IF_ERROR(
      CheckTokenizer(folder, reader->tokenizer(), "--data", data.tokenizer, PrintNotice));
  ASSIGN_OR_RETURN(const proto::Plan plan, CompileToEvaluate(args, graph, documents));
  RETURN_IF_ERROR(reader->CheckVariables(plan));

  RuntimeOptions options;
  options.notice = PrintNotice;
  RETURN_IF_ERROR(SetRuntimeOptions(run, &options));
  SoleProcess alone;
  alone.Configure(&options);
  ASSIGN_OR_RETURN(const std::optional<GpuBackend> gpus, OpenGpus(run, plan, alone));
  if (gpus) options.backend = &gpus->devices;
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(plan, options));
  WeightCheck weights;
  RunContext context;
  context.load = [&](const Piece& piece) -> absl::Status {
    RETURN_IF_ERROR(reader->Load(piece));
    weights.Look(piece);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(runtime->Run("load", context, 1));

  std::optional<int64_t> most;
  if (run.has_eval_batches()) most = run.eval_batches();
  std::vector<Result> results;
  for (size_t i = 0; i < data.files.size(); ++i) {
    ASSIGN_OR_RETURN(const MeanLoss loss, EvaluateFile(*runtime, facts, data.files[i],
                                                       data.records[i], data.end_of_text, most));
    RETURN_IF_ERROR(CheckLoss(loss, weights));
    if (!loss.value()) {
      PrintNotice(absl::StrCat("warning: no label of ", data.names[i],
                               " counts, so it has no loss: ",
                               WhyNoLabels("--data=" + data.names[i], data.end_of_text)));
    }
    results.push_back({data.names[i], loss});
  }
  return PrintLosses(folder, reader->step(), results);
}

}  // namespace

Verb EvalVerb() {
  return {verbs::kEval, "the loss and the perplexity of a checkpoint's model on files",
          "oneflow eval --checkpoint=run/ckpt --data=text.txt\n"
          "oneflow eval --checkpoint=run/ckpt --data=text.txt --batch=16 --eval_batches=4 "
          "--format=json\n",
          Evaluate};
}

}  // namespace oneflow
