// Parts of the reader of torchtitan: its keys over the years, its models and configurations by
// name, and how it splits a model over a pipe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/read.h"
#include "tools/foreign/read/settings.h"

namespace oneflow::foreign {

// The name that a key has in the last release of 2025: "experimental.pipeline_parallel_degree" is
// "parallelism.pipeline_parallel_degree". A key that has only one name stays as it is.
std::string TitanKey(std::string_view key);

// Keys that the reader does not ask for.
std::span<const ListedKeys> TitanLists();
// Keys of the converters to FP8 and MX, which act if model.converters names them.
std::string_view TitanQuantizeKeys();

// True of a name that torchtitan had dropped by October 2025, when its llama3 got the scaled rotary
// frequencies of Llama 3.1: a file that has it is of an earlier release.
bool IsTitanNameBeforeScaling(std::string_view name);

// A model of torchtitan by name and flavor. `what_is_wrong` says why there is none.
// `scales_rope`: llama3 is that of Llama 3.1.
struct TitanModel {
  std::optional<ShapeNumbers> shape;
  std::string what_is_wrong;
  std::string hint;
};
TitanModel FindTitanModel(const std::string& name, const std::string& flavor,
                          bool scales_rope = true);

// A configuration that torchtitan has by name: "llama3_8b", "llama3_debugmodel_flex_attn".
// `settings`: what it sets apart from defaults, as words "key=value", the model and flavor among
// them. None: none of that name.
std::optional<std::string> FindTitanNamed(std::string_view name);
// The nearest name among those of a model, of all where it is empty; "" if none is near.
std::string NearestTitanNamed(std::string_view name, std::string_view model);

// Blocks of each slice along the pipe as torchtitan's generate_llm_fqn_per_model_part gives them:
// `first` and `last` are the layers that the embedding and the head count for. An empty list: not
// possible, and `why` has what torchtitan says.
std::vector<int64_t> SplitTitanLayers(int64_t slices, int64_t layers, int64_t first, int64_t last,
                                      std::string* why);

// The same of torchtitan before April 2025, whose embedding and head count for no layer: the slices
// behind the first take what is left over.
std::vector<int64_t> SplitOldTitanLayers(int64_t slices, int64_t layers);

// Blocks of each slice that lists of module names give: {{"tok_embeddings", "layers.0"}, ...}.
std::vector<int64_t> CountTitanModules(const std::vector<std::vector<std::string>>& parts);

}  // namespace oneflow::foreign
