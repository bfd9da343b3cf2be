#include "tools/oneflow/model/adapter_weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/model/new_folder.h"
#include "training/files/durable.h"
#include "training/hugging_face/adapter_config.h"
#include "training/hugging_face/model_graph.h"
#include "training/hugging_face/safetensors.h"

namespace oneflow {
namespace {

// All elements of a variable of the checkpoint's graph.
absl::StatusOr<std::vector<float>> LoadAll(const CheckpointReader& reader, const std::string& name,
                                           Dims* dims) {
  for (const WantedVariable& wanted : ListVariables(reader.graph())) {
    if (wanted.name == name) *dims = wanted.dims;
  }
  std::vector<float> values;
  const MappedVariable variable = {.name = name, .dims = *dims};
  RETURN_IF_ERROR(LoadSlice(reader, variable, {Dims(dims->size(), 0), *dims}, values));
  return values;
}

}  // namespace

AdaptersByWeight FindAdapters(const proto::Graph& graph) {
  AdaptersByWeight adapters;
  for (const Adapter& adapter : ListAdapters(graph)) adapters.emplace(adapter.weight, adapter);
  return adapters;
}

absl::Status LoadSlice(const CheckpointReader& reader, const MappedVariable& variable,
                       const Slice& slice, std::vector<float>& values) {
  values.resize(slice.elements());
  Piece piece;
  piece.name = &variable.name;
  piece.dims = &variable.dims;
  piece.slice = &slice;
  piece.data = reinterpret_cast<std::byte*>(values.data());
  return reader.Load(piece);
}

absl::StatusOr<LoadedAdapter> LoadAdapter(const CheckpointReader& reader, const Adapter& adapter,
                                          const Dims& dims) {
  LoadedAdapter loaded;
  loaded.factor = adapter.factor;
  Dims a, b;
  ASSIGN_OR_RETURN(loaded.a, LoadAll(reader, adapter.a, &a));
  ASSIGN_OR_RETURN(loaded.b, LoadAll(reader, adapter.b, &b));
  loaded.rank = a.back();
  loaded.in_axes = static_cast<int>(a.size()) - 1;
  loaded.box = {Dims(dims.size(), 0), dims};
  if (adapter.part < 0) return loaded;
  ASSIGN_OR_RETURN(const HuggingFaceConfig config,
                   DescribeModelGraph(RemoveAdapters(reader.graph())));
  int64_t block = -1;
  const FamilyFiles files = FindFiles(config);
  const VariableParts* const row = FindParts(files, adapter.weight, &block);
  if (row == nullptr) {
    return InputError("variable " + adapter.weight, "has no tensors in files of this family", "");
  }
  loaded.box = PartBox(row->parts[adapter.part], dims, 0);
  return loaded;
}

absl::Status ExportAdapter(const CheckpointReader& reader, const HuggingFaceConfig& config,
                           const std::string& out) {
  const proto::Graph& graph = reader.graph();
  FileType type = FileType::kF32;
  if (!FLAGS_dtype.empty()) {
    ASSIGN_OR_RETURN(type, ParseFileType("--dtype=" + FLAGS_dtype, FLAGS_dtype));
  }
  const int64_t vocab = reader.notes().vocab;  // 0: as many as the variables
  ASSIGN_OR_RETURN(const AdapterTensors list, ListAdapterTensors(graph, FindFiles(config)));
  std::vector<FileTensor> tensors;
  int64_t bytes = 0;
  for (const AdapterTensor& tensor : list.tensors) {
    tensors.push_back({.name = tensor.name,
                       .type = type,
                       .dims = TensorDims(tensor.part, tensor.variable.dims, vocab)});
    bytes += Product(tensors.back().dims) * ElementBytes(type);
  }
  ASSIGN_OR_RETURN(NewFolder folder, NewFolder::Make(out));
  ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(folder.path() + "/" + kAdapterModel, {{"format", "pt"}}, tensors));
  std::vector<float> values;
  for (size_t i = 0; i < list.tensors.size(); ++i) {
    const AdapterTensor& tensor = list.tensors[i];
    const MappedVariable variable = {
        .name = tensor.variable.name,
        .dims = tensor.variable.dims,
        .vocab = vocab,
        .parts = {{.part = tensor.part, .writer = &writer, .index = i}}};
    for (const Slice& slice : SplitTensor(variable.dims, kSliceElements)) {
      RETURN_IF_ERROR(LoadSlice(reader, variable, slice, values));
      RETURN_IF_ERROR(Annotate(WriteSlice(variable, slice, values), "variable " + variable.name));
    }
  }
  RETURN_IF_ERROR(writer.Finish());
  AdapterConfig adapter = {.lora = graph.lora(),
                           .base = graph.base().path(),
                           .targets = list.targets,
                           .saved_modules = list.saved,
                           .fan_in_fan_out = config.is_gpt2()};
  RETURN_IF_ERROR(WriteDurably(folder.path() + "/" + kAdapterConfig, AdapterConfigText(adapter)));
  RETURN_IF_ERROR(folder.Finish());
  if (const auto taken = FindExpertTargets(FindFiles(config), list.targets); !taken.empty()) {
    PrintNotice(absl::StrCat("warning: with releases 5 of transformers, peft 0.21 takes ",
                             absl::StrJoin(taken, ", "),
                             " for layers of experts, and loads no adapters of them: use --merge"));
  }
  const std::string dtype(Name(type));
  return Print(
      absl::StrCat(out, ": adapter of rank ", graph.lora().rank(), " of ", config.model_type, ", ",
                   tensors.size(), " tensors of ", dtype, ", ", bytes, " bytes\n"),
      {{"folder", out},
       {"model_type", config.model_type},
       {"tensors", tensors.size()},
       {"bytes", bytes},
       {"dtype", dtype},
       {"files", 1}});
}

}  // namespace oneflow
