// Adapters in PEFT's form: the configuration, the names of tensors, and W + factor A B.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/model.h"
#include "training/hugging_face/adapter_config.h"
#include "training/hugging_face/adapter_tensors.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;

proto::Graph SmallGraph(const std::string& family, bool tied) {
  proto::Model said;
  said.set_family(family);
  said.set_layers(2), said.set_heads(4), said.set_hidden(8), said.set_sequence(8);
  said.set_vocab(16), said.set_tied(tied);
  if (family == "llama") said.set_groups(2), said.set_inner(24);
  return BuildModel(*CompleteModel(said));
}

proto::Graph Adapted(const std::string& family, const std::vector<std::string>& targets,
                     const std::string& train_only = "", bool tied = true) {
  proto::Lora lora;
  lora.set_rank(2);
  for (const std::string& target : targets) lora.add_target(target);
  proto::Graph graph = AddAdapters(SmallGraph(family, tied), lora).value();
  return train_only.empty() ? graph : TrainOnly(std::move(graph), train_only).value();
}

std::string ErrorText(const absl::Status& status) { return std::string(status.message()); }

}  // namespace

TEST_CASE("adapter: a configuration is read, written, and refused by name and value") {
  const std::string text =
      R"({"peft_type": "LORA", "r": 4, "lora_alpha": 6, "lora_dropout": 0.1, "use_rslora": true,
          "target_modules": ["q_proj", "k_proj"], "modules_to_save": ["lm_head"], "bias": "none",
          "fan_in_fan_out": true, "rank_pattern": {}, "init_lora_weights": true,
          "base_model_name_or_path": "org/name", "use_dora": false, "unknown": 3})";
  const AdapterConfig config = ParseAdapterConfig(text, "a.json").value();
  CHECK(config.lora.rank() == 4);
  CHECK(config.lora.alpha() == 6);
  CHECK(config.lora.dropout() == 0.1);
  CHECK(config.lora.rslora());
  CHECK(config.fan_in_fan_out);
  CHECK(config.base == "org/name");
  CHECK(config.targets == std::vector<std::string>{"q_proj", "k_proj"});
  CHECK(config.saved_modules == std::vector<std::string>{"lm_head"});
  const std::string written = AdapterConfigText(config);
  CHECK_THAT(written, Contains("\"lora_alpha\": 6,"));
  const AdapterConfig again = ParseAdapterConfig(written, "a.json").value();
  CHECK(AdapterConfigText(again) == written);
  CHECK(again.targets == config.targets);

  const auto refused = [&](const std::string& field) {
    return ErrorText(
        ParseAdapterConfig("{\"peft_type\": \"LORA\", " + field + "}", "a.json").status());
  };
  CHECK_THAT(refused("\"use_dora\": true"), Contains("a.json") && Contains("\"use_dora\": true"));
  CHECK_THAT(refused("\"bias\": \"lora_only\""), Contains("\"bias\": \"lora_only\""));
  CHECK_THAT(refused("\"layers_to_transform\": [0]"), Contains("\"layers_to_transform\": [0]"));
  CHECK_THAT(refused("\"init_lora_weights\": \"pissa\""), Contains("\"pissa\""));
  CHECK_THAT(refused("\"r\": 1.5"), Contains("\"r\": 1.5"));
  CHECK_THAT(ErrorText(ParseAdapterConfig("{\"peft_type\": \"IA3\"}", "a.json").status()),
             Contains("is of peft_type IA3"));
  CHECK(refused("\"init_lora_weights\": \"gaussian\"").empty());
}

TEST_CASE("adapter: tensors have PEFT's names, and targets name no other layers") {
  const AdapterTensors llama =
      ListAdapterTensors(Adapted("llama", {"attn", "mlp.up"}), LlamaFiles()).value();
  REQUIRE(llama.tensors.size() == 2 * 5 * 2);
  CHECK(llama.targets ==
        std::vector<std::string>{"k_proj", "o_proj", "q_proj", "up_proj", "v_proj"});
  CHECK(llama.saved.empty());
  const auto find = [](const AdapterTensors& all, const std::string& name) {
    for (const AdapterTensor& tensor : all.tensors) {
      if (tensor.name == name) return TensorDims(tensor.part, tensor.variable.dims, 0);
    }
    return Dims();
  };
  const std::string layer = "base_model.model.model.layers.1.";
  CHECK(find(llama, layer + "self_attn.q_proj.lora_A.weight") == Dims{2, 8});
  CHECK(find(llama, layer + "self_attn.q_proj.lora_B.weight") == Dims{8, 2});
  CHECK(find(llama, layer + "self_attn.k_proj.lora_B.weight") == Dims{4, 2});
  CHECK(find(llama, layer + "mlp.up_proj.lora_B.weight") == Dims{24, 2});

  // Layers beside experts, whose names experts have.
  const std::vector<std::string> mixed = {"mlp.down_proj", "o_proj", "shared_experts.up_proj"};
  CHECK(FindExpertTargets(Glm4MoeFiles(), mixed) ==
        std::vector<std::string>{"mlp.down_proj", "shared_experts.up_proj"});
  CHECK(FindExpertTargets(LlamaFiles(), mixed).empty());
  CHECK(FindExpertTargets(MixtralFiles(), mixed).empty());

  // Two layers of a block of GPT-2 are named c_proj.
  const AdapterTensors gpt = ListAdapterTensors(Adapted("gpt", {"attn"}), GptFiles()).value();
  CHECK(gpt.targets == std::vector<std::string>{"attn.c_proj", "c_attn"});
  CHECK(find(gpt, "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight") == Dims{24, 2});

  const AdapterTensors saved =
      ListAdapterTensors(Adapted("llama", {"q"}, "head.*,h.1.norm_1", false), LlamaFiles()).value();
  CHECK(saved.saved == std::vector<std::string>{"layers.1.input_layernorm", "lm_head"});
  CHECK(find(saved, "base_model.model.lm_head.weight") == Dims{16, 8});
  CHECK_THAT(ErrorText(ListAdapterTensors(Adapted("llama", {"q"}, "wte"), LlamaFiles()).status()),
             Contains("variable wte") && Contains("--merge"));
  CHECK_THAT(
      ErrorText(ListAdapterTensors(Adapted("gpt", {"mlp"}, "h.*.ln_1.bias"), GptFiles()).status()),
      Contains("ln_1") && Contains("--merge"));
}

TEST_CASE("adapter: what is added to a slice of a weight is factor A B") {
  // A weight [3, 2, 4, 5] with one axis of inputs; the part is [1, 3) of axis 2.
  LoadedAdapter adapter = {.rank = 2, .in_axes = 1, .box = {{0, 0, 1, 0}, {3, 2, 2, 5}}};
  adapter.factor = 0.5;
  for (int i = 0; i < 3 * 2; ++i) adapter.a.push_back(static_cast<float>(i + 1));
  for (int i = 0; i < 2 * 20; ++i) adapter.b.push_back(static_cast<float>(i % 7));
  const Slice slice = {{1, 0, 0, 1}, {2, 2, 4, 3}};
  std::vector<float> values(slice.elements(), 1);
  AddProduct(adapter, slice, values);
  int64_t at = 0;
  for (int64_t i = 1; i < 3; ++i) {
    for (int64_t g = 0; g < 2; ++g) {
      for (int64_t r = 0; r < 4; ++r) {
        for (int64_t d = 1; d < 4; ++d, ++at) {
          float expected = 1;
          if (r == 1 || r == 2) {
            const int64_t out = (g * 2 + r - 1) * 5 + d;
            for (int k = 0; k < 2; ++k) {
              expected += 0.5F * adapter.a[i * 2 + k] * adapter.b[k * 20 + out];
            }
          }
          CHECK(values[at] == Approx(expected));
        }
      }
    }
  }
}

}  // namespace oneflow
