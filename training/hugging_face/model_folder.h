// The tensors of a Hugging Face folder: of model.safetensors, or of the shards that
// model.safetensors.index.json names.
//
//   ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Open("models/llama"));
//   ASSIGN_OR_RETURN(const auto variables,
//                    MapVariables(folder, LlamaFiles(), wanted, config.vocab, config.tied));
//   ... ReadSlice(variables[0], slice, values) ...
//
// All headers are checked when the folder is opened, and the names and shapes of all tensors when
// they are mapped: nothing is found missing after hours.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/model/file_tensors.h"
#include "oneflow_core/tensor/shape.h"
#include "proto/graph.pb.h"
#include "training/hugging_face/copy_slice.h"
#include "training/hugging_face/safetensors.h"

namespace oneflow {

class ModelFolder {
 public:
  struct Entry {
    const SafetensorsFile* file = nullptr;
    const FileTensor* tensor = nullptr;
  };

  // The files of an index are all read. Their headers say which tensors they have; where the index
  // says something else of a tensor that is used, MapVariables does.
  static absl::StatusOr<ModelFolder> Open(const std::string& dir);

  const std::string& dir() const { return dir_; }
  const std::map<std::string, Entry>& tensors() const { return tensors_; }
  // The file of each tensor that the index names; empty if there is no index.
  const std::map<std::string, std::string>& indexed() const { return indexed_; }

 private:
  absl::Status Add(const std::string& name);
  absl::Status ReadIndex(const std::string& path);

  std::string dir_;
  std::deque<SafetensorsFile> files_;  // entries point to them
  std::map<std::string, Entry> tensors_;
  std::map<std::string, std::string> indexed_;
};

struct WantedVariable {
  std::string name;
  Dims dims;
};

// The variables of a graph, in its order.
std::vector<WantedVariable> ListVariables(const proto::Graph& graph);

// How the names of the tensors of other parts of a model begin, without the prefix: parts for
// images, and `further` blocks behind those of the model, but for the first `read`.
std::vector<std::string> NameOtherParts(const FamilyFiles& files, int64_t read, int64_t further);
// Why the block that predicts next tokens is not read from a folder, of a family that may have it:
// it has no such tensors, or its copies of embedding and head are none. Empty: it is read.
absl::StatusOr<std::string> WhyNoNextTokens(const ModelFolder& folder, const FamilyFiles& files,
                                            bool tied);
// The tensors of these parts: "437 tensors of vision_tower.".
std::vector<std::string> ListOtherParts(const ModelFolder& folder, const FamilyFiles& files,
                                        std::span<const std::string> other_parts);

// Finds the parts of all variables. Names of files may have the family's prefix or not. An input
// error names the first tensor that is missing, that is unknown, that has another shape or a type
// that cannot be read, that occurs with prefix and without, or that an index leaves out. `vocab`:
// the tokens of the files. `tied`: the head is the embedding; a folder that has both must have the
// same values in them. Tensors of `other_parts` are ignored.
absl::StatusOr<std::vector<MappedVariable>> MapVariables(
    const ModelFolder& folder, const FamilyFiles& files, std::span<const WantedVariable> variables,
    int64_t vocab, bool tied, std::span<const std::string> other_parts = {});

}  // namespace oneflow
