// adapter_config.json of an adapter of PEFT (LoRA), read and written.
//
//   ASSIGN_OR_RETURN(const AdapterConfig config, ReadAdapterConfig("adapters/chat"));
//   config.lora.rank(), config.base, config.saved_modules
//
// A setting that changes what the adapter computes and has no equivalent here is refused by name
// and value (DoRA, ranks or factors by module, biases, layers_to_transform, initial values that
// change the base); so is any other type of PEFT. Which modules it adapts is not read here: the
// tensors of the file say it (adapter_tensors.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"

namespace oneflow {

inline constexpr char kAdapterConfig[] = "adapter_config.json";
inline constexpr char kAdapterModel[] = "adapter_model.safetensors";

struct AdapterConfig {
  proto::Lora lora;                        // without targets
  std::string base;                        // base_model_name_or_path; empty: not said
  std::vector<std::string> targets;        // target_modules
  std::vector<std::string> saved_modules;  // modules_to_save: trained as they are
  bool fan_in_fan_out = false;             // the base's weights are stored [in, out], as in GPT-2
};

// True of a folder with an adapter and no model.
bool IsAdapterFolder(const std::string& path);

// `where` is the file's name in errors.
absl::StatusOr<AdapterConfig> ParseAdapterConfig(std::string_view text, const std::string& where);
// Of FOLDER/adapter_config.json.
absl::StatusOr<AdapterConfig> ReadAdapterConfig(const std::string& folder);

// The text of the file, which PEFT reads. Its targets and modules are those of `config`.
std::string AdapterConfigText(const AdapterConfig& config);

}  // namespace oneflow
