#include "training/hugging_face/model_graph.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/block_lists.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

HuggingFaceConfig Make(const std::string& type, const std::string& text) {
  return {.model_type = type, .model = ClearTraining(MakeModel(text))};
}

HuggingFaceConfig Gpt2() {
  return Make("gpt2",
              "family: 'gpt' layers: 3 heads: 4 hidden: 32 sequence: 16 vocab: 100 tied: true "
              "norm_epsilon: 1e-6 dropout: 0");
}

HuggingFaceConfig Llama(const std::string& type, const std::string& experts = "experts: 0") {
  return Make(type,
              absl::StrCat("family: 'llama' layers: 2 heads: 6 hidden: 32 sequence: 64 "
                           "vocab: 100 tied: false norm_epsilon: 1e-6 groups: 2 inner: 48 "
                           "head_dim: 10 theta: 500000 rope_scaling {} window: 0 qkv_bias: ",
                           type == "qwen2", " qk_norm: ", type.starts_with("qwen3"), " ", experts));
}

std::vector<HuggingFaceConfig> Configs() {
  std::vector<HuggingFaceConfig> configs = {Gpt2(), Gpt2()};
  configs[1].model.set_tied(false);
  for (const char* type : {"llama", "llama", "mistral", "qwen2", "qwen3"}) {
    configs.push_back(Llama(type));
  }
  proto::RopeScaling& scaling = *configs[3].model.mutable_rope_scaling();
  scaling.set_factor(8), scaling.set_low(1), scaling.set_high(4), scaling.set_positions(32);
  configs[3].model.set_tied(true);
  configs[4].model.set_window(16);
  configs.push_back(Llama("mixtral", "experts: 4 experts_per_token: 3 norm_topk_prob: true"));
  configs.push_back(Llama("qwen3_moe", "experts: 4 experts_per_token: 3 norm_topk_prob: false"));
  configs.push_back(Llama("qwen2",
                          "experts: 0 blocks { classes { name: 'a' } "
                          "classes { name: 'b' numbers { window: 4 } } "
                          "run { count: 1 index: 0 } run { count: 1 index: 1 } }"));
  configs.push_back(Llama("llama", "experts: 0 proj_bias: true"));
  configs.back().model.set_qkv_bias(true);
  configs.push_back(Make("smollm3",
                         "family: 'llama' layers: 6 hidden: 32 heads: 4 blocks { "
                         "classes { name: 'rotary' } "
                         "classes { name: 'plain' numbers { rotary_share: 0 } } "
                         "run { count: 3 index: 0 } run { count: 1 index: 1 } }"));
  for (const char* preset : {"gemma2-2b", "gemma2-27b"}) {
    configs.push_back(Make("gemma2", absl::StrCat("family: 'gemma' preset: '", preset, "'")));
  }
  for (const char* preset : {"gemma3-270m", "gemma3-1b", "gemma3-27b"}) {
    configs.push_back(Make("gemma3_text", absl::StrCat("family: 'gemma' preset: '", preset, "'")));
  }
  configs.push_back(Make("olmo2", "family: 'olmo' preset: 'olmo2-1b'"));
  configs.push_back(Make("olmo3", "family: 'olmo' preset: 'olmo3-7b'"));
  return configs;
}

std::string Error(const proto::Graph& graph) {
  const auto config = DescribeModelGraph(graph);
  REQUIRE_FALSE(config.ok());
  CHECK(absl::IsInvalidArgument(config.status()));
  return std::string(config.status().message());
}

proto::Op* FindOp(proto::Graph& graph, const std::string& name) {
  for (proto::Op& op : *graph.mutable_op()) {
    if (op.name() == name) return &op;
  }
  FAIL(name);
  return nullptr;
}

TEST_CASE("ModelGraph: a configuration is that of its graph, in every family") {
  for (const HuggingFaceConfig& config : Configs()) {
    INFO(ConfigText(config));
    const auto graph = BuildModelGraph(config, {}).value();
    const auto described = DescribeModelGraph(graph).value();
    CHECK(described == config);
  }
}

TEST_CASE("ModelGraph: every number of a model is in its graph") {
  for (const char* text :
       {"family: 'gpt' preset: 'tiny' bias: false dropout: 0.1 masks: 'stored'",
        "family: 'gpt' preset: 'tiny' attention: 'unfused'",
        "family: 'llama' preset: 'llama-tiny' window: 4 qkv_bias: true",
        "family: 'llama' preset: 'llama-tiny' experts: 4 shared_inner: 8 scores: 'sigmoid' "
        "bias_rate: 0.001 slots: 1.5 aux_loss_coeff: 0.02 z_loss_coeff: 0.001 norm_topk_prob: "
        "false"}) {
    proto::Model model = MakeModel(text);
    model.clear_preset();
    const auto described = DescribeModel(BuildModel(model));
    REQUIRE(described.ok());
    CHECK(described->DebugString() == model.DebugString());
  }
  for (const Family& family : Families()) {
    for (const Preset& preset : family.presets) {
      INFO(preset.name);
      proto::Model model = MakeModel(
          absl::StrCat("family: '", ToAbsl(family.name), "' preset: '", preset.name, "'"));
      model.set_layers(std::min<int64_t>(model.layers(), 8));
      const proto::Graph graph = BuildModel(model);
      const auto described = DescribeModel(graph);
      INFO(described.status());
      REQUIRE(described.ok());
      CHECK(ListDifferences(model, *described).empty());
    }
  }
}

TEST_CASE("ModelGraph: blocks of equal numbers are a class") {
  const auto text = [](const char* family, int64_t layers, const char* numbers) {
    proto::Model model = MakeModel(absl::StrCat("family: '", family, "' ", numbers));
    model.set_layers(layers);
    const proto::Model described = DescribeModel(BuildModel(model)).value();
    return FieldText(*FindRow(ModelRows(), "blocks"), described);
  };
  // A pattern that is cut at the end, one that is not repeated, and none.
  constexpr char kGemma[] = "preset: 'gemma3-4b'", kDense[] = "preset: 'glm4.5'";
  constexpr char kLocal[] = "5*local,full(theta=1000000 rope_scaling=linear:8 window=0)";
  CHECK(text("gemma", 8, kGemma) == kLocal);
  CHECK(text("gemma", 34, kGemma) == kLocal);
  CHECK(text("gemma", 6, kGemma) == kLocal);
  CHECK(text("gemma", 5, kGemma) == "none");
  CHECK(text("glm", 6, kDense) == "3*dense(inner=12288 experts=0),*mixture");
  CHECK(text("glm", 4, kDense) == "3*dense(inner=12288 experts=0),mixture");
  CHECK(text("gpt_oss", 5, "preset: 'gpt-oss-20b'") == "local,full(window=0)");
  CHECK(text("llama", 36, "preset: 'smollm3-3b'") == "3*rotary,plain(rotary_share=0)");
  // Three classes of one kind.
  CHECK(text("llama", 5,
             "layers: 5 blocks { classes { name: 'a' numbers { window: 2 } } "
             "classes { name: 'b' numbers { window: 3 } } "
             "classes { name: 'c' } run { count: 1 index: 0 } "
             "run { count: 2 index: 1 } run { count: 2 index: 2 } }") ==
        "local(window=2),2*local2(window=3),*full");
}

TEST_CASE("ModelGraph: options") {
  HuggingFaceConfig padded = *DescribeModelGraph(*BuildModelGraph(Gpt2(), {.vocab = 128}));
  CHECK(padded.model.vocab() == 128);
  padded.model.set_vocab(100);
  CHECK(padded == Gpt2());
  const auto shorter = BuildModelGraph(Llama("llama"), {.sequence = 20});
  CHECK(DescribeModelGraph(*shorter)->model.sequence() == 20);
  const auto error = [](const HuggingFaceConfig& config, int64_t sequence) {
    return std::string(BuildModelGraph(config, {.sequence = sequence}).status().message());
  };
  CHECK(error(Llama("llama"), 65) ==
        "--sequence=65: is more than the 64 positions of the model; leave it out, or use a smaller "
        "number");
  CHECK(error(Gpt2(), 8) ==
        "--sequence=8: is not 16, for which this model has embedded positions; leave it out");
}

TEST_CASE("ModelGraph: numbers that no graph can have") {
  HuggingFaceConfig config = Llama("llama");
  config.model.set_layers(1000000);
  CHECK_THAT(std::string(BuildModelGraph(config, {}).status().message()),
             Catch::StartsWith("config.json, in the words of `oneflow model`: --layers=1000000: is "
                               "out of range; use 1 to 10000"));
}

TEST_CASE("ModelGraph: what does not matter is not compared") {
  for (const HuggingFaceConfig& config : Configs()) {
    proto::Graph graph = *BuildModelGraph(config, {});
    for (proto::Op& op : *graph.mutable_op()) {
      op.set_stage(1);
      if (op.kind() != "variable") continue;
      op.mutable_attr()->clear();
      (*op.mutable_attr())["gather_once"].set_s("data");
    }
    CHECK(*DescribeModelGraph(graph) == config);
  }
}

TEST_CASE("ModelGraph: capacities of experts and losses of routers are of training") {
  proto::Model mixture = MakeModel("family: 'llama' preset: 'llama-tiny'");
  mixture.set_experts(4);
  const HuggingFaceConfig config = *DescribeModelGraph(BuildModel(mixture));
  mixture.set_slots(1.25), mixture.set_slot_groups(2), mixture.set_routed_positions(8),
      mixture.set_aux_loss_coeff(0.5), mixture.set_z_loss_coeff(0.001);
  CHECK(*DescribeModelGraph(BuildModel(mixture)) == config);
  // An imported model has none of them.
  const proto::Graph graph = *BuildModelGraph(config, {});
  for (const proto::Op& op : graph.op()) {
    for (const char* attr : {"capacity", "run", "balance", "z"}) {
      CHECK(op.attr().count(attr) == 0);
    }
  }
}

TEST_CASE("ModelGraph: a graph that computes something else is refused by the op") {
  const std::string hint = "; export a model of `oneflow model` or `oneflow import`";
  proto::Graph gpt = *BuildModelGraph(Gpt2(), {});
  FindOp(gpt, "h.1.mlp.gelu")->set_kind("dropout");
  CHECK(Error(gpt) ==
        "graph \"gpt2\": differs from a model of the family gpt, as `oneflow model` makes it, in "
        "h.1.mlp.gelu: it is a dropout there, and a gelu here" +
            hint);
  gpt = *BuildModelGraph(Gpt2(), {});
  (*FindOp(gpt, "h.2.ln_1")->mutable_attr())["epsilon"].set_f(1e-3);
  CHECK_THAT(Error(gpt),
             Catch::Contains("in h.2.ln_1: its attribute epsilon is f: 0.001 there, and "
                             "f: 1e-06 here"));
  gpt = *BuildModelGraph(Gpt2(), {});
  FindOp(gpt, "h.0.mlp.add")->set_input(0, "embed");
  CHECK_THAT(Error(gpt), Catch::Contains("in h.0.mlp.add: its inputs is embed h.0.mlp.proj there, "
                                         "and h.0.attn.add h.0.mlp.proj here"));
  gpt = *BuildModelGraph(Gpt2(), {});
  gpt.mutable_op()->RemoveLast();
  CHECK_THAT(Error(gpt), Catch::Contains("it is a softmax_cross_entropy here only"));

  proto::Graph llama = *BuildModelGraph(Llama("llama"), {});
  (*FindOp(llama, "h.1.attn.k_rotary")->mutable_attr())["theta"].set_f(10000);
  CHECK_THAT(Error(llama), Catch::Contains("in h.1.attn.k_rotary: its attribute theta is f: 10000 "
                                           "there, and f: 500000 here"));
  llama = *BuildModelGraph(Llama("mistral"), {});
  (*FindOp(llama, "h.1.attn.core")->mutable_attr())["window"].set_i(8);
  // A window of some blocks is no mistake: it is a class of blocks.
  CHECK(DescribeModelGraph(llama)->model_type == "smollm3");
}

TEST_CASE("ModelGraph: models without files of Hugging Face") {
  proto::Model gpt = MakeModel("family: 'gpt' preset: 'tiny'");
  gpt.set_bias(false);
  const std::string hint =
      "that is known here, has not; export a model of `oneflow model` or `oneflow import` that has "
      "none";
  CHECK(Error(BuildModel(gpt)) ==
        "graph \"tiny\": has bias=false, which gpt2, the nearest type of transformers " + hint);
  const auto error = [&](const char* numbers) {
    return Error(
        BuildModel(MakeModel(absl::StrCat("family: 'llama' preset: 'llama-tiny' ", numbers))));
  };
  const auto lost = [&](const char* number, const char* type) {
    return absl::StrCat("graph \"llama-tiny\": has ", number, ", which ", type,
                        ", the nearest type of transformers ", hint);
  };
  const char* const mixture = "experts: 4 ";
  const auto of_mixture = [&](const char* numbers) {
    return error(absl::StrCat(mixture, numbers).c_str());
  };
  CHECK(error("qkv_bias: true qk_norm: true") == lost("qkv_bias=true", "qwen3"));
  CHECK(error("sinks: true") == lost("sinks=true", "llama"));
  CHECK(error("attention_cap: 30") == lost("attention_cap=30", "llama"));
  CHECK(error("norms: 'both'") == lost("norms=both", "llama"));
  CHECK(DescribeModelGraph(BuildModel(MakeModel("family: 'llama' preset: 'llama-tiny' experts: 4")))
            ->model_type == "mixtral");
  CHECK(of_mixture("qkv_bias: true") == lost("qkv_bias=true", "mixtral"));
  CHECK(of_mixture("shared_inner: 16") == lost("shared_inner=16", "mixtral"));
  CHECK(of_mixture("bias_rate: 0.001") == lost("bias_rate=0.001", "mixtral"));
  CHECK(of_mixture("scores: 'sigmoid'") == lost("scores=sigmoid", "mixtral"));
  CHECK(of_mixture("norm_topk_prob: false") == lost("norm_topk_prob=false", "mixtral"));
  proto::Graph other;
  other.set_name("other");
  CHECK_THAT(Error(other), Catch::StartsWith("graph \"other\": is no model of a family that has "
                                             "files of Hugging Face; "));
  proto::Graph partial = *BuildModelGraph(Llama("llama"), {});
  FindOp(partial, "h.0.mlp.gate.weight")->set_name("x");
  CHECK_THAT(Error(partial), Catch::Contains("has no blocks of a decoder"));
}

}  // namespace
}  // namespace oneflow
