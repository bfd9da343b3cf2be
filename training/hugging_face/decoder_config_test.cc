// config.json of decoders whose blocks differ.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/model/block_lists.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "training/hugging_face/model_config.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;
using Changes = std::vector<std::pair<std::string, Json>>;

const Json kFull = "full_attention", kSliding = "sliding_attention";

// Gemma 3 1B, as releases 4 of transformers write it.
Json Gemma3() {
  return Json::parse(R"({"model_type":"gemma3_text","vocab_size":262144,"num_hidden_layers":26,
    "hidden_size":1152,"intermediate_size":6912,"num_attention_heads":4,"num_key_value_heads":1,
    "head_dim":256,"max_position_embeddings":32768,"rms_norm_eps":1e-06,"rope_theta":1000000,
    "rope_local_base_freq":10000,"rope_scaling":null,"sliding_window":512,
    "sliding_window_pattern":6,"query_pre_attn_scalar":256,"attn_logit_softcapping":null,
    "final_logit_softcapping":null,"hidden_activation":"gelu_pytorch_tanh",
    "attention_bias":false,"torch_dtype":"bfloat16"})");
}

Json Gemma2() {
  return Json::parse(R"({"model_type":"gemma2","vocab_size":256000,"num_hidden_layers":46,
    "hidden_size":4608,"intermediate_size":36864,"num_attention_heads":32,
    "num_key_value_heads":16,"head_dim":128,"max_position_embeddings":8192,"rms_norm_eps":1e-06,
    "rope_theta":10000.0,"sliding_window":4096,"query_pre_attn_scalar":144,
    "attn_logit_softcapping":50.0,"final_logit_softcapping":30.0,
    "hidden_activation":"gelu_pytorch_tanh"})");
}

// OLMo 3 7B: `rotary` is how a release says rotary positions.
Json Olmo3(const std::string& rotary) {
  return Json::parse(R"({"model_type":"olmo3","vocab_size":100278,"num_hidden_layers":32,
    "hidden_size":4096,"intermediate_size":11008,"num_attention_heads":32,
    "num_key_value_heads":32,"max_position_embeddings":65536,"rms_norm_eps":1e-06,
    "sliding_window":4096,"hidden_act":"silu","tie_word_embeddings":false,)" +
                     rotary + "}");
}
constexpr char kOldRotary[] = R"("rope_theta":500000,"rope_scaling":{"rope_type":"yarn",
    "factor":8.0,"attention_factor":1.2079441541679836,"beta_fast":32.0,"beta_slow":1.0,
    "original_max_position_embeddings":8192})",
               kNewRotary[] = R"("rope_parameters":{"full_attention":{"rope_type":"yarn",
    "factor":8.0,"beta_fast":32.0,"beta_slow":1.0,"rope_theta":500000,
    "original_max_position_embeddings":8192},
    "sliding_attention":{"rope_type":"default","rope_theta":500000}})";

Json SmolLm3() {
  return Json::parse(R"({"model_type":"smollm3","vocab_size":128256,"num_hidden_layers":36,
    "hidden_size":2048,"intermediate_size":11008,"num_attention_heads":16,
    "num_key_value_heads":4,"max_position_embeddings":65536,"rms_norm_eps":1e-06,
    "rope_theta":5000000.0,"hidden_act":"silu","use_sliding_window":false,"sliding_window":null,
    "no_rope_layer_interval":4})");
}

Json With(Json json, const Changes& changes) {
  for (const auto& [key, value] : changes) json[key] = value;
  return json;
}

HuggingFaceConfig Parse(const Json& json) {
  const auto config = ParseHuggingFaceConfig(json.dump(), "config.json");
  INFO(config.status());
  REQUIRE(config.ok());
  return *config;
}

std::string Error(const Json& json, const Changes& changes = {}) {
  const auto config = ParseHuggingFaceConfig(With(json, changes).dump(), "config.json");
  REQUIRE_FALSE(config.ok());
  CHECK(absl::IsInvalidArgument(config.status()));
  return std::string(config.status().message());
}

std::string Blocks(const HuggingFaceConfig& config) {
  return FieldText(*FindRow(ModelRows(), "blocks"), config.model);
}

// The numbers in which a model differs from a preset.
std::vector<std::string> Others(const HuggingFaceConfig& config, const std::string& preset) {
  return ListDifferences(config.model,
                         ClearTraining(MakeModel(absl::StrCat("family: '", config.model.family(),
                                                              "' preset: '", preset, "'"))));
}

TEST_CASE("decoders' config.json: published numbers are presets") {
  CHECK(Others(Parse(Gemma2()), "gemma2-27b").empty());
  CHECK(Others(Parse(Gemma3()), "gemma3-1b").empty());
  CHECK(Others(Parse(Olmo3(kOldRotary)), "olmo3-7b").empty());
  CHECK(Others(Parse(Olmo3(kNewRotary)), "olmo3-7b").empty());
  CHECK(Others(Parse(SmolLm3()), "smollm3-3b").empty());
  CHECK(Blocks(Parse(Gemma2())) == "local(window=4096),full");
  CHECK(Blocks(Parse(Gemma3())) == "5*local(theta=10000 window=512),full");
  CHECK(Blocks(Parse(Olmo3(kOldRotary))) == "3*local(rope_scaling=none window=4096),full");
  CHECK(Blocks(Parse(SmolLm3())) == "3*rotary,plain(rotary_share=0)");
  const HuggingFaceConfig olmo2 =
      Parse(Json::parse(R"({"model_type":"olmo2","vocab_size":100352,"num_hidden_layers":16,
        "hidden_size":2048,"intermediate_size":8192,"num_attention_heads":16,
        "max_position_embeddings":4096,"rms_norm_eps":1e-06,"rope_theta":500000})"));
  CHECK(Others(olmo2, "olmo2-1b").empty());
}

TEST_CASE("decoders' config.json: a text part, with the defaults of its class") {
  Json text = Json::parse(R"({"model_type":"gemma3_text","hidden_size":2560,
    "intermediate_size":10240,"num_hidden_layers":34,"sliding_window":1024,
    "rope_scaling":{"factor":8.0,"rope_type":"linear"}})");
  const Json full = {{"model_type", "gemma3"},
                     {"text_config", text},
                     {"eos_token_id", {1, 106}},
                     {"torch_dtype", "bfloat16"},
                     {"vision_config", {{"hidden_size", 1152}}}};
  const HuggingFaceConfig config = Parse(full);
  CHECK(Others(config, "gemma3-4b").empty());
  CHECK(config.model_type == "gemma3");
  CHECK(config.end_ids == std::vector<int64_t>{1, 106});
  CHECK(config.dtype == "bf16");
  // It is written as the text part alone.
  const Json written = Json::parse(ConfigText(config));
  CHECK(written["model_type"] == "gemma3_text");
  CHECK(written["architectures"] == Json({"Gemma3ForCausalLM"}));
  CHECK(Others(Parse(written), "gemma3-4b").empty());
  // Whether the head is tied is said of the model with its other parts.
  CHECK_FALSE(Parse(With(full, {{"tie_word_embeddings", false}})).model.tied());
  text["tie_word_embeddings"] = false;
  CHECK(Parse(With(full, {{"text_config", text}})).model.tied());
  text["final_logit_softcapping"] = 30.0;
  CHECK_THAT(
      Error(full, {{"text_config", text}}),
      Catch::EndsWith("is not read by the class for text and images of transformers; use the "
                      "text part, a gemma3_text"));
  text.erase("final_logit_softcapping");
  CHECK(Error(full, {{"text_config", nullptr}}) == "config.json: \"text_config\" is missing");
  CHECK(Error(full, {{"text_config", 1}}) == "config.json: \"text_config\": 1 is no object");
  text["hidden_activation"] = "silu";
  CHECK(Error(full, {{"text_config", text}}) ==
        "config.json: \"text_config.hidden_activation\": \"silu\" is not supported");
}

TEST_CASE("decoders' config.json: layers as old and new releases list them") {
  const HuggingFaceConfig expected = Parse(With(Gemma3(), {{"num_hidden_layers", 7}}));
  const Json types = {kSliding, kSliding, kSliding, kSliding, kSliding, kFull, kSliding};
  Json listed = With(Gemma3(), {{"num_hidden_layers", 7}, {"layer_types", types}});
  CHECK(Parse(listed) == expected);
  listed.erase("sliding_window_pattern");
  CHECK(Parse(listed) == expected);
  for (const char* key : {"rope_theta", "rope_local_base_freq", "rope_scaling"}) listed.erase(key);
  CHECK(Parse(listed) == expected);
  listed["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", 1000000}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000}}}};
  CHECK(Parse(listed) == expected);
  CHECK(Blocks(Parse(With(Gemma3(), {{"num_hidden_layers", 7}, {"sliding_window_pattern", 2}}))) ==
        "local(theta=10000 window=512),full");
  const HuggingFaceConfig local =
      Parse(With(Gemma3(), {{"num_hidden_layers", 1}, {"layer_types", Json::array({kSliding})}}));
  CHECK(Blocks(local) == "none");
  CHECK(local.model.window() == 512);
  CHECK(local.model.theta() == 10000);
  const Json flags = {1, 1, 0, 1};
  CHECK(Blocks(Parse(With(SmolLm3(), {{"num_hidden_layers", 4}, {"no_rope_layers", flags}}))) ==
        "2*rotary,plain(rotary_share=0)");
  CHECK(Blocks(Parse(With(
            SmolLm3(),
            {{"num_hidden_layers", 8}, {"use_sliding_window", true}, {"sliding_window", 32}}))) ==
        "3*full,local(rotary_share=0 window=32)");
  CHECK(Error(SmolLm3(), {{"no_rope_layers", flags}}) ==
        "config.json: \"no_rope_layers\": [1,1,0,1] is no list for 36 layers");
  CHECK(Error(SmolLm3(), {{"num_hidden_layers", 4}, {"no_rope_layers", {1, 2, 0, 1}}}) ==
        "config.json: \"no_rope_layers\": [1,2,0,1] has other than 0 and 1");
  CHECK(Error(SmolLm3(), {{"num_hidden_layers", int64_t{1} << 32}, {"no_rope_layers", flags}}) ==
        "config.json: \"no_rope_layers\": [1,1,0,1] is no list for 10000 layers");
}

TEST_CASE("decoders' config.json: scalings of rotary frequencies") {
  const auto scaling = [](const Json& entry, const char* type = "llama") {
    Json json = With(SmolLm3(), {{"model_type", type}, {"rope_scaling", entry}});
    return FieldText(*FindRow(ModelRows(), "rope_scaling"), Parse(json).model);
  };
  CHECK(scaling({{"type", "linear"}, {"factor", 4.0}}) == "linear:4");
  CHECK(scaling({{"rope_type", "yarn"}, {"factor", 4.0}}) == "yarn:4,65536,32,1");
  CHECK(scaling({{"rope_type", "yarn"},
                 {"factor", 4.0},
                 {"original_max_position_embeddings", 32768},
                 {"beta_fast", 16},
                 {"beta_slow", 2},
                 {"truncate", false},
                 {"attention_factor", 1.5}},
                "qwen3") == "yarn:4,32768,16,2,exact*1.5");
  const auto error = [](const Json& entry) { return Error(SmolLm3(), {{"rope_scaling", entry}}); };
  CHECK(error({{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 1.0}}) ==
        "config.json: \"rope_scaling.mscale\": 1.0 is not supported");
  CHECK(error({{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 0.5}}) ==
        "config.json: \"rope_scaling.beta_fast\": 0.5 is below \"beta_slow\"");
  CHECK(error({{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_slow", 0}}) ==
        "config.json: \"rope_scaling.beta_slow\": 0 is not above 0");
  CHECK(error({{"rope_type", "yarn"}, {"factor", 4.0}, {"attention_factor", 0}}) ==
        "config.json: \"rope_scaling.attention_factor\": 0 is not above 0");
  CHECK(error({{"rope_type", "linear"}, {"factor", 0.5}}) ==
        "config.json: \"rope_scaling.factor\": 0.5 is below 1");
  CHECK(error({{"rope_type", "yarn"}}) == "config.json: \"rope_scaling.factor\" is missing");
  // Releases 5 of transformers read the original positions where they are said of the model.
  const char* const kOriginal = "original_max_position_embeddings";
  const Json yarn = With(
      SmolLm3(), {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {kOriginal, 8192}}}});
  CHECK(Parse(With(yarn, {{kOriginal, 8192}})) == Parse(yarn));
  CHECK(Error(yarn, {{kOriginal, 4096}}) ==
        "config.json: \"original_max_position_embeddings\": 4096 contradicts the scaling, of 8192; "
        "remove the one that the weights were not trained with");
  CHECK(Parse(With(SmolLm3(), {{kOriginal, 4096}})) == Parse(SmolLm3()));
}

TEST_CASE("decoders' config.json: rotary positions of layers with a window and without") {
  CHECK(Error(Gemma3(), {{"rope_parameters", {{"rope_type", "default"}}}}) ==
        "config.json: \"rope_parameters\": {\"rope_type\":\"default\"} has no objects "
        "full_attention and sliding_attention");
  CHECK(Error(Gemma3(), {{"rope_parameters", {{"full_attention", 1}}}}) ==
        "config.json: \"rope_parameters\": {\"full_attention\":1} has full_attention, no object");
  CHECK(Error(Gemma3(), {{"rope_parameters", {{"sliding_attention", {{"rope_theta", 5000}}}}}}) ==
        "config.json: \"rope_parameters.sliding_attention.rope_theta\": 5000 contradicts "
        "\"rope_local_base_freq\"; remove the one that the weights were not trained with");
  // Without a theta of their own, layers with a window have that of the class.
  const HuggingFaceConfig scaled = Parse(Olmo3(R"("rope_theta":10000,
      "rope_parameters":{"full_attention":{"rope_type":"linear","factor":3.0},
                         "sliding_attention":{"rope_type":"linear","factor":3.0}})"));
  CHECK(Blocks(scaled) == "3*local(theta=500000 window=4096),full");
  CHECK(Error(Olmo3(R"("rope_theta":10000)")) ==
        "config.json: \"rope_theta\": 10000 is that of layers with a window in some releases of "
        "transformers; state it for both kinds of layers, in \"rope_parameters\"");
  CHECK_THAT(Error(Gemma3(), {{"rope_scaling", {{"type", "linear"}, {"factor", 8.0}}}}),
             Catch::EndsWith("has no \"rope_type\", without which releases of transformers differ; "
                             "write \"rope_type\" in place of \"type\""));
  Json exact = Olmo3(kOldRotary);
  exact["rope_scaling"]["truncate"] = false;
  CHECK_THAT(Error(exact), Catch::EndsWith("has \"truncate\": false, which some releases of "
                                           "transformers do not read here"));
}

TEST_CASE("decoders' config.json: a cap of attention, which classes of Gemma 3 do not read") {
  const HuggingFaceConfig config = Parse(Gemma3());
  CHECK(Parse(With(Gemma3(), {{"attn_logit_softcapping", 50.0}})) == config);
  HuggingFaceConfig capped = config;
  capped.model.set_attention_cap(50);
  CHECK(Parse(Json::parse(ConfigText(capped))) == config);
}

TEST_CASE("decoders' config.json: what is refused") {
  const auto unsupported = [](const Json& json, const std::string& key, const Json& value) {
    CHECK(Error(json, {{key, value}}) ==
          "config.json: \"" + key + "\": " + value.dump() + " is not supported");
  };
  unsupported(Gemma2(), "hidden_activation", "gelu");
  unsupported(Gemma3(), "use_bidirectional_attention", true);
  unsupported(Olmo3(kOldRotary), "hidden_act", "gelu");
  unsupported(SmolLm3(), "mlp_bias", true);
  CHECK(Error(Gemma2(), {{"query_pre_attn_scalar", 0}}) ==
        "config.json: \"query_pre_attn_scalar\": 0 is not above 0");
  CHECK(Error(Gemma2(), {{"final_logit_softcapping", 0.0}}) ==
        "config.json: \"final_logit_softcapping\": 0.0 is not above 0; write null for no cap");
  CHECK(Error(Gemma2(), {{"sliding_window", nullptr}}) ==
        "config.json: \"sliding_window\" is missing");
}

TEST_CASE("decoders' config.json: what is written is read") {
  std::vector<HuggingFaceConfig> configs = {Parse(Gemma2()), Parse(Gemma3()),
                                            Parse(Olmo3(kOldRotary)), Parse(SmolLm3())};
  configs.push_back(Parse(With(Gemma2(), {{"attn_logit_softcapping", nullptr},
                                          {"final_logit_softcapping", nullptr},
                                          {"attention_bias", true}})));
  configs.push_back(Parse(With(SmolLm3(), {{"use_sliding_window", true}, {"sliding_window", 64}})));
  configs.push_back(Parse(With(Gemma3(), {{"layer_types", Json(26, kSliding)}})));
  std::string thetas(kNewRotary);  // of windows, another one
  configs.push_back(Parse(Olmo3(thetas.replace(thetas.rfind("500000"), 6, "5000"))));
  configs.push_back(Parse(With(Gemma3(), {{"layer_types", Json(26, kFull)}})));
  const Json half = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 10000}};
  configs.push_back(Parse(With(Gemma3(), {{"rope_parameters", {{"sliding_attention", half}}}})));
  const HuggingFaceConfig linear = Parse(
      With(Olmo3(R"("rope_scaling":{"type":"linear","factor":2})"), {{"model_type", "olmo2"}}));
  configs.push_back(linear);
  // As releases 4 of transformers demand it.
  CHECK(Json::parse(ConfigText(linear))["rope_scaling"] ==
        Json({{"type", "linear"}, {"factor", 2.0}}));
  for (const HuggingFaceConfig& config : configs) {
    INFO(ConfigText(config));
    CHECK(Parse(Json::parse(ConfigText(config))) == config);
  }
}

}  // namespace
}  // namespace oneflow
