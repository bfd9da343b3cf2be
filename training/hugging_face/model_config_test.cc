#include "training/hugging_face/model_config.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/temporary_directory.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;
using Changes = std::vector<std::pair<std::string, Json>>;

Json Gpt2() {
  return Json::parse(R"({"model_type":"gpt2","vocab_size":50257,"n_layer":12,"n_embd":768,
    "n_head":12,"n_positions":1024,"n_inner":null,"activation_function":"gelu_new",
    "layer_norm_epsilon":1e-05,"bos_token_id":50256,"eos_token_id":50256,"embd_pdrop":0.1,
    "attn_pdrop":0.1,"resid_pdrop":0.1,"scale_attn_weights":true,"task_specific_params":{"x":1}})");
}

Json Llama(const std::string& type = "llama") {
  return Json::parse(R"({"model_type":")" + type + R"(","vocab_size":128256,
    "num_hidden_layers":4,"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
    "num_key_value_heads":8,"max_position_embeddings":8192,"rms_norm_eps":1e-05,
    "rope_theta":500000.0,"hidden_act":"silu","attention_bias":false,"mlp_bias":false,
    "sliding_window":null,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
    "bos_token_id":128000,"eos_token_id":[128001,128009]})");
}

Json With(Json json, const Changes& changes) {
  for (const auto& [key, value] : changes) json[key] = value;
  return json;
}

Json Without(Json json, const std::string& key) {
  json.erase(key);
  return json;
}

HuggingFaceConfig Parse(const Json& json, const std::string& generation = "") {
  return ParseHuggingFaceConfig(json.dump(), "config.json", generation, "generation_config.json")
      .value();
}

// The error of a config with changes.
std::string Error(const Json& json, const Changes& changes = {}) {
  const auto config = ParseHuggingFaceConfig(With(json, changes).dump(), "config.json");
  REQUIRE_FALSE(config.ok());
  CHECK(absl::IsInvalidArgument(config.status()));
  return std::string(config.status().message());
}

TEST_CASE("HuggingFaceConfig: gpt2") {
  const HuggingFaceConfig config = Parse(Gpt2());
  CHECK(config.model_type == "gpt2");
  CHECK(config.model.ShortDebugString() ==
        ClearTraining(
            MakeModel("family: 'gpt' layers: 12 heads: 12 hidden: 768 sequence: 1024 vocab: 50257 "
                      "tied: true norm_epsilon: 1e-05 dropout: 0.1"))
            .ShortDebugString());
  CHECK(config.end_ids == std::vector<int64_t>{50256});
  CHECK(config.begin_id == 50256);
  CHECK(config.dtype.empty());
  CHECK_FALSE(Parse(With(Gpt2(), {{"tie_word_embeddings", false}})).model.tied());
  CHECK(Parse(With(Gpt2(), {{"n_inner", 3072}})) == config);
  CHECK(Parse(With(Gpt2(), {{"resid_pdrop", 0.2}})).model.dropout() == 0);
}

TEST_CASE("HuggingFaceConfig: llama") {
  const HuggingFaceConfig config = Parse(Llama());
  CHECK(config.model_type == "llama");
  CHECK(config.model.ShortDebugString() ==
        ClearTraining(MakeModel("family: 'llama' layers: 4 heads: 32 hidden: 4096 sequence: 8192 "
                                "vocab: 128256 tied: false groups: 8 inner: 14336 theta: 500000"))
            .ShortDebugString());
  CHECK(config.end_ids == std::vector<int64_t>{128001, 128009});
  CHECK(config.begin_id == 128000);
  CHECK(config.dtype == "bf16");
  CHECK(Parse(Without(Llama(), "num_key_value_heads")).model.groups() == 32);
  CHECK(Parse(Without(Llama(), "rope_theta")).model.theta() == 10000);
  CHECK(Parse(With(Llama(), {{"head_dim", 64}})).model.head_dim() == 64);
  CHECK(Parse(Llama("qwen3")).model.head_dim() == 128);
  CHECK(Parse(With(Llama("qwen3"), {{"num_attention_heads", 8}})).model.head_dim() == 128);
  CHECK(Parse(With(Llama(), {{"eos_token_id", 5}})).end_ids == std::vector<int64_t>{5});
  CHECK(Parse(With(Llama(), {{"eos_token_id", nullptr}})).end_ids.empty());
  CHECK(Parse(With(Llama(), {{"torch_dtype", nullptr}, {"dtype", "float16"}})).dtype == "f16");
}

TEST_CASE("HuggingFaceConfig: the ids of generation_config.json come first") {
  CHECK(Parse(Llama(), R"({"eos_token_id":[7,8,9]})").end_ids == std::vector<int64_t>{7, 8, 9});
  CHECK(Parse(Llama(), R"({"temperature":0.6})").end_ids == std::vector<int64_t>{128001, 128009});
  const auto error = [](const std::string& generation) {
    return std::string(ParseHuggingFaceConfig(Llama().dump(), "config.json", generation, "g.json")
                           .status()
                           .message());
  };
  CHECK(error(R"({"eos_token_id":"x"})") ==
        "g.json: \"eos_token_id\": \"x\" is neither an id of a token nor a list of ids");
  CHECK(error("[]") == "g.json: is no JSON object; get the file again");
}

TEST_CASE("HuggingFaceConfig: rotary frequencies, as old and new releases write them") {
  const std::string scaling = "factor: 8 low: 1 high: 4 positions: 8192";
  const auto text = [](const HuggingFaceConfig& config) {
    return config.model.rope_scaling().ShortDebugString();
  };
  const Json rope = {{"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192},
                     {"rope_type", "llama3"}};
  CHECK(text(Parse(With(Llama(), {{"rope_scaling", rope}}))) == scaling);
  const Json newer = With(rope, {{"rope_theta", 1e6}});
  const Json without_theta = Without(Llama(), "rope_theta");
  const HuggingFaceConfig config = Parse(With(without_theta, {{"rope_parameters", newer}}));
  CHECK(text(config) == scaling);
  CHECK(config.model.theta() == 1e6);
  CHECK(text(Parse(With(Llama(), {{"rope_scaling", {{"type", "default"}}}}))).empty());

  CHECK(Error(Llama(), {{"rope_parameters", newer}}) ==
        "config.json: \"rope_parameters.rope_theta\": 1000000.0 contradicts \"rope_theta\"; remove "
        "the one that the weights were not trained with");
  for (const char* type : {"dynamic", "longrope", "proportional"}) {
    CHECK(
        Error(Llama(), {{"rope_scaling", {{"type", type}, {"factor", 2.0}}}}) ==
        "config.json: \"rope_scaling.type\": \"" + std::string(type) +
            "\" is not supported; use a model whose rope type is default, linear, llama3 or yarn");
  }
  CHECK(Error(Llama(), {{"rope_scaling", Without(rope, "factor")}}) ==
        "config.json: \"rope_scaling.factor\" is missing");
  CHECK(Error(Llama(), {{"rope_scaling", With(rope, {{"high_freq_factor", 1.0}})}}) ==
        "config.json: \"rope_scaling.high_freq_factor\": 1.0 is not above \"low_freq_factor\"");
  CHECK(Error(Llama(), {{"rope_scaling", With(rope, {{"factor", 0.5}})}}) ==
        "config.json: \"rope_scaling.factor\": 0.5 is below 1");
  CHECK(Error(Llama(), {{"rope_scaling", With(rope, {{"low_freq_factor", 0}})}}) ==
        "config.json: \"rope_scaling.low_freq_factor\": 0 is not above 0");
  CHECK(Error(Llama(), {{"rope_scaling", {{"mrope_section", {1, 2}}}}}) ==
        "config.json: \"rope_scaling.mrope_section\": [1,2] is not supported");
  CHECK(Error(Llama(), {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}) ==
        "config.json: \"rope_parameters.partial_rotary_factor\": 0.5 is not supported");
  CHECK(Error(Llama(), {{"rope_scaling", 2}}) == "config.json: \"rope_scaling\": 2 is no object");
  CHECK(Error(Llama(), {{"rope_theta", 0}}) == "config.json: \"rope_theta\": 0 is not above 0");
}

Json Mixtral() {
  return With(Llama("mixtral"), {{"num_local_experts", 8}, {"num_experts_per_tok", 2}});
}

Json Qwen3Moe() {
  return With(Llama("qwen3_moe"),
              {{"num_experts", 128}, {"num_experts_per_tok", 8}, {"moe_intermediate_size", 768}});
}

TEST_CASE("HuggingFaceConfig: two entries of rotary frequencies must say the same") {
  const Json scaling = Json::parse(R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,
    "high_freq_factor":4.0,"original_max_position_embeddings":8192})");
  const Json parameters = With(scaling, {{"rope_theta", 500000.0}});
  const Json plain = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  const HuggingFaceConfig expected = Parse(With(Llama(), {{"rope_scaling", scaling}}));
  REQUIRE(expected.model.rope_scaling().factor() == 8);
  for (const Json& entry : {scaling, Json(nullptr), Json::object()}) {
    CHECK(Parse(With(Llama(), {{"rope_scaling", entry}, {"rope_parameters", parameters}})) ==
          expected);
  }
  const std::string words = "contradicts \"rope_scaling\", with the theta of each; remove the one";
  // The scaling of one, and not of the other.
  CHECK_THAT(Error(Llama(), {{"rope_scaling", scaling}, {"rope_parameters", plain}}),
             Catch::Contains(words));
  CHECK_THAT(Error(Llama(), {{"rope_scaling", plain}, {"rope_parameters", parameters}}),
             Catch::Contains(words));
  // The theta of "rope_scaling" is 10000 where nothing gives it another.
  CHECK_THAT(Error(Without(Llama(), "rope_theta"),
                   {{"rope_scaling", scaling}, {"rope_parameters", parameters}}),
             Catch::Contains(words));
}

TEST_CASE("HuggingFaceConfig: numbers that are no JSON, as Python writes them") {
  const auto parse = [](const std::string& members) {
    std::string text = Llama().dump();
    return ParseHuggingFaceConfig(text.insert(1, members), "config.json");
  };
  const auto read =
      parse(R"("a":NaN,"b":[0.0,Infinity,{"c":-Infinity}],"NaN":"a \" Infinity",)").value();
  CHECK(read == Parse(Llama()));
  CHECK_THAT(std::string(parse(R"("rope_parameters":{"rope_theta":Infinity},)").status().message()),
             Catch::Contains("\"rope_parameters.rope_theta\": \"Infinity\" is no number"));
  CHECK_THAT(std::string(parse(R"("a":Infinite,)").status().message()),
             Catch::Contains("is no JSON"));
}

TEST_CASE("HuggingFaceConfig: experts") {
  const HuggingFaceConfig mixtral = Parse(Mixtral());
  CHECK(mixtral.model.experts() == 8);
  CHECK(mixtral.model.experts_per_token() == 2);
  CHECK(mixtral.model.inner() == 14336);
  CHECK(mixtral.model.norm_topk_prob());
  CHECK(Parse(Without(Mixtral(), "rope_theta")).model.theta() == 1e6);
  CHECK(Parse(Without(Mixtral(), "rms_norm_eps")).model.norm_epsilon() == 1e-5);
  CHECK(Parse(With(Mixtral(), {{"sliding_window", 512}})).model.window() == 512);
  const HuggingFaceConfig qwen = Parse(Qwen3Moe());
  CHECK(qwen.model.experts() == 128);
  CHECK(qwen.model.experts_per_token() == 8);
  CHECK(qwen.model.inner() == 768);
  CHECK_FALSE(qwen.model.norm_topk_prob());
  CHECK(Parse(With(Qwen3Moe(), {{"norm_topk_prob", true}})).model.norm_topk_prob());
  CHECK(Parse(Without(With(Qwen3Moe(), {{"num_local_experts", 128}}), "num_experts")) == qwen);
  CHECK(Parse(With(Qwen3Moe(), {{"mlp_only_layers", Json::array()}, {"decoder_sparse_step", 1}})) ==
        qwen);
  // Its windows are those of all layers, whatever max_window_layers says.
  CHECK(Parse(With(Qwen3Moe(), {{"sliding_window", 512}})).model.window() == 0);
  CHECK(
      Parse(With(Qwen3Moe(),
                 {{"sliding_window", 512}, {"use_sliding_window", true}, {"max_window_layers", 4}}))
          .model.window() == 512);

  CHECK(Error(Without(Mixtral(), "num_local_experts")) ==
        "config.json: \"num_local_experts\" is missing");
  CHECK(Error(Without(Qwen3Moe(), "num_experts")) == "config.json: \"num_experts\" is missing");
  CHECK(Error(Without(Qwen3Moe(), "moe_intermediate_size")) ==
        "config.json: \"moe_intermediate_size\" is missing");
  CHECK(Error(Mixtral(), {{"num_experts_per_tok", 9}}) ==
        "config.json: \"num_experts_per_tok\": 9 is more than the 8 experts");
  CHECK(Error(Mixtral(), {{"router_jitter_noise", 0.1}}) ==
        "config.json: \"router_jitter_noise\": 0.1 is not supported");
  CHECK(Error(Qwen3Moe(), {{"mlp_only_layers", {0, -3}}}) ==
        "config.json: \"mlp_only_layers\": [0,-3] is no list of layers; write their numbers, as in "
        "[0, 1]");
  CHECK(Error(Qwen3Moe(), {{"mlp_only_layers", 1}}) ==
        "config.json: \"mlp_only_layers\": 1 is no list of layers; write their numbers, as in [0, "
        "1]");
  CHECK(Error(Qwen3Moe(), {{"decoder_sparse_step", 64}}) ==
        "config.json: \"decoder_sparse_step\": 64 leaves no layer with experts; use a config.json "
        "of type qwen3");
  // Some layers have one MLP.
  const auto blocks = [](const Json& json) {
    const HuggingFaceConfig config = Parse(json);
    CHECK(Parse(Json::parse(ConfigText(config))) == config);
    return FieldText(*FindRow(ModelRows(), "blocks"), config.model);
  };
  const Json dense = With(Qwen3Moe(), {{"num_hidden_layers", 4}, {"intermediate_size", 100}});
  CHECK(blocks(With(dense, {{"decoder_sparse_step", 2}})) == "dense(inner=100 experts=0),mixture");
  CHECK(blocks(With(dense, {{"mlp_only_layers", {0, 2, 70}}, {"decoder_sparse_step", 1}})) ==
        "dense(inner=100 experts=0),mixture");
  CHECK(blocks(With(dense, {{"mlp_only_layers", {1}}, {"decoder_sparse_step", 2}})) ==
        "3*dense(inner=100 experts=0),mixture");
  CHECK_THAT(Error(With(Qwen3Moe(), {{"model_type", "qwen2_moe"}})),
             Catch::StartsWith("config.json: \"model_type\": \"qwen2_moe\" is not supported"));
}

TEST_CASE("HuggingFaceConfig: windows") {
  const auto blocks = [](const HuggingFaceConfig& config) {
    return FieldText(*FindRow(ModelRows(), "blocks"), config.model);
  };
  CHECK(Parse(With(Llama("mistral"), {{"sliding_window", 4096}})).model.window() == 4096);
  CHECK(Parse(Llama("mistral")).model.window() == 0);
  CHECK(Parse(With(Llama(), {{"sliding_window", 4096}})).model.window() == 0);  // Llama has none
  CHECK(Error(Without(Llama("mistral"), "sliding_window")) ==
        "config.json: \"sliding_window\" is missing");
  for (const char* type : {"qwen2", "qwen3"}) {
    const Json qwen = With(Llama(type), {{"sliding_window", 512}, {"use_sliding_window", true}});
    CHECK(Parse(With(Llama(type), {{"sliding_window", 512}})).model.window() == 0);
    CHECK(Parse(With(qwen, {{"max_window_layers", 0}})).model.window() == 512);
    CHECK(Parse(With(qwen, {{"max_window_layers", 4}})).model.window() == 0);
    CHECK(Parse(qwen).model.window() == 0);  // 28 layers have one by default
    CHECK(blocks(Parse(With(qwen, {{"max_window_layers", 3}}))) == "3*full,local(window=512)");
    CHECK(Error(qwen, {{"max_window_layers", -3}}) ==
          "config.json: \"max_window_layers\": -3 is no number of layers");
    const Json full = "full_attention", sliding = "sliding_attention";
    CHECK(
        Parse(With(qwen, {{"layer_types", {sliding, sliding, sliding, sliding}}})).model.window() ==
        512);
    CHECK(Parse(With(qwen, {{"layer_types", {full, full, full, full}}})).model.window() == 0);
    CHECK(blocks(Parse(With(qwen, {{"layer_types", {full, sliding, full, sliding}}}))) ==
          "full,local(window=512)");
  }
  // Classes of transformers whose layers are alike do not read the list.
  const Json mixed = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  for (const Json& json :
       {With(Llama("mistral"), {{"sliding_window", 512}}),
        With(Qwen3Moe(),
             {{"num_hidden_layers", 4}, {"sliding_window", 5}, {"use_sliding_window", true}})}) {
    CHECK_THAT(
        Error(json, {{"layer_types", mixed}}),
        Catch::EndsWith("does not list all layers, and this type has \"sliding_window\" in all"));
    CHECK(Parse(With(json, {{"layer_types", Json(4, "sliding_attention")}})) == Parse(json));
  }
  CHECK_THAT(Error(Llama("mistral"), {{"layer_types", mixed}}),
             Catch::EndsWith("has windows that the model does not use"));
  CHECK(Error(Llama(), {{"layer_types", {"full_attention"}}}) ==
        "config.json: \"layer_types\": [\"full_attention\"] is no list for 4 layers");
  const Json chunked = "chunked_attention";
  CHECK_THAT(Error(Llama(), {{"layer_types", {chunked, chunked, chunked, chunked}}}),
             Catch::EndsWith("is not supported: full_attention or sliding_attention is"));
  const Json sliding = "sliding_attention";
  CHECK_THAT(Error(Llama(), {{"layer_types", {sliding, sliding, sliding, sliding}}}),
             Catch::EndsWith("has windows that the model does not use"));
}

TEST_CASE("HuggingFaceConfig: other models are refused by key and value") {
  const auto unsupported = [](const Json& json, const std::string& key, const Json& value) {
    CHECK_THAT(
        Error(json, {{key, value}}),
        Catch::StartsWith("config.json: \"" + key + "\": " + value.dump() + " is not supported"));
  };
  CHECK(Error(Gpt2(), {{"model_type", "opt"}}) ==
        "config.json: \"model_type\": \"opt\" is not supported; use a model of one of gpt2, llama, "
        "mistral, mixtral, qwen2, qwen3, qwen3_moe, smollm3, gemma2, gemma3_text, gemma3, olmo2, "
        "olmo3, gpt_oss, glm4_moe");
  CHECK_THAT(Error(Without(Gpt2(), "model_type")),
             Catch::StartsWith("config.json: \"model_type\" is missing"));
  unsupported(Gpt2(), "activation_function", "gelu");
  unsupported(Gpt2(), "scale_attn_weights", false);
  unsupported(Gpt2(), "scale_attn_by_inverse_layer_idx", true);
  unsupported(Gpt2(), "add_cross_attention", true);
  unsupported(Gpt2(), "pruned_heads", {{"0", {1}}});
  CHECK(Error(Gpt2(), {{"n_inner", 1000}}) ==
        "config.json: \"n_inner\": 1000 is not 4 times \"n_embd\": 768");
  CHECK(Error(Gpt2(), {{"n_head", 7}}) ==
        "config.json: \"n_head\": 7 does not divide \"n_embd\": 768");
  unsupported(Llama(), "hidden_act", "gelu_pytorch_tanh");
  unsupported(Llama("mistral"), "attention_bias", true);
  unsupported(Llama(), "mlp_bias", true);
  unsupported(Llama(), "partial_rotary_factor", 0.5);
  unsupported(Llama(), "quantization_config", {{"quant_method", "gptq"}});
  unsupported(Llama(), "auto_map", {{"AutoModel", "x.Y"}});
  CHECK(Error(Llama(), {{"num_key_value_heads", 5}}) ==
        "config.json: \"num_key_value_heads\": 5 does not divide \"num_attention_heads\": 32");
  CHECK(Error(Llama(), {{"num_attention_heads", 48}}) ==
        "config.json: \"num_attention_heads\": 48 does not divide \"hidden_size\": 4096");
  CHECK(Error(Llama(), {{"head_dim", 33}}) == "config.json: \"head_dim\": 33 is odd");
  CHECK(Error(Without(Llama("qwen2"), "num_key_value_heads")) ==
        "config.json: \"num_key_value_heads\" is missing");
}

TEST_CASE("HuggingFaceConfig: missing positions are the default of the family") {
  CHECK(Parse(Without(Gpt2(), "n_positions")).model.sequence() == 1024);
  CHECK(Parse(Without(Llama(), "max_position_embeddings")).model.sequence() == 2048);
  CHECK(Parse(Without(Mixtral(), "max_position_embeddings")).model.sequence() == 131072);
  for (const auto& [type, positions] :
       {std::pair("mistral", 131072), std::pair("qwen2", 32768), std::pair("qwen3", 32768)}) {
    const Json json = With(Llama(type), {{"sliding_window", nullptr}});
    CHECK(Parse(Without(json, "max_position_embeddings")).model.sequence() == positions);
  }
}

TEST_CASE("HuggingFaceConfig: values of another kind are refused by key and value") {
  for (const char* key : {"vocab_size", "num_hidden_layers", "hidden_size", "intermediate_size",
                          "num_attention_heads", "max_position_embeddings"}) {
    if (key != std::string("max_position_embeddings")) {
      CHECK(Error(Without(Llama(), key)) == "config.json: \"" + std::string(key) + "\" is missing");
    }
    for (const Json& value : {Json(0), Json(-1), Json(1.5), Json("8"), Json(int64_t{1} << 33)}) {
      CHECK(Error(Llama(), {{key, value}}) == "config.json: \"" + std::string(key) +
                                                  "\": " + value.dump() +
                                                  " is no whole number from 1 to 4294967296");
    }
  }
  CHECK(Error(Llama(), {{"rms_norm_eps", -1}}) ==
        "config.json: \"rms_norm_eps\": -1 is no number that is 0 or more");
  CHECK(Error(Llama(), {{"tie_word_embeddings", 1}}) ==
        "config.json: \"tie_word_embeddings\": 1 is neither true nor false");
  CHECK(Error(Llama(), {{"torch_dtype", 1}}) == "config.json: \"torch_dtype\": 1 is no string");
  CHECK(Error(Llama(), {{"eos_token_id", -1}}) ==
        "config.json: \"eos_token_id\": -1 is neither an id of a token nor a list of ids");
  CHECK(std::string(ParseHuggingFaceConfig(R"({"a":1,"a":2})", "c.json").status().message()) ==
        "c.json: \"a\" has two values in one object; correct the file");
}

TEST_CASE("HuggingFaceConfig: what is written is read") {
  std::vector<HuggingFaceConfig> configs = {Parse(Gpt2())};
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    configs.push_back(Parse(Llama(type)));
    if (configs.back().model_type == "llama") continue;
    configs.push_back(configs.back());
    configs.back().model.set_window(1024);
  }
  proto::RopeScaling& scaling = *configs[1].model.mutable_rope_scaling();
  scaling.set_factor(8), scaling.set_low(1), scaling.set_high(4), scaling.set_positions(8192);
  for (const Json& json : {Mixtral(), Qwen3Moe(), With(Qwen3Moe(), {{"norm_topk_prob", true}})}) {
    configs.push_back(Parse(json));
    configs.push_back(configs.back());
    configs.back().model.set_window(1024);
  }
  configs.push_back(Parse(With(Llama(), {{"attention_bias", true}})));
  CHECK(configs.back().model.qkv_bias());
  CHECK(configs.back().model.proj_bias());
  for (const HuggingFaceConfig& config : configs) {
    INFO(ConfigText(config));
    const auto read = ParseHuggingFaceConfig(ConfigText(config), "config.json",
                                             GenerationConfigText(config), "g.json")
                          .value();
    CHECK(read == config);
  }
}

TEST_CASE("HuggingFaceConfig: files of a folder") {
  const TemporaryDirectory folder;
  CHECK_THAT(std::string(ReadHuggingFaceConfig(folder.path()).status().message()),
             Catch::StartsWith(folder.path() + "/config.json: "));
  folder.Write("config.json", Llama().dump());
  CHECK(ReadHuggingFaceConfig(folder.path())->end_ids == std::vector<int64_t>{128001, 128009});
  folder.Write("generation_config.json", R"({"eos_token_id":3})");
  CHECK(ReadHuggingFaceConfig(folder.path())->end_ids == std::vector<int64_t>{3});
}

}  // namespace
}  // namespace oneflow
