// oneflow export: makes a Hugging Face folder of a checkpoint.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/model/adapter_weights.h"
#include "tools/oneflow/model/model_plan.h"
#include "tools/oneflow/model/new_folder.h"
#include "training/checkpoint/checkpoint.h"
#include "training/files/durable.h"
#include "training/hugging_face/beside_weights.h"
#include "training/hugging_face/copy_slice.h"
#include "training/hugging_face/model_config.h"
#include "training/hugging_face/model_graph.h"
#include "training/hugging_face/safetensors.h"
#include "training/hugging_face/update_config.h"
#include "training/tokenizer/tokenizer_files.h"
#include "training/trainer/resume.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "config.json", kTokenizerConfig[] = "tokenizer_config.json";

// The configuration of the graph, which has no adapters, with what the notes of an imported model
// add.
absl::StatusOr<HuggingFaceConfig> DescribeCheckpoint(const CheckpointReader& reader,
                                                     const proto::Graph& graph,
                                                     const std::string& where) {
  const ModelNotes& notes = reader.notes();
  absl::StatusOr<HuggingFaceConfig> described = DescribeModelGraph(graph, notes.model_type);
  if (!described.ok()) return Annotate(described.status(), where);
  HuggingFaceConfig config = *std::move(described);
  if (notes.vocab > config.model.vocab()) {
    return InputError(where,
                      absl::StrCat("its notes have ", notes.vocab, " tokens, and its graph ",
                                   config.model.vocab()),
                      "use another checkpoint");
  }
  if (notes.vocab > 0) config.model.set_vocab(notes.vocab);
  if (notes.positions > 0) config.model.set_sequence(notes.positions);
  // A mistral without a window computes the same as a llama, and any heads may be its own: releases
  // 5 of transformers refuse a llama whose heads do not divide its width.
  const bool divides = config.model.hidden() % config.model.heads() == 0;
  if (config.model_type == "llama" && notes.model_type.empty() && !divides) {
    config.model_type = "mistral";
  }
  config.end_ids = notes.end_ids;
  config.begin_id = notes.begin_id;
  return config;
}

// One file to write.
struct Shard {
  std::string name;
  std::vector<FileTensor> tensors;
  int64_t bytes = 0;
};

// Where part `part` of variable `variable` is written: to tensor `index` of a shard.
struct PlannedPart {
  size_t variable = 0, part = 0;
  size_t shard = 0, index = 0;
};

struct ExportPlan {
  std::vector<MappedVariable> variables;
  std::vector<Shard> shards;
  std::vector<PlannedPart> parts;
  size_t tensors = 0;
  int64_t bytes = 0;
  bool no_next_tokens = false;  // the block that predicts them is left out
};

// The types of tensors.
struct ExportTypes {
  FileType most = FileType::kF32;          // of those that `others` does not name
  std::map<std::string, FileType> others;  // by the name of the tensor

  FileType Find(const std::string& tensor) const {
    const auto it = others.find(tensor);
    return it == others.end() ? most : it->second;
  }
};

// Tensors in the order of the graph; a shard ends before it has more than `shard_bytes`.
absl::StatusOr<ExportPlan> PlanExport(const proto::Graph& graph, const HuggingFaceConfig& config,
                                      const ExportTypes& types, int64_t shard_bytes) {
  const FamilyFiles files = FindFiles(config);
  ExportPlan plan;
  std::map<std::string, PlannedPart> planned;  // by the name of the tensor: parts may share one
  for (const WantedVariable& wanted : ListVariables(graph)) {
    int64_t block = -1;
    const VariableParts* const row = FindParts(files, wanted.name, &block);
    if (row == nullptr && wanted.name.starts_with(kNextTokens)) {
      plan.no_next_tokens = true;
      continue;
    }
    if (row == nullptr) {
      return InputError("variable " + wanted.name, "has no tensors in files of this family");
    }
    MappedVariable variable = {
        .name = wanted.name, .dims = wanted.dims, .vocab = config.model.vocab()};
    for (const FilePart& part : ListParts(*row, wanted.dims)) {
      const std::string name = FileName(files, TensorName(part, block));
      PlannedPart at = {plan.variables.size(), variable.parts.size()};
      variable.parts.push_back({.part = part});
      if (const auto it = planned.find(name); it != planned.end()) {
        at.shard = it->second.shard, at.index = it->second.index;
        plan.parts.push_back(at);
        continue;
      }
      const FileType type = types.Find(name);
      FileTensor tensor = {
          .name = name, .type = type, .dims = TensorDims(part, wanted.dims, config.model.vocab())};
      const int64_t bytes = Product(tensor.dims) * ElementBytes(type);
      if (plan.shards.empty() || plan.shards.back().bytes + bytes > shard_bytes) {
        if (plan.shards.empty() || !plan.shards.back().tensors.empty()) plan.shards.emplace_back();
      }
      Shard& shard = plan.shards.back();
      at.shard = plan.shards.size() - 1, at.index = shard.tensors.size();
      plan.parts.push_back(at);
      planned[name] = at;
      shard.tensors.push_back(std::move(tensor));
      shard.bytes += bytes;
      plan.bytes += bytes;
    }
    plan.variables.push_back(std::move(variable));
  }
  plan.tensors = planned.size();
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    plan.shards[i].name =
        plan.shards.size() == 1
            ? "model.safetensors"
            : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, plan.shards.size());
  }
  return plan;
}

absl::Status WriteIndex(const std::string& dir, const ExportPlan& plan) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (const Shard& shard : plan.shards) {
    for (const FileTensor& tensor : shard.tensors) map[tensor.name] = shard.name;
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", plan.bytes}}},
                                        {"weight_map", std::move(map)}};
  return WriteDurably(dir + "/model.safetensors.index.json", JsonText(index, 2) + "\n");
}

// Adapters are added to the weights that they adapt.
absl::Status CopyVariable(const MappedVariable& variable, const CheckpointReader& reader,
                          const AdaptersByWeight& adapters, std::vector<float>& values) {
  std::vector<LoadedAdapter> added;
  const auto [first, last] = adapters.equal_range(variable.name);
  for (auto it = first; it != last; ++it) {
    ASSIGN_OR_RETURN(LoadedAdapter loaded, LoadAdapter(reader, it->second, variable.dims));
    added.push_back(std::move(loaded));
  }
  for (const Slice& slice : SplitTensor(variable.dims, kSliceElements)) {
    RETURN_IF_ERROR(LoadSlice(reader, variable, slice, values));
    for (const LoadedAdapter& adapter : added) AddProduct(adapter, slice, values);
    RETURN_IF_ERROR(Annotate(WriteSlice(variable, slice, values), "variable " + variable.name));
  }
  return absl::OkStatus();
}

// Writes the files that the imported folder had beside its weights; for another model, a
// configuration.
absl::Status WriteBesideWeights(const std::string& dir, const CheckpointReader& reader,
                                const HuggingFaceConfig& config) {
  const TokenizerFiles* const tokenizer = reader.tokenizer_files().get();
  const ModelFiles none, &files = reader.model_files() == nullptr ? none : *reader.model_files();
  // The run may have had another tokenizer than the imported folder. The checkpoint's configuration
  // of one may say more than the folder's, which has it in other files.
  const auto is_of_model = [&](const TokenizerFiles::File& of_run) {
    return of_run.name == kTokenizerConfig ||
           std::ranges::any_of(files, [&](const ModelFile& file) {
             return file.name == of_run.name && file.bytes == of_run.bytes;
           });
  };
  const bool other = tokenizer != nullptr && !std::ranges::all_of(tokenizer->files, is_of_model);
  if (other) RETURN_IF_ERROR(WriteTokenizerFiles(*tokenizer, dir));
  bool has_config = false;
  for (const ModelFile& file : files) {
    const auto has_name = [&](const auto& of_run) { return of_run.name == file.name; };
    if (other && (IsVocabulary(file.name) || std::ranges::any_of(tokenizer->files, has_name))) {
      continue;
    }
    const std::string path = dir + "/" + file.name;
    RETURN_IF_ERROR(CreateFolders(fs::path(path).parent_path()));
    const bool is_config = file.name == kConfig;
    has_config = has_config || is_config;
    RETURN_IF_ERROR(WriteDurably(
        path, is_config ? UpdateConfigText(file.bytes, config, !FLAGS_dtype.empty()) : file.bytes));
  }
  if (has_config) return absl::OkStatus();
  RETURN_IF_ERROR(WriteDurably(dir + "/" + kConfig, ConfigText(config)));
  return WriteDurably(dir + "/generation_config.json", GenerationConfigText(config));
}

absl::Status WriteModel(const std::string& dir, const CheckpointReader& reader,
                        const HuggingFaceConfig& config, const AdaptersByWeight& adapters,
                        ExportPlan& plan) {
  std::deque<SafetensorsWriter> writers;  // parts point to them
  for (const Shard& shard : plan.shards) {
    ASSIGN_OR_RETURN(
        SafetensorsWriter writer,
        SafetensorsWriter::Create(dir + "/" + shard.name, {{"format", "pt"}}, shard.tensors));
    writers.push_back(std::move(writer));
  }
  for (const PlannedPart& planned : plan.parts) {
    MappedPart& part = plan.variables[planned.variable].parts[planned.part];
    part.writer = &writers[planned.shard];
    part.index = planned.index;
  }
  std::vector<float> values;
  for (const MappedVariable& variable : plan.variables) {
    RETURN_IF_ERROR(CopyVariable(variable, reader, adapters, values));
  }
  for (SafetensorsWriter& writer : writers) RETURN_IF_ERROR(writer.Finish());
  if (plan.shards.size() > 1) RETURN_IF_ERROR(WriteIndex(dir, plan));
  return WriteBesideWeights(dir, reader, config);
}

// The types of the imported files, or f32.
absl::StatusOr<ExportTypes> ImportedTypes(const ModelNotes& notes) {
  ExportTypes types;
  const auto parse = [](const std::string& dtype) {
    return ParseFileType("the checkpoint's notes, dtype " + dtype, dtype);
  };
  if (!notes.dtype.empty()) {
    ASSIGN_OR_RETURN(types.most, parse(notes.dtype));
  }
  for (const auto& [tensor, dtype] : notes.dtypes) {
    ASSIGN_OR_RETURN(types.others[tensor], parse(dtype));
  }
  return types;
}

// f32 holds the values of both others; neither of these holds those of any other.
void WarnOfRounding(const ExportPlan& plan, const ExportTypes& imported) {
  std::map<FileType, int64_t> rounded;  // tensors by the type that they had
  for (const Shard& shard : plan.shards) {
    for (const FileTensor& tensor : shard.tensors) {
      const FileType was = imported.Find(tensor.name);
      if (*tensor.type != was && *tensor.type != FileType::kF32) ++rounded[was];
    }
  }
  for (const auto& [was, tensors] : rounded) {
    PrintNotice(absl::StrCat("warning: ", tensors,
                             tensors == 1 ? " tensor that was" : " tensors that were",
                             " imported as ", std::string(Name(was)), tensors == 1 ? " is" : " are",
                             " rounded to ", FLAGS_dtype, "; without --dtype ",
                             tensors == 1 ? "it keeps its" : "they keep their", " type"));
  }
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

absl::Status Export(const Arguments& args) {
  if (FLAGS_out.empty()) return InputError("--out", "is missing", "write --out=models/tuned");
  const std::string out = WithoutSlash(FLAGS_out);
  ASSIGN_OR_RETURN(const int64_t shard_bytes,
                   ParseBytes("--shard_bytes=" + FLAGS_shard_bytes, FLAGS_shard_bytes));
  ASSIGN_OR_RETURN(const std::string checkpoint,
                   FindStepFolder("--checkpoint", FLAGS_checkpoint, PrintNotice));
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(checkpoint, {.base = run.base()}));
  const proto::Graph graph = RemoveAdapters(reader->graph());
  ASSIGN_OR_RETURN(HuggingFaceConfig config, DescribeCheckpoint(*reader, graph, checkpoint));
  const AdaptersByWeight adapters = FindAdapters(reader->graph());
  RETURN_IF_ERROR(reader->CheckVariables(MakeModelPlan(reader->graph())));
  if (FLAGS_merge && adapters.empty()) {
    return InputError("--merge", "acts on nothing: " + checkpoint + " has no adapters",
                      "leave it out");
  }
  if (!adapters.empty() && !FLAGS_merge) return ExportAdapter(*reader, config, out);
  ASSIGN_OR_RETURN(const ExportTypes imported, ImportedTypes(reader->notes()));
  ExportTypes types = imported;
  if (!FLAGS_dtype.empty()) {
    types = {};
    ASSIGN_OR_RETURN(types.most, ParseFileType("--dtype=" + FLAGS_dtype, FLAGS_dtype));
  }
  config.dtype = std::string(Name(types.most));
  ASSIGN_OR_RETURN(ExportPlan plan, PlanExport(graph, config, types, shard_bytes));
  if (!reader->notes().dtype.empty()) WarnOfRounding(plan, imported);
  if (plan.no_next_tokens) {
    PrintNotice("the block of --next_tokens is left out: files of " + config.model_type +
                " have none");
  }
  ASSIGN_OR_RETURN(NewFolder folder, NewFolder::Make(out));
  RETURN_IF_ERROR(WriteModel(folder.path(), *reader, config, adapters, plan));
  RETURN_IF_ERROR(folder.Finish());
  return Print(absl::StrCat(out, ": ", config.model_type, ", ", plan.tensors, " tensors of ",
                            config.dtype, ", ", plan.bytes, " bytes in ", plan.shards.size(),
                            plan.shards.size() == 1 ? " file\n" : " files\n"),
               {{"folder", out},
                {"model_type", config.model_type},
                {"tensors", plan.tensors},
                {"bytes", plan.bytes},
                {"dtype", config.dtype},
                {"files", plan.shards.size()}});
}

}  // namespace

Verb ExportVerb() {
  return {verbs::kExport, "make a Hugging Face folder of a checkpoint, or the adapter of one",
          "oneflow export --checkpoint=run/tuned --out=models/tuned\n"
          "oneflow export --checkpoint=run/tuned/step-00000100 --dtype=bf16 --out=models/tuned\n"
          "oneflow export --checkpoint=run/adapted --merge --out=models/tuned\n",
          Export};
}

}  // namespace oneflow
