// The adapters of a checkpoint, as `export` writes them: merged into the weights, or as a folder of
// PEFT.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/model/adapters.h"
#include "proto/graph.pb.h"
#include "training/checkpoint/checkpoint.h"
#include "training/hugging_face/adapter_tensors.h"
#include "training/hugging_face/copy_slice.h"
#include "training/hugging_face/model_config.h"

namespace oneflow {

// By the variable that they adapt.
using AdaptersByWeight = std::multimap<std::string, Adapter>;
AdaptersByWeight FindAdapters(const proto::Graph& graph);

// Reads a slice of a variable as f32; `values` becomes as large.
absl::Status LoadSlice(const CheckpointReader& reader, const MappedVariable& variable,
                       const Slice& slice, std::vector<float>& values);

// Reads an adapter's variables. `dims`: the sizes of the weight.
absl::StatusOr<LoadedAdapter> LoadAdapter(const CheckpointReader& reader, const Adapter& adapter,
                                          const Dims& dims);

// Writes all variables that are trained as PEFT's adapter_model.safetensors and
// adapter_config.json, in a new folder, and prints what it wrote. `config`: of the model.
absl::Status ExportAdapter(const CheckpointReader& reader, const HuggingFaceConfig& config,
                           const std::string& out);

}  // namespace oneflow
