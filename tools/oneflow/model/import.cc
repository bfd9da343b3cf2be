// oneflow import: makes a checkpoint of a Hugging Face folder.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/model/model_plan.h"
#include "tools/oneflow/model/open_adapter.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/model_weights.h"
#include "training/hugging_face/copy_slice.h"
#include "training/hugging_face/find_model.h"
#include "training/hugging_face/model_config.h"
#include "training/hugging_face/model_folder.h"
#include "training/hugging_face/model_graph.h"
#include "training/hugging_face/named_model.h"
#include "training/trainer/folder_lock.h"

namespace oneflow {
namespace {

// Rows of the embedding: --pad_vocab, where it is given.
absl::StatusOr<int64_t> PaddedVocab(const Arguments& args, int64_t vocab) {
  if (!args.Given("pad_vocab")) return vocab;
  if (FLAGS_pad_vocab >= vocab) return FLAGS_pad_vocab;
  return InputError(absl::StrCat("--pad_vocab=", FLAGS_pad_vocab),
                    absl::StrCat("is less than the ", vocab, " tokens of the model"),
                    "use more, e.g. the next multiple of 128, or leave it out");
}

absl::Status CheckNew(const std::string& dir) {
  if (!LatestCheckpoint(dir).ok()) return absl::OkStatus();
  return InputError("--out=" + dir, "holds checkpoints already", "name a new folder");
}

// Values that are not finite are imported as they are, and reported.
absl::Status CheckFinitePart(const MappedPart& part) {
  const FileTensor& tensor = *part.tensor;
  const int64_t elements = CountElements(part);
  std::vector<float> values(std::min(elements, kSliceElements));
  int64_t infinite = 0, nans = 0;
  for (int64_t first = 0; first < elements; first += kSliceElements) {
    const auto chunk = std::span(values).first(std::min(elements - first, kSliceElements));
    RETURN_IF_ERROR(ReadPart(part, first, /*step=*/1, chunk));
    for (const float value : chunk) {
      infinite += std::isinf(value) ? 1 : 0;
      nans += std::isnan(value) ? 1 : 0;
    }
  }
  if (infinite + nans == 0) return absl::OkStatus();
  PrintNotice(absl::StrCat("warning: ", part.file->path(), ": tensor ", tensor.name, " has ",
                           infinite, " infinite values and ", nans, " NaNs among ", elements));
  return absl::OkStatus();
}

absl::Status ImportVariable(const MappedVariable& variable, CheckpointWriter& writer,
                            std::vector<float>& values) {
  bool finite = true;
  for (const Slice& slice : SplitTensor(variable.dims, kSliceElements)) {
    values.resize(slice.elements());
    RETURN_IF_ERROR(ReadSlice(variable, slice, values));
    Piece piece;
    piece.name = &variable.name;
    piece.dims = &variable.dims;
    piece.slice = &slice;
    piece.data = reinterpret_cast<std::byte*>(values.data());
    RETURN_IF_ERROR(writer.Write(piece));
    finite = finite && std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
  }
  if (finite) return absl::OkStatus();
  for (const MappedPart& part : variable.parts) RETURN_IF_ERROR(CheckFinitePart(part));
  return absl::OkStatus();
}

// Writes the checkpoint; returns its folder.
absl::StatusOr<std::string> WriteCheckpoint(const std::string& dir, const proto::Graph& graph,
                                            const std::vector<MappedVariable>& variables,
                                            const CheckpointInfo& info) {
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(dir, PrintNotice));
  const proto::Plan plan = MakeModelPlan(graph);
  RETURN_IF_ERROR(BeginAttempt(dir, /*attempt=*/0));
  ASSIGN_OR_RETURN(const auto writer, CheckpointWriter::Create(dir, plan, info, {}));
  std::vector<float> values;
  for (const MappedVariable& variable : variables) {
    RETURN_IF_ERROR(ImportVariable(variable, *writer, values));
  }
  ASSIGN_OR_RETURN(const std::string part, writer->Finish());
  ASSIGN_OR_RETURN(std::string folder, CommitParts(dir, plan, info, {}, {&part, 1}));
  EndAttempt(dir, /*attempt=*/0);
  return folder;
}

// The refusal of a configuration, with every way in which its model differs from what can be built.
absl::Status WithDifferences(const absl::Status& refused, const std::string& folder) {
  const absl::Status all = FindNamedModel(folder).status();
  if (all.ok() || all.message() == refused.message()) return refused;
  return WithMessage(refused, absl::StrCat(refused.message(), "\n", all.message()));
}

// A checkpoint of an adapter of PEFT, which names its base.
absl::Status ImportAdapter(const Arguments& args) {
  if (args.Given("pad_vocab") || args.Given("sequence")) {
    return InputError(args.Given("sequence") ? "--sequence" : "--pad_vocab", "is not of an adapter",
                      "leave it out: `train` takes --sequence");
  }
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  ASSIGN_OR_RETURN(const AdapterModel model, OpenAdapter(FLAGS_from, run.base()));
  CheckpointInfo info;
  info.notes = model.base->notes();
  info.model_files = model.base->model_files();
  info.tokenizer_files = model.base->tokenizer_files();
  info.tokenizer = model.base->tokenizer();
  ASSIGN_OR_RETURN(const std::string checkpoint,
                   WriteCheckpoint(FLAGS_out, model.graph, model.variables, info));
  int64_t parameters = 0;
  for (const MappedVariable& variable : model.variables) parameters += Product(variable.dims);
  const std::string& type = info.notes.model_type;
  return Print(absl::StrCat(checkpoint, ": adapter of rank ", model.graph.lora().rank(), " of ",
                            type, ", ", parameters, " parameters, from ", info.notes.dtype,
                            "; its base is ", model.graph.base().path(), "\n"),
               {{"checkpoint", checkpoint},
                {"model_type", type},
                {"parameters", parameters},
                {"dtype", info.notes.dtype},
                {"vocab", info.notes.vocab},
                {"rows", info.notes.vocab}});
}

absl::Status Import(const Arguments& args) {
  if (FLAGS_from.empty()) return InputError("--from", "is missing", "write --from=models/gpt2");
  if (FLAGS_out.empty()) return InputError("--out", "is missing", "write --out=run/gpt2");
  RETURN_IF_ERROR(CheckNew(FLAGS_out));
  if (IsAdapterFolder(FLAGS_from)) return ImportAdapter(args);
  if (args.Given("base")) {
    return InputError("--base", "acts on nothing: " + FLAGS_from + " is no adapter",
                      "leave it out");
  }
  ASSIGN_OR_RETURN(const std::string from, FindModel(FLAGS_from));
  if (from != FLAGS_from) PrintNotice(FLAGS_from + ": its snapshot is " + from);
  const absl::StatusOr<HuggingFaceConfig> read = ReadHuggingFaceConfig(from);
  if (!read.ok()) return WithDifferences(read.status(), from);
  proto::Model said;
  RETURN_IF_ERROR(SetGiven(ModelRows(), args, &said));
  ASSIGN_OR_RETURN(const auto weights, ModelWeights::Open(from));
  const ModelNotes& notes = weights->notes();
  ASSIGN_OR_RETURN(const int64_t vocab, PaddedVocab(args, notes.vocab));
  const ModelGraphOptions options = {.sequence = said.sequence(), .vocab = vocab};
  std::string note;
  ASSIGN_OR_RETURN(
      const HuggingFaceConfig config,
      ChooseNextTokens(weights->config(), said, weights->no_next_tokens(), from, &note));
  if (!note.empty()) PrintNotice(note);
  ASSIGN_OR_RETURN(const proto::Graph graph, BuildModelGraph(config, options));
  std::vector<MappedVariable> variables;
  for (const WantedVariable& wanted : ListVariables(graph)) {
    ASSIGN_OR_RETURN(MappedVariable variable, weights->Find(wanted.name, wanted.dims));
    variables.push_back(std::move(variable));
  }
  CheckpointInfo info;
  info.notes = notes;
  info.model_files = weights->model_files();
  // The weights are of use without it.
  if (!weights->no_tokenizer().empty()) {
    PrintNotice(
        absl::StrFormat("warning: the checkpoint has no tokenizer: %s", weights->no_tokenizer()));
  }
  info.tokenizer_files = weights->tokenizer_files();
  info.tokenizer = weights->tokenizer();
  ASSIGN_OR_RETURN(const std::string checkpoint,
                   WriteCheckpoint(FLAGS_out, graph, variables, info));
  if (!weights->left().empty()) {
    PrintNotice(
        absl::StrCat("not imported from ", from, ": ", absl::StrJoin(weights->left(), ", ")));
  }
  if (const size_t packed = CountMxfp4(variables); packed > 0) {
    PrintNotice(absl::StrCat("dequantised from MXFP4 to bf16, in which `export` writes them: ",
                             packed, packed == 1 ? " tensor" : " tensors"));
  }
  int64_t parameters = 0;
  for (const MappedVariable& variable : variables) parameters += Product(variable.dims);
  const std::string padded = vocab > notes.vocab ? absl::StrCat(", padded to ", vocab) : "";
  return Print(
      absl::StrCat(checkpoint, ": ", notes.model_type, ", ", parameters, " parameters, from ",
                   notes.dtype, "; vocabulary ", notes.vocab, padded, "\n"),
      {{"checkpoint", checkpoint},
       {"model_type", notes.model_type},
       {"parameters", parameters},
       {"dtype", notes.dtype},
       {"vocab", notes.vocab},
       {"rows", vocab}});
}

}  // namespace

Verb ImportVerb() {
  return {verbs::kImport, "make a checkpoint of a Hugging Face folder, or of an adapter of PEFT",
          "oneflow import --from=models/gpt2 --out=run/gpt2\n"
          "oneflow import --from=models/llama --sequence=4096 --pad_vocab=128512 --out=run/llama\n"
          "oneflow import --from=adapters/chat --base=models/llama --out=run/chat\n",
          Import};
}

}  // namespace oneflow
