#include "training/hugging_face/named_model.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <string>

#include "oneflow_core/base/temporary_directory.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/model.h"
#include "training/hugging_face/public_models.h"

namespace oneflow {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr char kLlama[] = R"({"model_type":"llama","vocab_size":128256,
  "num_hidden_layers":32,"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
  "num_key_value_heads":8,"max_position_embeddings":131072,"rms_norm_eps":1e-05,
  "rope_theta":500000.0,"hidden_act":"silu","tie_word_embeddings":false,"torch_dtype":"bfloat16",
  "rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
  "original_max_position_embeddings":8192}})";
constexpr char kMixture[] = R"({"model_type":"mixtral","vocab_size":256,"num_hidden_layers":2,
  "hidden_size":32,"intermediate_size":64,"num_attention_heads":4,"num_key_value_heads":2,
  "max_position_embeddings":64,"num_local_experts":4,"num_experts_per_tok":2,
  "sliding_window":null})";
constexpr char kPhi[] = R"({"model_type":"phi","vocab_size":256,"num_hidden_layers":2,
  "hidden_size":32,"intermediate_size":128,"num_attention_heads":4,"max_position_embeddings":64,
  "partial_rotary_factor":0.5,"tie_word_embeddings":false})";

std::string Error(const std::string& text, const NamedModelOptions& options = {}) {
  const auto named = FindNamedModel(text, options);
  REQUIRE_FALSE(named.ok());
  CHECK(absl::IsInvalidArgument(named.status()));
  return std::string(named.status().message());
}

proto::Model Said(const std::string& text) {
  proto::Model model;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &model));
  return model;
}

TEST_CASE("public names are presets") {
  const auto preset = [](const char* name) {
    const auto found = FindPublicModel(name);
    return found ? found->preset : "none";
  };
  CHECK(preset("meta-llama/Llama-3.1-8B") == "llama3.1-8b");
  CHECK(preset("meta-llama/Meta-Llama-3-70B-Instruct") == "llama3-70b");
  CHECK(preset("meta-llama/Llama-3.3-70B-Instruct") == "llama3.1-70b");
  CHECK(preset("meta-llama/Llama-2-7b-hf") == "llama2-7b");
  CHECK(preset("Qwen/Qwen2.5-7B-Instruct") == "qwen2.5-7b");
  CHECK(preset("Qwen/Qwen2-72B") == "qwen2.5-72b");
  CHECK(preset("Qwen/Qwen3-30B-A3B-Instruct-2507") == "qwen3-30b-a3b");
  CHECK(preset("Qwen/Qwen3-Coder-480B-A35B-Instruct") == "qwen3-480b-a35b");
  CHECK(preset("mistralai/Mixtral-8x7B-v0.1") == "mixtral-8x7b");
  CHECK(preset("mistralai/Mistral-7B-Instruct-v0.3") == "mistral-7b-v0.3");
  CHECK(preset("HuggingFaceTB/SmolLM2-1.7B-Instruct") == "smollm2-1.7b");
  CHECK(preset("TinyLlama/TinyLlama-1.1B-Chat-v1.0") == "tinyllama-1.1b");
  CHECK(preset("microsoft/phi-4") == "phi-4");
  CHECK(preset("google/gemma-2-9b-it") == "gemma2-9b");
  CHECK(preset("google/gemma-3-27b-pt") == "gemma3-27b");
  CHECK(preset("allenai/OLMo-2-0425-1B-Instruct") == "olmo2-1b");
  CHECK(preset("allenai/Olmo-3-1025-7B") == "olmo3-7b");
  CHECK(preset("allenai/Olmo-3-32B-Think") == "olmo3-32b");
  CHECK(preset("HuggingFaceTB/SmolLM3-3B-Base") == "smollm3-3b");
  CHECK(preset("openai/gpt-oss-120b") == "gpt-oss-120b");
  CHECK(preset("zai-org/GLM-4.5-Air") == "glm4.5-air");
  CHECK(preset("gpt2") == "gpt2-124m");
  CHECK(preset("openai-community/gpt2-xl") == "gpt2-1.5b");
  CHECK(preset("gpt3-175b") == "gpt3-175b");
  CHECK(FindPublicModel("gpt2")->family == "gpt");
  CHECK(preset("EleutherAI/gpt-neox-20b") == "none");
  CHECK(preset("") == "none");
  CHECK(FindPublicConfig("EleutherAI/gpt-neox-20b")->name == "gpt-neox-20b");
  CHECK(FindPublicConfig("deepseek-ai/DeepSeek-R1")->name == "deepseek-v3");
  CHECK(FindPublicConfig("llama3.1-8b") == nullptr);
  for (const PublicConfig& config : PublicConfigs()) CHECK(preset(config.name.data()) == "none");
}

TEST_CASE("NamedModel: a preset, its configuration, and a folder with it are the same graph") {
  const TemporaryDirectory folder;
  folder.Write("config.json", kLlama);
  const NamedModelOptions options{.said = Said("sequence: 4096")};
  const NamedModel preset = FindNamedModel("meta-llama/Llama-3.1-8B", options).value();
  CHECK(preset.name == "llama3.1-8b");
  CHECK(preset.origin == "preset llama3.1-8b");
  CHECK(preset.positions == 131072);
  CHECK(preset.model.sequence() == 4096);
  CHECK(preset.parameters == 8030261248);
  CHECK(preset.differences.empty());
  for (const std::string& path : {folder.path(), folder.path() + "/config.json"}) {
    CHECK(NamesModel(path));
    const NamedModel named = FindNamedModel(path, options).value();
    CHECK(named.name == "llama3.1-8b");
    CHECK(named.origin == folder.path() + "/config.json");
    CHECK(named.positions == 131072);
    CHECK(MessageDifferencer::Equals(named.graph, preset.graph));
  }
  CHECK(FindNamedModel(folder.path())->model.sequence() == 131072);
}

TEST_CASE("NamedModel: a configuration whose blocks differ is its preset") {
  const TemporaryDirectory folder;
  folder.Write("config.json", R"({"model_type":"gemma3","text_config":{"hidden_size":5376,
    "intermediate_size":21504,"num_hidden_layers":62,"num_attention_heads":32,
    "num_key_value_heads":16,"head_dim":128,"query_pre_attn_scalar":168,"sliding_window":1024,
    "rope_scaling":{"factor":8.0,"rope_type":"linear"}},"vision_config":{}})");
  const NamedModel named = FindNamedModel(folder.path()).value();
  CHECK(named.name == "gemma3-27b");
  CHECK(named.differences.empty());
  CHECK(named.parameters == 27009346304);
  CHECK(FindNamedModel("google/gemma-2b")->parameters == 2506172416);
}

TEST_CASE("NamedModel: what is said beside a configuration") {
  const TemporaryDirectory folder;
  folder.Write("config.json", kMixture);
  const NamedModel named =
      FindNamedModel(folder.path(), {.said = Said("slots: 1.5 vocab: 384")}).value();
  CHECK(named.name == "mixtral");
  CHECK(named.model.slots() == 1.5);
  CHECK(named.model.vocab() == 384);
  CHECK(named.model.aux_loss_coeff() == 0.01);
  CHECK(Error(folder.path(), {.said = Said("hidden: 64")}) ==
        "--hidden=64: is a number of the model that " + folder.path() +
            "/config.json says; leave it out, or change it in the file");
  CHECK(FindNamedModel("llama-tiny", {.said = Said("layers: 3")})->model.layers() == 3);
}

TEST_CASE("NamedModel: a type of another name that computes the same is exact") {
  const TemporaryDirectory folder;
  folder.Write("config.json", R"({"model_type":"phi3","vocab_size":100352,"num_hidden_layers":40,
    "hidden_size":5120,"intermediate_size":17920,"num_attention_heads":40,
    "num_key_value_heads":10,"max_position_embeddings":16384,"rms_norm_eps":1e-05,
    "rope_theta":250000,"hidden_act":"silu","sliding_window":null,"tie_word_embeddings":false,
    "auto_map":{"AutoModel":"x"}})");
  const NamedModel named = FindNamedModel(folder.path()).value();
  CHECK(named.name == "phi-4");
  CHECK(named.differences.empty());
  CHECK(named.parameters == 14659507200);
}

TEST_CASE("NamedModel: one that cannot be built is refused with all differences, or approximated") {
  const TemporaryDirectory folder;
  folder.Write("config.json", kPhi);
  const std::string path = folder.path() + "/config.json";
  const std::string error = Error(folder.path());
  INFO(error);
  CHECK_THAT(error, Catch::StartsWith(path + ": is of type phi, which differs from what can be "
                                             "built in 4 ways"));
  for (const char* part :
       {"rotary positions of 50 % of a head, here 64 learned ones: -2,048 parameters, -8,192 bytes",
        "attention and MLP in parallel", "1 norms in a block, here 2: -128 parameters",
        "biases of the head, here none: +256 parameters, +1,024 bytes of them in f32, +0 FLOPs",
        "--approximate plans the nearest model"}) {
    CHECK_THAT(error, Catch::Contains(part));
  }
  const NamedModel named = FindNamedModel(path, {.approximate = true}).value();
  CHECK(named.name == "phi");
  CHECK(named.graph.name() == "phi (approximate)");
  CHECK(named.graph.approximates_size() == 4);
  CHECK(named.model.family() == "gpt");
  const absl::Status refused = CheckExact(named.graph, "training");
  CHECK_THAT(std::string(refused.message()), Catch::Contains("no training runs it"));
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(CheckExact(FindNamedModel("llama-tiny")->graph, "training").ok());
  // It is kept in a graph's file.
  CHECK(ParseGraphSource(GraphFileText(named.graph), "x")->graph.approximates_size() == 4);

  const NamedModel neox = FindNamedModel("EleutherAI/gpt-neox-20b", {.approximate = true}).value();
  CHECK(neox.name == "gpt-neox-20b");
  CHECK(neox.parameters == 20554567680);
}

TEST_CASE("NamedModel: attributes of a known type, and a type that is not known") {
  const TemporaryDirectory folder;
  std::string text(kLlama);
  folder.Write("config.json", text.insert(1, R"("mlp_bias":true,"attention_bias":true,)"));
  CHECK_THAT(Error(folder.path()),
             Catch::Contains("in 1 way") && Catch::Contains("biases of the MLP, here none"));
  CHECK(FindNamedModel(folder.path(), {.approximate = true})->model.qkv_bias());
  text = kLlama;
  folder.Write("config.json",
               text.replace(text.find("llama"), 5, "zebra").insert(1, R"("use_stripes":true,)"));
  CHECK_THAT(Error(folder.path()),
             Catch::Contains("the type zebra is not known: read by the usual names of keys, not "
                             "understood: use_stripes"));
  CHECK(FindNamedModel(folder.path(), {.approximate = true})->parameters == 8030261248);
  // Refused for another reason than its kind.
  text = kLlama;
  folder.Write("config.json", text.insert(1, R"("auto_map":{"AutoModel":"x"},)"));
  CHECK_THAT(Error(folder.path(), {.approximate = true}), Catch::Contains("\"auto_map\""));
}

TEST_CASE("NamedModel: what names no model") {
  const TemporaryDirectory folder;
  CHECK_FALSE(NamesModel("no-such-model"));
  CHECK_FALSE(NamesModel(""));
  CHECK_THAT(Error("no-such-model"),
             Catch::StartsWith("no-such-model: is no file, no folder, and no name of a model"));
  CHECK_THAT(Error("lama3.1-8b"), Catch::EndsWith("did you mean llama3.1-8b?"));
  folder.Write("model.safetensors", "weights");
  CHECK_THAT(Error(folder.path() + "/model.safetensors"),
             Catch::EndsWith("is a file of weights; give the config.json beside it"));
  CHECK_THAT(Error(folder.path()), Catch::Contains("has no config.json"));
  folder.Write("notes.txt", "text");
  CHECK_FALSE(NamesModel(folder.path() + "/notes.txt"));
  CHECK_THAT(Error(folder.path() + "/notes.txt"), Catch::Contains("is a file that is no JSON"));
  folder.Write("tokenizer.json", R"({"version":"1.0","model":{}})");
  CHECK_THAT(Error(folder.path() + "/tokenizer.json"),
             Catch::Contains("is JSON, and no config.json of a model"));
  folder.Write("broken.json", "{");
  CHECK_THAT(Error(folder.path() + "/broken.json"), Catch::Contains("is no JSON"));
  const auto refused = [&](const std::string& text, const std::string& part) {
    folder.Write("c.json", text);
    CHECK_THAT(Error(folder.path() + "/c.json", {.approximate = true}), Catch::Contains(part));
  };
  refused(R"({"model_type":"t5","is_encoder_decoder":true})", "\"is_encoder_decoder\": true");
  refused(R"({"model_type":"bert","architectures":["BertForMaskedLM"],"hidden_size":8})",
          "is of no decoder");
  refused(R"({"model_type":"mamba","state_size":16,"hidden_size":8})",
          "is of a state space or a recurrence");
  refused(R"({"model_type":"zebra","hidden_size":8})", "\"num_hidden_layers\" is missing");
}

}  // namespace
}  // namespace oneflow
