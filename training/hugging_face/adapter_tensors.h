// The tensors of an adapter's file, as PEFT names them, and the variables of a graph that they are.
//
//   "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight" [rank, in]
//   "base_model.model.model.layers.3.self_attn.q_proj.lora_B.weight" [out, rank]
//   "base_model.model.lm_head.weight"        of modules_to_save: a variable that is trained as it
//   is
//
// A module is the tensor of the adapted weight in the model's files (FilePart) without ".weight",
// so the table of a family names the tensors of its adapters, too.
//
//   ASSIGN_OR_RETURN(const AdapterTensors tensors, ListAdapterTensors(graph, FindFiles(config)));
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/model/adapters.h"
#include "oneflow_core/model/file_tensors.h"
#include "proto/graph.pb.h"
#include "training/hugging_face/copy_slice.h"
#include "training/hugging_face/model_folder.h"
#include "training/hugging_face/safetensors.h"

namespace oneflow {

struct AdapterTensor {
  std::string name;    // in the file
  std::string module;  // "model.layers.3.self_attn.q_proj"
  WantedVariable variable;
  FilePart part;
};

struct AdapterTensors {
  std::vector<AdapterTensor> tensors;  // in the order of the graph
  std::vector<std::string> targets;    // target_modules: the shortest names that name no others
  std::vector<std::string> saved;      // modules_to_save
};

// Of all variables of the graph that are not frozen. An input error where PEFT has no form of it:
// an embedding that is trained and is the head as well, or one of two tensors of a module.
absl::StatusOr<AdapterTensors> ListAdapterTensors(const proto::Graph& graph,
                                                  const FamilyFiles& files);

// The targets whose last word names a layer of an expert in these files, too. Releases of PEFT that
// know releases 5 of transformers, whose experts are one layer, take them for the experts.
std::vector<std::string> FindExpertTargets(const FamilyFiles& files,
                                           std::span<const std::string> targets);

// What the file of an adapter has.
struct AdaptedModules {
  std::vector<std::string>
      targets;  // modules within a block, as AddAdapters takes them: "mlp.up_proj"
  std::vector<std::string> saved;  // modules that are trained as they are: "lm_head"
};
// `saved`: modules_to_save. An input error names a tensor that is neither of an adapter in a block
// nor of `saved`.
absl::StatusOr<AdaptedModules> FindModules(const SafetensorsFile& file,
                                           std::span<const std::string> saved);

// The tensors, found in a file; an input error names the first one that is missing, that has
// another shape or type, or that no variable has. `vocab`: the tokens of the base.
absl::StatusOr<std::vector<MappedVariable>> MapAdapter(const SafetensorsFile& file,
                                                       const AdapterTensors& tensors,
                                                       int64_t vocab);

// The variables of an adapter in memory: A [in, rank] and B [rank, out of the part], row-major.
struct LoadedAdapter {
  std::vector<float> a, b;
  int64_t rank = 0;
  int in_axes = 0;  // of the weight
  Slice box;        // of the part, in the weight
  double factor = 1;
};

// Adds factor * A B, in f32, to what `values`, a slice of the weight, shares with the adapter's
// part.
void AddProduct(const LoadedAdapter& adapter, const Slice& slice, std::span<float> values);

}  // namespace oneflow
