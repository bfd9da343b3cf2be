// ModelNotes: the facts of a model that its graph does not say, which a checkpoint keeps from
// import to export: a run that begins with the weights of a checkpoint hands them on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace oneflow {

struct ModelNotes {
  std::string model_type;  // of the imported model: "mistral"; empty: not imported
  std::string dtype;       // of most elements of its files: "f32", "bf16", "f16"
  std::map<std::string, std::string> dtypes;  // of the tensors that have another, by name
  // Tokens of the vocabulary; 0: as many as the model has rows. Ids from `vocab` on are padding:
  // they are never generated and not exported.
  int64_t vocab = 0;
  int64_t positions = 0;         // the longest sequence; 0: that of the graph
  std::vector<int64_t> end_ids;  // that end a text
  std::optional<int64_t> begin_id;

  bool known() const { return *this != ModelNotes(); }
  bool operator==(const ModelNotes&) const = default;
};

}  // namespace oneflow
