#include "training/hugging_face/update_config.h"

#include <catch2/catch.hpp>
#include <string>

#include "nlohmann/json.hpp"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

// A text as releases 5 of transformers write it, with keys that are not read.
constexpr char kText[] = R"({
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama", "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 0,
  "dtype": "bfloat16",
  "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2,
  "num_key_value_heads": 2, "max_position_embeddings": 96, "rms_norm_eps": 1e-05,
  "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
  "odd": [Infinity, "a,\"}"],
  "vocab_size": 128, "transformers_version": "5.1.0"
})";

HuggingFaceConfig Parse(const std::string& text) {
  const auto config = ParseHuggingFaceConfig(text, "config.json");
  INFO(text << config.status());
  REQUIRE(config.ok());
  return *config;
}

TEST_CASE("UpdateConfigText: the imported text, where the model is the same") {
  HuggingFaceConfig config = Parse(kText);
  CHECK(UpdateConfigText(kText, config, false) == kText);
  // Ids are those of the folder.
  config.begin_id.reset();
  config.end_ids = {7};
  CHECK(UpdateConfigText(kText, config, false) == kText);
}

TEST_CASE("UpdateConfigText: another type of elements changes one value") {
  HuggingFaceConfig config = Parse(kText);
  config.dtype = "f32";
  const std::string text = UpdateConfigText(kText, config, true);
  CHECK(Parse(text) == config);
  CHECK_THAT(text, Catch::Contains("  \"dtype\": \"float32\",\n  \"hidden_size\": 64,\n"));
  CHECK_THAT(text, Catch::Contains("\"odd\": [Infinity, \"a,\\\"}\"],\n"));
  CHECK_THAT(text, !Catch::Contains("torch_dtype"));
}

TEST_CASE("UpdateConfigText: another model keeps the keys that do not describe it") {
  HuggingFaceConfig config = Parse(kText);
  config.model.set_theta(1000);
  config.model.set_tied(true);
  const std::string text = UpdateConfigText(kText, config, false);
  CHECK(Parse(text) == config);
  for (const char* kept : {"\"pad_token_id\": 0,", "\"eos_token_id\": [2, 3],",
                           "\"transformers_version\": \"5.1.0\"", "\"odd\": [Infinity,"}) {
    CHECK_THAT(text, Catch::Contains(kept));
  }
  CHECK_THAT(text, !Catch::Contains("rope_parameters"));
  config.model_type = "mistral";
  CHECK(UpdateConfigText(kText, config, false) == ConfigText(config));
  CHECK(UpdateConfigText("{", config, false) == ConfigText(config));
}

TEST_CASE("UpdateConfigText: rates of dropout stay where the graph has none") {
  const std::string gpt2 = R"({"model_type":"gpt2","vocab_size":8,"n_layer":1,"n_embd":4,
    "n_head":2,"n_positions":4,"embd_pdrop":0.1,"attn_pdrop":0.1,"resid_pdrop":0.1})";
  HuggingFaceConfig config = Parse(gpt2);
  CHECK(config.model.dropout() == 0.1);
  config.model.set_dropout(0);
  CHECK(UpdateConfigText(gpt2, config, false) == gpt2);
  config.model.set_dropout(0.2);
  CHECK(Parse(UpdateConfigText(gpt2, config, false)) == config);
}

}  // namespace
}  // namespace oneflow
