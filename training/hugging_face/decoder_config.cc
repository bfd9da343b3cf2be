#include "training/hugging_face/decoder_config.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/model/block_lists.h"

namespace oneflow {
namespace {

using RopeJson = nlohmann::ordered_json;
using google::protobuf::util::MessageDifferencer;

constexpr char kOneOfBoth[] = "remove the one that the weights were not trained with";
constexpr const char *kTheta = "rope_theta", *kScaling = "rope_scaling",
                     *kParameters = "rope_parameters", *kWindowed = "sliding_attention",
                     *kUnlimited = "full_attention",
                     *kOriginal = "original_max_position_embeddings";
constexpr double kFastTurns = 32, kSlowTurns = 1, kSameFactor = 1e-9;

// YaRN's factor of cosines and sines where none is given.
double UsualAttentionFactor(double factor) { return factor > 1 ? 0.1 * std::log(factor) + 1 : 1; }

void ReadLlamaScaling(ConfigFields& rope, proto::RopeScaling& scaling) {
  scaling.set_low(rope.Number("low_freq_factor"));
  scaling.set_high(rope.Number("high_freq_factor"));
  scaling.set_positions(rope.Size(kOriginal));
  if (scaling.low() <= 0) rope.Refuse("low_freq_factor", "is not above 0");
  if (scaling.high() <= scaling.low()) {
    rope.Refuse("high_freq_factor", "is not above \"low_freq_factor\"");
  }
}

void ReadYarnScaling(ConfigFields& rope, int64_t positions, proto::RopeScaling& scaling) {
  scaling.set_kind(proto::RopeScaling::YARN);
  scaling.set_positions(rope.Size(kOriginal, positions));
  scaling.set_high(rope.Number("beta_fast", kFastTurns));
  scaling.set_low(rope.Number("beta_slow", kSlowTurns));
  if (scaling.low() <= 0) rope.Refuse("beta_slow", "is not above 0");
  if (scaling.high() < scaling.low()) rope.Refuse("beta_fast", "is below \"beta_slow\"");
  if (!rope.Bool("truncate", true)) scaling.set_exact(true);
  const double usual = UsualAttentionFactor(scaling.factor());
  const double factor = rope.Number("attention_factor", usual);
  if (factor <= 0) rope.Refuse("attention_factor", "is not above 0");
  if (std::abs(factor - usual) > kSameFactor) scaling.set_attention_factor(factor);
}

// An object with theta and scaling; `key` is its name, and `theta_key` that of another theta.
void ReadRope(ConfigFields& fields, const std::string& key, const RopeJson& object,
              const char* theta_key, proto::Model& model) {
  ConfigFields rope = fields.Inside(key, object);
  const char* type_key = rope.Has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.String(type_key, "default");
  proto::RopeScaling& scaling = *model.mutable_rope_scaling();
  scaling.Clear();
  if (type != "default" && !ReadRopeScaling(rope, type, model.sequence(), scaling)) {
    rope.Refuse(type_key, "is not supported",
                "use a model whose rope type is default, linear, llama3 or yarn");
  }
  std::vector<std::string> known = {"rope_type", "type", kTheta, "partial_rotary_factor"};
  if (type != "default") known.emplace_back("factor");
  if (type == "llama3" || type == "yarn") known.emplace_back(kOriginal);
  if (type == "llama3") known.insert(known.end(), {"low_freq_factor", "high_freq_factor"});
  if (type == "yarn") {
    known.insert(known.end(), {"beta_fast", "beta_slow", "truncate", "attention_factor"});
  }
  rope.Require("partial_rotary_factor", model.rotary_share());
  if (rope.Has(kTheta)) {
    const double theta = rope.Number(kTheta);
    if (fields.Has(theta_key) && theta != model.theta()) {
      rope.Refuse(kTheta, absl::StrCat("contradicts \"", theta_key, "\""), kOneOfBoth);
    }
    if (theta <= 0) rope.Refuse(kTheta, "is not above 0");
    model.set_theta(theta);
  }
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end() && !value.is_null()) {
      rope.Refuse(name.c_str(), "is not supported");
    }
  }
  fields.Keep(rope.status());
}

// The object of a key, or its entry; null if it is not there, or empty.
const RopeJson* FindRope(ConfigFields& fields, const char* key, const char* entry) {
  const RopeJson* object = fields.Find(key);
  if (object == nullptr) return nullptr;
  if (!object->is_object()) {
    fields.Refuse(key, "is no object");
    return nullptr;
  }
  if (entry != nullptr && !object->empty()) {
    const bool nested = object->contains(kUnlimited) || object->contains(kWindowed);
    if (!nested) {
      fields.Refuse(key, absl::StrCat("has no objects ", kUnlimited, " and ", kWindowed));
      return nullptr;
    }
    const auto found = object->find(entry);
    if (found == object->end()) return nullptr;
    object = &*found;
    if (!object->is_object()) {
      if (!object->is_null()) fields.Refuse(key, absl::StrCat("has ", entry, ", no object"));
      return nullptr;
    }
  }
  return object->empty() ? nullptr : object;
}

}  // namespace

bool ReadRopeScaling(ConfigFields& rope, const std::string& type, int64_t positions,
                     proto::RopeScaling& scaling) {
  if (type != "llama3" && type != "linear" && type != "yarn") return false;
  scaling.set_factor(rope.Number("factor"));
  if (scaling.factor() < 1) rope.Refuse("factor", "is below 1");
  if (type == "linear") scaling.set_kind(proto::RopeScaling::LINEAR);
  if (type == "llama3") ReadLlamaScaling(rope, scaling);
  if (type == "yarn") ReadYarnScaling(rope, positions, scaling);
  return true;
}

void ReadSizes(ConfigFields& fields, proto::Model& model) {
  model.set_layers(fields.Size("num_hidden_layers"));
  model.set_hidden(fields.Size("hidden_size"));
  model.set_inner(fields.Size("intermediate_size"));
  const int64_t heads = fields.Size("num_attention_heads");
  model.set_heads(heads);
  // Its defaults differ between releases of transformers, but for types whose row says one.
  constexpr const char *kGroups = "num_key_value_heads", *kHeadDim = "head_dim";
  if (!fields.Contains(kGroups)) fields.Refuse(kGroups, "is missing");
  model.set_groups(fields.Size(kGroups, heads));
  model.set_sequence(fields.Size("max_position_embeddings"));
  if (!fields.Has(kHeadDim) && model.hidden() % heads != 0) {
    fields.Refuse("num_attention_heads",
                  absl::StrCat("does not divide \"hidden_size\": ", model.hidden()));
  }
  model.set_head_dim(fields.Size(kHeadDim, std::max<int64_t>(model.hidden() / heads, 1)));
  if (heads % model.groups() != 0) {
    fields.Refuse(kGroups, absl::StrCat("does not divide \"num_attention_heads\": ", heads));
  }
  if (model.head_dim() % 2 != 0) fields.Refuse(kHeadDim, "is odd");
  model.set_norm_epsilon(fields.Number("rms_norm_eps"));
  model.set_tied(fields.Bool("tie_word_embeddings", false));
}

void ReadAttentionBias(ConfigFields& fields, proto::Model& model) {
  const bool biased = fields.Bool("attention_bias", false);
  model.set_qkv_bias(biased);
  model.set_proj_bias(biased);
}

void ReadMixtureSizes(ConfigFields& fields, const char* experts, proto::Model& model) {
  // Releases of transformers write one of two keys.
  constexpr const char *kLocal = "num_local_experts", *kChoices = "num_experts_per_tok";
  model.set_experts(fields.Size(fields.Has(kLocal) ? kLocal : experts));
  model.set_experts_per_token(fields.Size(kChoices));
  if (model.experts_per_token() > model.experts()) {
    fields.Refuse(kChoices, absl::StrCat("is more than the ", model.experts(), " experts"));
  }
}

void SetDense(int64_t inner, proto::Model& own) {
  own.set_inner(inner);
  own.set_experts(0);
}

proto::Model FindMixture(const proto::Model& model) {
  const std::vector<proto::Model> blocks = ListBlocks(model);
  const auto found = std::ranges::find_if(blocks, [](const auto& b) { return b.experts() > 0; });
  return found == blocks.end() ? model : *found;
}

void ReadRotary(ConfigFields& fields, double theta, proto::Model& model, const char* entry) {
  fields.Require("partial_rotary_factor", model.rotary_share());
  model.set_theta(fields.Number(kTheta, theta));
  model.mutable_rope_scaling()->Clear();
  if (model.theta() <= 0) fields.Refuse(kTheta, "is not above 0");
  // Releases of transformers read one or the other, so both must say the same.
  const RopeJson* const scaling = FindRope(fields, kScaling, nullptr);
  const RopeJson* const parameters = FindRope(fields, kParameters, entry);
  proto::Model other = model;
  if (scaling != nullptr) ReadRope(fields, kScaling, *scaling, kTheta, model);
  if (parameters != nullptr) {
    const std::string key = entry == nullptr ? kParameters : absl::StrCat(kParameters, ".", entry);
    ReadRope(fields, key, *parameters, kTheta, other);
  }
  if (entry != nullptr && (model.rope_scaling().exact() || other.rope_scaling().exact())) {
    fields.Refuse(scaling == nullptr ? kParameters : kScaling,
                  "has \"truncate\": false, which some releases of transformers do not read here");
  }
  // Releases 5 of transformers read the type of such an object under its newer name alone.
  if (entry != nullptr && model.rope_scaling().factor() > 0 && !scaling->contains("rope_type")) {
    fields.Refuse(kScaling, "has no \"rope_type\", without which releases of transformers differ",
                  "write \"rope_type\" in place of \"type\"");
  }
  if (scaling == nullptr) {
    model = other;
  } else if (parameters != nullptr && !MessageDifferencer::Equals(other, model)) {
    fields.Refuse(kParameters,
                  absl::StrCat("contradicts \"", kScaling, "\", with the theta of each"),
                  kOneOfBoth);
  }
  // Of YaRN and Llama 3, which releases 5 read here, and releases 4 in the object.
  const proto::RopeScaling& read = model.rope_scaling();
  if (entry == nullptr && read.positions() > 0 && fields.Has(kOriginal) &&
      fields.Size(kOriginal) != read.positions()) {
    fields.Refuse(kOriginal, absl::StrCat("contradicts the scaling, of ", read.positions()),
                  kOneOfBoth);
  }
}

bool ReadWindowRotary(ConfigFields& fields, const char* theta_key, double theta,
                      proto::Model& model) {
  model.set_theta(fields.Number(theta_key, theta));
  if (model.theta() <= 0) fields.Refuse(theta_key, "is not above 0");
  model.mutable_rope_scaling()->Clear();
  const RopeJson* const object = FindRope(fields, kParameters, kWindowed);
  if (object == nullptr) return false;
  ReadRope(fields, absl::StrCat(kParameters, ".", kWindowed), *object, theta_key, model);
  return true;
}

RopeJson RopeScalingJson(const proto::RopeScaling& s) {
  if (s.factor() == 0) return nullptr;
  if (s.kind() == proto::RopeScaling::LINEAR) {
    return {{"rope_type", "linear"}, {"factor", s.factor()}};
  }
  if (s.kind() == proto::RopeScaling::LLAMA3) {
    return {{"rope_type", "llama3"},
            {"factor", s.factor()},
            {"low_freq_factor", s.low()},
            {"high_freq_factor", s.high()},
            {kOriginal, s.positions()}};
  }
  RopeJson json = {{"rope_type", "yarn"},  {"factor", s.factor()},     {"beta_fast", s.high()},
                   {"beta_slow", s.low()}, {kOriginal, s.positions()}, {"truncate", !s.exact()}};
  if (s.has_attention_factor()) json["attention_factor"] = s.attention_factor();
  return json;
}

RopeJson RopeParametersJson(const proto::Model& full, const proto::Model& local) {
  const auto entry = [](const proto::Model& numbers) {
    RopeJson object = RopeScalingJson(numbers.rope_scaling());
    if (object.is_null()) object = {{"rope_type", "default"}};
    object[kTheta] = numbers.theta();
    return object;
  };
  return {{kUnlimited, entry(full)}, {kWindowed, entry(local)}};
}

bool ReadLayerTypes(ConfigFields& fields, std::vector<bool>& windows) {
  constexpr const char* kKey = "layer_types";
  const RopeJson* types = fields.Find(kKey);
  if (types == nullptr) return false;
  if (!types->is_array() || types->size() != windows.size()) {
    fields.Refuse(kKey, absl::StrCat("is no list for ", windows.size(), " layers"));
    return false;
  }
  for (size_t i = 0; i < windows.size(); ++i) {
    const RopeJson& type = (*types)[i];
    if (type != kUnlimited && type != kWindowed) {
      fields.Refuse(kKey, absl::StrCat("is not supported: ", kUnlimited, " or ", kWindowed, " is"));
      return false;
    }
    windows[i] = type == kWindowed;
  }
  return true;
}

int64_t ReadWindowSize(ConfigFields& fields, const std::vector<bool>& windows) {
  const bool any = std::find(windows.begin(), windows.end(), true) != windows.end();
  return any ? fields.Size("sliding_window") : 0;
}

RopeJson LayerTypesJson(const proto::Model& model) {
  RopeJson types = RopeJson::array();
  for (const proto::Model& block : ListBlocks(model)) {
    types.push_back(block.window() > 0 ? kWindowed : kUnlimited);
  }
  return types;
}

void WriteSizes(const proto::Model& model, RopeJson& json) {
  json["num_hidden_layers"] = model.layers();
  json["hidden_size"] = model.hidden();
  json["intermediate_size"] = model.inner();
  json["num_attention_heads"] = model.heads();
  json["num_key_value_heads"] = model.groups();
  json["head_dim"] = model.head_dim();
  json["max_position_embeddings"] = model.sequence();
  json["rms_norm_eps"] = model.norm_epsilon();
  json["attention_dropout"] = 0.0;
}

void WriteRotary(const proto::Model& numbers, RopeJson& json) {
  json[kTheta] = numbers.theta();
  json[kScaling] = RopeScalingJson(numbers.rope_scaling());
}

void WriteWindows(const proto::Model& model, RopeJson& json) {
  if (const int64_t window = FindBlock(model, true).window(); window > 0) {
    json["sliding_window"] = window;
  }
  json["layer_types"] = LayerTypesJson(model);
}

RopeJson WindowJson(int64_t window) { return window > 0 ? RopeJson(window) : RopeJson(nullptr); }

}  // namespace oneflow
