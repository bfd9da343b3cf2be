// config.json of gpt-oss and GLM 4.5.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/model/model.h"
#include "training/hugging_face/adapter_tensors.h"
#include "training/hugging_face/compare_graphs.h"
#include "training/hugging_face/model_config.h"
#include "training/hugging_face/model_folder.h"
#include "training/hugging_face/model_graph.h"
#include "training/hugging_face/update_config.h"

namespace oneflow {
namespace {

using MixtureJson = nlohmann::ordered_json;
using MixtureChanges = std::vector<std::pair<std::string, MixtureJson>>;

// As openai/gpt-oss-20b has it.
MixtureJson GptOss() {
  MixtureJson json = MixtureJson::parse(R"({"architectures":["GptOssForCausalLM"],
    "attention_bias":true,"attention_dropout":0.0,"eos_token_id":200002,"experts_per_token":4,
    "head_dim":64,"hidden_act":"silu","hidden_size":2880,"initial_context_length":4096,
    "initializer_range":0.02,"intermediate_size":2880,"layer_types":[],
    "max_position_embeddings":131072,"model_type":"gpt_oss","num_attention_heads":64,
    "num_experts_per_tok":4,"num_hidden_layers":24,"num_key_value_heads":8,"num_local_experts":32,
    "output_router_logits":false,"pad_token_id":199999,
    "quantization_config":{"modules_to_not_convert":["model.layers.*.self_attn"],
      "quant_method":"mxfp4"},
    "rms_norm_eps":1e-05,"rope_scaling":{"beta_fast":32.0,"beta_slow":1.0,"factor":32.0,
      "original_max_position_embeddings":4096,"rope_type":"yarn","truncate":false},
    "rope_theta":150000,"router_aux_loss_coef":0.9,"sliding_window":128,"swiglu_limit":7.0,
    "tie_word_embeddings":false,"use_cache":true,"vocab_size":201088})");
  for (int i = 0; i < 24; ++i) {
    json["layer_types"].push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  }
  return json;
}

// As zai-org/GLM-4.5-Air has it.
MixtureJson GlmAir() {
  return MixtureJson::parse(R"({"architectures":["Glm4MoeForCausalLM"],"attention_bias":true,
    "attention_dropout":0.0,"pad_token_id":151329,"eos_token_id":[151329,151336,151338],
    "head_dim":128,"hidden_act":"silu","hidden_size":4096,"partial_rotary_factor":0.5,
    "initializer_range":0.02,"intermediate_size":10944,"max_position_embeddings":131072,
    "model_type":"glm4_moe","moe_intermediate_size":1408,"norm_topk_prob":true,
    "num_attention_heads":96,"n_group":1,"topk_group":1,"n_routed_experts":128,
    "n_shared_experts":1,"routed_scaling_factor":1.0,"num_experts_per_tok":8,
    "first_k_dense_replace":1,"num_hidden_layers":46,"num_key_value_heads":8,
    "rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":1000000,"num_nextn_predict_layers":1,
    "tie_word_embeddings":false,"torch_dtype":"bfloat16","use_cache":true,"use_qk_norm":false,
    "vocab_size":151552})");
}

MixtureJson Change(MixtureJson json, const MixtureChanges& changes) {
  for (const auto& [key, value] : changes) json[key] = value;
  return json;
}

MixtureJson Drop(MixtureJson json, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) json.erase(key);
  return json;
}

HuggingFaceConfig ParseMixture(const MixtureJson& json) {
  const auto config = ParseHuggingFaceConfig(json.dump(), "config.json");
  INFO(config.status());
  REQUIRE(config.ok());
  return *config;
}

std::string MixtureError(const MixtureJson& json, const MixtureChanges& changes = {}) {
  const auto config = ParseHuggingFaceConfig(Change(json, changes).dump(), "config.json");
  REQUIRE(absl::IsInvalidArgument(config.status()));
  return std::string(config.status().message());
}

// Where the graph of a configuration differs from a preset's.
std::string DifferenceFromPreset(const MixtureJson& json, const std::string& family,
                                 const std::string& preset) {
  proto::Model said;
  said.set_family(family);
  said.set_preset(preset);
  said.set_sequence(64);
  said.set_aux_loss_coeff(0);
  const auto graph = BuildModelGraph(ParseMixture(json), {.sequence = 64});
  REQUIRE(graph.ok());
  return FindDifference(*graph, BuildModel(CompleteModel(said).value(), graph->name()));
}

TEST_CASE("MixtureTypes: published configurations are the presets") {
  CHECK(DifferenceFromPreset(GptOss(), "gpt_oss", "gpt-oss-20b") == "");
  const MixtureJson large = Drop(
      Change(GptOss(), {{"num_hidden_layers", 36}, {"num_local_experts", 128}}), {"layer_types"});
  CHECK(DifferenceFromPreset(large, "gpt_oss", "gpt-oss-120b") == "");
  CHECK(DifferenceFromPreset(GlmAir(), "glm", "glm4.5-air") == "");
  const MixtureJson glm = Change(GlmAir(), {{"hidden_size", 5120},
                                            {"intermediate_size", 12288},
                                            {"moe_intermediate_size", 1536},
                                            {"n_routed_experts", 160},
                                            {"first_k_dense_replace", 3},
                                            {"num_hidden_layers", 92},
                                            {"routed_scaling_factor", 2.5},
                                            {"use_qk_norm", true}});
  CHECK(DifferenceFromPreset(glm, "glm", "glm4.5") == "");
  CHECK(ParseMixture(GptOss()).end_ids == std::vector<int64_t>{200002});
  CHECK(ParseMixture(GlmAir()).further_blocks == 1);
}

TEST_CASE("MixtureTypes: keys as other releases of transformers write them") {
  const HuggingFaceConfig oss = ParseMixture(GptOss()), glm = ParseMixture(GlmAir());
  MixtureJson yarn = GptOss()["rope_scaling"];
  yarn["rope_theta"] = 150000.0;
  const MixtureJson without = Drop(GptOss(), {"rope_scaling", "rope_theta"});
  CHECK(ParseMixture(Change(without, {{"rope_parameters", yarn}, {"swiglu_alpha", 1.702}})) == oss);
  CHECK(ParseMixture(without) == oss);  // the usual positions
  // Keys that files leave out have the values of the class.
  const MixtureJson few = {
      {"model_type", "glm4_moe"}, {"rope_theta", 1e6}, {"attention_bias", true}, {"head_dim", 128}};
  CHECK(ParseMixture(few).model.SerializeAsString() ==
        ParseMixture(GlmAir()).model.SerializeAsString());
  CHECK(ParseMixture(Drop(GptOss(),
                          {"layer_types", "head_dim", "sliding_window", "attention_bias"})) == oss);
  const MixtureJson rope = {
      {"rope_type", "default"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}};
  const MixtureJson bare = Drop(GlmAir(), {"rope_scaling", "rope_theta", "partial_rotary_factor"});
  CHECK(ParseMixture(Change(bare, {{"rope_parameters", rope}})) == glm);
  CHECK(ParseMixture(bare).model.theta() == 10000);
  CHECK(ParseMixture(bare).model.rotary_share() == 0.5);
  CHECK_FALSE(
      ParseHuggingFaceConfig(Change(bare, {{"partial_rotary_factor", nullptr}}).dump(), "x").ok());
  const MixtureJson all = {{"rope_type", "default"}, {"partial_rotary_factor", 1.0}};
  const MixtureJson beside = Change(bare, {{"rope_parameters", all}});
  CHECK(ParseMixture(beside).model.rotary_share() == 1);
  CHECK_FALSE(ParseHuggingFaceConfig(
                  Change(beside, {{"rope_scaling", {{"rope_type", "default"}}}}).dump(), "x")
                  .ok());
  // A head of 128 turns 56 elements for any share that rounds down to them.
  CHECK(ParseMixture(Change(bare, {{"partial_rotary_factor", 0.4375}})) ==
        ParseMixture(Change(bare, {{"partial_rotary_factor", 0.4401}})));
}

TEST_CASE("MixtureTypes: what is written is read") {
  const MixtureJson default_rope = {{"rope_type", "default"}};
  const MixtureJson attentions(std::vector<std::string>(24, "full_attention"));
  const std::vector<MixtureJson> all = {
      GptOss(),
      Change(GptOss(), {{"rope_scaling", default_rope}}),
      Change(GptOss(), {{"layer_types", attentions}}),
      Change(GptOss(), {{"sliding_window", nullptr}}),
      Change(GptOss(), {{"attention_bias", false}, {"num_local_experts", 8}}),
      GlmAir(),
      Change(GlmAir(), {{"first_k_dense_replace", 0}, {"n_shared_experts", 0}}),
      Change(GlmAir(), {{"first_k_dense_replace", 3}, {"n_shared_experts", 2}}),
      Change(GlmAir(), {{"norm_topk_prob", false}, {"routed_scaling_factor", 2.5}}),
      Change(GlmAir(), {{"use_qk_norm", true}, {"attention_bias", false}}),
      Change(GlmAir(), {{"partial_rotary_factor", 1.0}})};
  for (const MixtureJson& json : all) {
    const HuggingFaceConfig config = ParseMixture(json);
    const std::string text = ConfigText(config);
    INFO(text);
    const auto again = ParseHuggingFaceConfig(text, "config.json");
    REQUIRE(again.ok());
    CHECK(*again == config);
    // A graph says the same.
    HuggingFaceConfig short_config = config;
    short_config.model.set_layers(4);
    const auto graph = BuildModelGraph(short_config, {.sequence = 16});
    REQUIRE(graph.ok());
    const auto described = DescribeModelGraph(*graph);
    INFO(described.status());
    REQUIRE(described.ok());
    short_config.model.set_sequence(16);
    short_config.end_ids.clear();
    short_config.dtype.clear();
    CHECK(*described == short_config);
    // Every variable has tensors.
    int64_t block = 0;
    for (const WantedVariable& variable : ListVariables(*graph)) {
      INFO(variable.name);
      CHECK(FindParts(FindFiles(config), variable.name, &block) != nullptr);
    }
  }
}

TEST_CASE("MixtureTypes: what has no equivalent is refused by name and value") {
  CHECK(MixtureError(GptOss(), {{"swiglu_limit", 5.0}}) ==
        "config.json: \"swiglu_limit\": 5.0 is not supported");
  CHECK(MixtureError(GptOss(), {{"swiglu_alpha", 1.0}}) ==
        "config.json: \"swiglu_alpha\": 1.0 is not supported");
  CHECK(MixtureError(GptOss(), {{"hidden_act", "gelu"}}) ==
        "config.json: \"hidden_act\": \"gelu\" is not supported");
  CHECK(MixtureError(GptOss(), {{"num_experts_per_tok", 33}}) ==
        "config.json: \"num_experts_per_tok\": 33 is more than the 32 experts");
  CHECK(MixtureError(GptOss(), {{"rope_scaling", nullptr}}) ==
        "config.json: \"rope_scaling\" is null, and releases of transformers differ in what they "
        "take for it; write {\"rope_type\": \"default\"} for positions without scaling");
  CHECK(
      MixtureError(GptOss(), {{"quantization_config", {{"quant_method", "bitsandbytes"}}}})
          .find("\"quantization_config\": {\"quant_method\":\"bitsandbytes\"} is not supported") !=
      std::string::npos);
  CHECK(MixtureError(GlmAir(), {{"quantization_config", {{"quant_method", "mxfp4"}}}})
            .find("is not supported") != std::string::npos);
  CHECK(MixtureError(GlmAir(), {{"n_group", 8}}) == "config.json: \"n_group\": 8 is not supported");
  CHECK(MixtureError(GlmAir(), {{"topk_group", 4}}) ==
        "config.json: \"topk_group\": 4 is not supported");
  CHECK(MixtureError(GlmAir(), {{"routed_scaling_factor", 0}}) ==
        "config.json: \"routed_scaling_factor\": 0 is not above 0");
  CHECK(MixtureError(GlmAir(), {{"first_k_dense_replace", 46}}) ==
        "config.json: \"first_k_dense_replace\": 46 leaves no layer with experts");
  CHECK(MixtureError(GlmAir(), {{"partial_rotary_factor", 1.5}})
            .find("\"partial_rotary_factor\": 1.5 is no share of a head") != std::string::npos);
  CHECK(MixtureError(GlmAir(), {{"rope_parameters", {{"partial_rotary_factor", 0.25}}}})
            .find("\"rope_parameters.partial_rotary_factor\": 0.25 is not supported") !=
        std::string::npos);
}

TEST_CASE("MixtureTypes: a configuration of quantized weights says so no longer once exported") {
  const std::string original = GptOss().dump();
  const HuggingFaceConfig config = ParseMixture(GptOss());
  const std::string updated = UpdateConfigText(original, config, /*new_dtype=*/false);
  CHECK(MixtureJson::parse(updated) == Drop(GptOss(), {"quantization_config"}));
}

TEST_CASE("MixtureTypes: further blocks are other parts of a GLM's files") {
  CHECK(FindOtherParts(ParseMixture(GlmAir())) == std::vector<std::string>{"layers.46."});
  CHECK(FindOtherParts(ParseMixture(Change(GlmAir(), {{"num_nextn_predict_layers", 0}}))).size() ==
        1);
  CHECK(FindOtherParts(ParseMixture(Change(GlmAir(), {{"num_nextn_predict_layers", 2}}))).size() ==
        2);
  CHECK(FindOtherParts(ParseMixture(GptOss())).empty());
  HuggingFaceConfig ahead = ParseMixture(GlmAir());
  ahead.model.set_next_tokens(1), ahead.model.set_layers(3);
  CHECK(FindOtherParts(ahead).empty());
  const auto graph = BuildModelGraph(ahead, {.sequence = 16});
  REQUIRE(graph.ok());
  CHECK(DescribeModelGraph(*graph)->further_blocks == 1);
  const FamilyFiles files = FindFiles(ahead);
  for (const WantedVariable& variable : ListVariables(*graph)) {
    INFO(variable.name);
    int64_t block = 0;
    CHECK(FindParts(files, variable.name, &block) != nullptr);
    CHECK((block == 3) == variable.name.starts_with(kNextTokens));
  }
}

TEST_CASE("MixtureTypes: an adapter's file has no part of a tensor") {
  HuggingFaceConfig config = ParseMixture(GptOss());
  config.model.set_layers(2);
  const auto graph = BuildModelGraph(config, {.sequence = 16});
  REQUIRE(graph.ok());
  CHECK(std::string(ListAdapterTensors(*graph, FindFiles(config)).status().message()) ==
        "variable h.0.mlp.experts.gate.weight: is trained, and its tensor has others as well, "
        "which modules_to_save of PEFT does not part; write the model with --merge");
}

}  // namespace
}  // namespace oneflow
