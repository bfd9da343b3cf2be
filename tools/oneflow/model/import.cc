// oneflow import: makes a checkpoint of a Hugging Face folder.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/model/model_plan.h"
#include "training/checkpoint/checkpoint.h"
#include "training/hugging_face/beside_weights.h"
#include "training/hugging_face/copy_slice.h"
#include "training/hugging_face/find_model.h"
#include "training/hugging_face/model_config.h"
#include "training/hugging_face/model_folder.h"
#include "training/hugging_face/model_graph.h"
#include "training/hugging_face/named_model.h"
#include "training/tokenizer/tokenizer.h"
#include "training/tokenizer/tokenizer_files.h"
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

// The element type of the files: that of most elements.
std::string FindType(const std::vector<MappedVariable>& variables) {
  int64_t elements[3] = {};
  for (const MappedVariable& variable : variables) {
    for (const MappedPart& part : variable.parts) {
      elements[static_cast<size_t>(*part.tensor->type)] += Product(part.tensor->dims);
    }
  }
  const auto* const most = std::max_element(std::begin(elements), std::end(elements));
  return std::string(Name(static_cast<FileType>(most - elements)));
}

ModelNotes MakeNotes(const HuggingFaceConfig& config,
                     const std::vector<MappedVariable>& variables) {
  ModelNotes notes = {.model_type = config.model_type,
                      .dtype = FindType(variables),
                      .vocab = config.model.vocab(),
                      .positions = config.model.sequence(),
                      .end_ids = config.end_ids,
                      .begin_id = config.begin_id};
  const FamilyFiles& files = FindFiles(config);
  for (const MappedVariable& variable : variables) {
    int64_t block = -1;
    FindParts(files, variable.name, &block);
    for (const MappedPart& part : variable.parts) {
      const std::string type(Name(*part.tensor->type));
      if (type == notes.dtype) continue;
      notes.dtypes[FileName(files, TensorName(part.part, block))] = type;
    }
  }
  return notes;
}

// Values that are not finite are imported as they are, and reported.
absl::Status CheckFinitePart(const MappedPart& part) {
  const FileTensor& tensor = *part.tensor;
  const int64_t elements = Product(tensor.dims);
  std::vector<float> values(std::min(elements, kSliceElements));
  int64_t infinite = 0, nans = 0;
  for (int64_t first = 0; first < elements; first += kSliceElements) {
    const auto chunk = std::span(values).first(std::min(elements - first, kSliceElements));
    RETURN_IF_ERROR(part.file->Read(tensor, first, chunk));
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

absl::StatusOr<TokenizerFiles> ReadTokenizer(const std::string& spec) {
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(spec));
  return ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops, tokenizer.config);
}

// The tokenizer of the folder, after whose stops or `ends` a text ends; null if there is none. One
// that cannot be used is reported, because the weights are of use without it.
std::shared_ptr<const TokenizerFiles> FindTokenizer(const std::string& dir,
                                                    const std::vector<int64_t>& ends) {
  const std::string spec = TokenizerSpecIn(dir);
  if (spec.empty()) return nullptr;
  absl::StatusOr<TokenizerFiles> files = ReadTokenizer(spec);
  if (!files.ok()) {
    std::fprintf(stderr, "oneflow: warning: the checkpoint has no tokenizer: %s\n",
                 std::string(files.status().message()).c_str());
    return nullptr;
  }
  for (const int64_t end : ends) {
    const auto id = static_cast<int32_t>(end);
    std::vector<int32_t>& stops = files->stops;
    if (std::find(stops.begin(), stops.end(), id) == stops.end()) stops.push_back(id);
  }
  return std::make_shared<const TokenizerFiles>(*std::move(files));
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

absl::Status Import(const Arguments& args) {
  if (FLAGS_from.empty()) return InputError("--from", "is missing", "write --from=models/gpt2");
  if (FLAGS_out.empty()) return InputError("--out", "is missing", "write --out=run/gpt2");
  RETURN_IF_ERROR(CheckNew(FLAGS_out));
  ASSIGN_OR_RETURN(const std::string from, FindModel(FLAGS_from));
  if (from != FLAGS_from) PrintNotice(FLAGS_from + ": its snapshot is " + from);
  const absl::StatusOr<HuggingFaceConfig> read = ReadHuggingFaceConfig(from);
  if (!read.ok()) return WithDifferences(read.status(), from);
  const HuggingFaceConfig& config = *read;
  ASSIGN_OR_RETURN(const int64_t vocab, PaddedVocab(args, config.model.vocab()));
  proto::Model said;
  RETURN_IF_ERROR(SetGiven(ModelRows(), args, &said));
  const ModelGraphOptions options = {.sequence = said.sequence(), .vocab = vocab};
  ASSIGN_OR_RETURN(const proto::Graph graph, BuildModelGraph(config, options));
  ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Open(from));
  ASSIGN_OR_RETURN(const std::vector<MappedVariable> variables,
                   MapVariables(folder, FindFiles(config), ListVariables(graph),
                                config.model.vocab(), config.model.tied()));
  const ModelNotes notes = MakeNotes(config, variables);
  ASSIGN_OR_RETURN(BesideWeights beside, ReadBesideWeights(folder));
  CheckpointInfo info;
  info.notes = notes;
  info.model_files = std::make_shared<const ModelFiles>(std::move(beside.files));
  info.tokenizer_files = FindTokenizer(from, config.end_ids);
  if (info.tokenizer_files != nullptr) info.tokenizer = info.tokenizer_files->id;
  ASSIGN_OR_RETURN(const std::string checkpoint,
                   WriteCheckpoint(FLAGS_out, graph, variables, info));
  if (!beside.left.empty()) {
    PrintNotice(absl::StrCat("not imported from ", from, ": ", absl::StrJoin(beside.left, ", ")));
  }
  int64_t parameters = 0;
  for (const MappedVariable& variable : variables) parameters += Product(variable.dims);
  const std::string padded =
      vocab > config.model.vocab() ? absl::StrCat(", padded to ", vocab) : "";
  return Print(
      absl::StrCat(checkpoint, ": ", config.model_type, ", ", parameters, " parameters, from ",
                   notes.dtype, "; vocabulary ", config.model.vocab(), padded, "\n"),
      {{"checkpoint", checkpoint},
       {"model_type", config.model_type},
       {"parameters", parameters},
       {"dtype", notes.dtype},
       {"vocab", config.model.vocab()},
       {"rows", vocab}});
}

}  // namespace

Verb ImportVerb() {
  return {verbs::kImport, "make a checkpoint of a Hugging Face folder",
          "oneflow import --from=models/gpt2 --out=run/gpt2\n"
          "oneflow import --from=models/llama --sequence=4096 --pad_vocab=128512 --out=run/llama\n",
          Import};
}

}  // namespace oneflow
