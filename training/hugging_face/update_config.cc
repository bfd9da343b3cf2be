#include "training/hugging_face/update_config.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/strings.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

// Values as they are to stand in the text, by key.
using Values = std::map<std::string, std::string, std::less<>>;

// Keys that say nothing of what the model computes.
constexpr std::string_view kKept[] = {"architectures", "attention_dropout", "bos_token_id",
                                      "eos_token_id",  "pad_token_id",      "use_cache"};
// Keys that say what ConfigText says with others.
constexpr std::string_view kOther[] = {"experts_per_token", "layer_types",
                                       "num_local_experts", "partial_rotary_factor",
                                       "rope_parameters",   "sliding_window_pattern"};
constexpr std::string_view kFurtherBlocks = "num_nextn_predict_layers";
// Of weights that are written otherwise.
constexpr std::string_view kQuantization = "quantization_config";
// Keys that are not added where they are missing.
constexpr std::string_view kTypeFields[] = {"dtype", "torch_dtype"};

template <size_t n>
bool Contains(const std::string_view (&keys)[n], std::string_view key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

// The members of `text` get the values of `values`, in place; what is left of these comes last.
std::string Replace(std::string_view text, Values values) {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view key, std::string_view value) {
    lines.push_back(absl::StrCat("  \"", ToAbsl(key), "\": ", ToAbsl(value)));
  };
  const bool describes = values.contains("vocab_size");
  for (const JsonMember& member : ListMembers(text)) {
    const auto it = values.find(member.key);
    if (it != values.end()) {
      add(member.key, it->second);
      values.erase(it);
    } else if (member.key != kQuantization && (!describes || !Contains(kOther, member.key))) {
      add(member.key, member.value);
    }
  }
  for (const auto& [key, value] : values) {
    if (!Contains(kTypeFields, key)) add(key, value);
  }
  return absl::StrCat("{\n", absl::StrJoin(lines, ",\n"), "\n}\n");
}

}  // namespace

std::string UpdateConfigText(std::string_view original, const HuggingFaceConfig& config,
                             bool new_dtype) {
  absl::StatusOr<HuggingFaceConfig> was = ParseHuggingFaceConfig(original, "config.json");
  if (!was.ok() || was->model_type != config.model_type) return ConfigText(config);
  const std::string described = ConfigText(config);
  was->end_ids = config.end_ids;
  was->begin_id = config.begin_id;
  const bool other_dtype = new_dtype && was->dtype != config.dtype;
  was->dtype = config.dtype;
  if (config.is_gpt2() && config.model.dropout() == 0) was->model.set_dropout(0);
  const bool other_model = !(config == *was);
  // transformers says that there are further blocks of files without them, too.
  const bool other_further =
      config.further_blocks > 0 && config.further_blocks != was->further_blocks;
  const std::string_view further = other_further ? kFurtherBlocks : "";
  Values values;
  for (const JsonMember& member : ListMembers(described)) {
    if (member.key == "torch_dtype") {
      if (other_dtype) values["torch_dtype"] = values["dtype"] = member.value;
    } else if (!Contains(kKept, member.key) && (other_model || member.key == further)) {
      values[std::string(member.key)] = member.value;
    }
  }
  const auto members = ListMembers(original);
  const bool quantized = std::ranges::any_of(
      members, [](const JsonMember& member) { return member.key == kQuantization; });
  return values.empty() && !quantized ? std::string(original)
                                      : Replace(original, std::move(values));
}

}  // namespace oneflow
