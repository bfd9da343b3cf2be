// An adapter of PEFT on its base, as `import` makes a checkpoint of it.
//
//   ASSIGN_OR_RETURN(const AdapterModel model, OpenAdapter("adapters/chat", "models/llama"));
//   ... ReadSlice(model.variables[0], slice, values) ...
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "training/checkpoint/base.h"
#include "training/hugging_face/adapter_config.h"
#include "training/hugging_face/adapter_tensors.h"

namespace oneflow {

struct AdapterModel {
  proto::Graph graph;  // of the base, with the adapters; it names the base
  std::unique_ptr<WeightSource> base;
  std::unique_ptr<SafetensorsFile> file;  // `variables` point to it
  std::vector<MappedVariable> variables;  // that are trained
};

// `base`: its folder, of Hugging Face or of a checkpoint without adapters; empty: the one that the
// adapter names, if it is there.
absl::StatusOr<AdapterModel> OpenAdapter(const std::string& folder, const std::string& base);

}  // namespace oneflow
