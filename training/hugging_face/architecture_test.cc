// Parameters of published models, as transformers counts them.
#include "training/hugging_face/architecture.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/model/block_lists.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "training/hugging_face/nearest_model.h"
#include "training/hugging_face/public_models.h"
#include "training/hugging_face/read_architecture.h"

namespace oneflow {
namespace {

// Of transformers 5.24, each model made on the device "meta" from the same numbers.
constexpr std::pair<const char*, int64_t> kPublished[] = {
    {"gpt-neox-20b", 20554567680},
    {"pythia-1b", 1011781632},
    {"pythia-6.9b", 6857302016},
    {"pythia-12b", 11846072320},
    {"gpt-j-6b", 6050882784},
    {"opt-1.3b", 1315758080},
    {"opt-6.7b", 6658473984},
    {"opt-66b", 65719701504},
    {"bloom-7b1", 7069016064},
    {"bloom", 176247271424},
    {"mpt-7b", 6649286656},
    {"falcon-7b", 6921720704},
    {"falcon-40b", 41303293952},
    {"phi-2", 2779683840},
    {"gemma-2b", 2506172416},
    {"gemma-7b", 8537680896},
    {"gemma-2-2b", 2614341888},
    {"gemma-2-9b", 9241705984},
    {"gemma-2-27b", 27227128320},
    {"gemma-3-1b", 999885952},
    {"olmo-2-7b", 7298617344},
    {"olmo-2-13b", 13716198400},
    {"olmo-2-32b", 32234279936},
    {"olmoe-1b-7b", 6919161856},
    {"starcoder2-15b", 15957889024},
    {"stablelm-2-1.6b", 1644515328},
    {"command-r-35b", 34980831232},
    {"granite-3.1-8b", 8170848256},
    {"glm-4-9b", 9399951360},
    {"glm-4.5", 352797814784},
    {"deepseek-v2-lite", 15706484224},
    {"deepseek-v3", 671026404352},
    {"kimi-k2", 1026408209408},
    {"gpt-oss-20b", 20914757184},
    {"gpt-oss-120b", 116829156672},
    {"llama-4-scout-17b", 107769861120},
    {"llama-4-maverick-17b", 400711848960},
    {"qwen2-57b-a14b", 57408658944},
    {"qwen3-next-80b-a3b", 79674391296},
    {"smollm3-3b", 3075098624},
    {"minitron-8b", 8271699968},
    {"nemotron-4-340b", 341029195776},
};

Architecture Read(const std::string& text) {
  const auto read = ReadArchitecture(text, "config.json");
  INFO(read.status());
  REQUIRE(read.ok());
  return read->architecture;
}

TEST_CASE("Architecture: parameters of published models") {
  size_t configs = 0;
  for (const auto& [name, parameters] : kPublished) {
    INFO(name);
    if (const auto preset = FindPublicModel(name)) {
      const proto::Model model =
          MakeModel("family: '" + preset->family + "' preset: '" + preset->preset + "'");
      CHECK(CountArchitecture(DescribeModel(model)).parameters == parameters);
      continue;
    }
    const PublicConfig* config = FindPublicConfig(name);
    REQUIRE(config != nullptr);
    ++configs;
    CHECK(CountArchitecture(Read(std::string(config->text))).parameters == parameters);
  }
  CHECK(configs == PublicConfigs().size());
}

TEST_CASE("Architecture: that of a model which can be built has its parameters and FLOPs") {
  for (const Family& family : Families()) {
    for (const Preset& preset : family.presets) {
      INFO(preset.name);
      proto::Model said;
      said.set_family(std::string(family.name));
      said.set_preset(preset.name);
      const proto::Model model = CompleteModel(said).value();
      const ArchitectureSize size = CountArchitecture(DescribeModel(model));
      CHECK(size.parameters == CountParameters(BuildModel(model)));
      // 6 for each parameter of products that a token reads, and 12 t d for each head and layer.
      const auto heads = static_cast<double>(model.heads());
      const double d = model.has_head_dim() ? static_cast<double>(model.head_dim())
                                            : static_cast<double>(model.hidden() / model.heads());
      double keys = 0;  // of all layers
      for (const proto::Model& block : ListBlocks(model)) {
        keys += static_cast<double>(block.window() > 0 ? std::min(block.window(), model.sequence())
                                                       : model.sequence());
      }
      const auto read = static_cast<double>(CountActiveParameters(model, BuildModel(model)));
      const auto table = static_cast<double>(model.vocab() * model.hidden());
      const double least = 6 * (read - (model.tied() ? 0 : table)) + 12 * heads * d * keys;
      CHECK(size.flops_a_token <= least);
      CHECK(size.flops_a_token >= 0.93 * least);  // norms, biases and positions are no products
      const NearestModel nearest = FindNearestModel(DescribeModel(model), preset.name).value();
      CHECK(nearest.differences.empty());
    }
  }
}

TEST_CASE("NearestModel: the differences add up to theirs minus the nearest's") {
  std::vector<std::string> exact;
  for (const PublicConfig& config : PublicConfigs()) {
    INFO(config.name);
    const NearestModel nearest =
        FindNearestModel(Read(std::string(config.text)), "config.json").value();
    if (nearest.differences.empty()) exact.emplace_back(config.name);
    int64_t parameters = 0;
    double flops = 0;
    for (const ModelDifference& difference : nearest.differences) {
      parameters += difference.parameters;
      flops += difference.flops_a_token;
    }
    CHECK(parameters == nearest.theirs.parameters - nearest.of_model.parameters);
    CHECK(flops == Approx(nearest.theirs.flops_a_token - nearest.of_model.flops_a_token));
    const proto::Graph graph = BuildNearestGraph(nearest, "x");
    CHECK(graph.name() == (nearest.differences.empty() ? "x" : "x (approximate)"));
    CHECK(graph.approximates_size() == static_cast<int>(nearest.differences.size()));
    CHECK(CountParameters(graph) == nearest.of_model.parameters);
    // It is near.
    CHECK(std::abs(static_cast<double>(parameters)) <
          0.1 * static_cast<double>(nearest.theirs.parameters));
  }
  CHECK(exact == std::vector<std::string>{"gemma-2b", "gemma-7b", "olmoe-1b-7b"});
}

TEST_CASE("NearestModel: what a reader of another system says") {
  // GPT-NeoX: parallel branches, a quarter of each head rotated; and squared ReLU of half a width.
  Architecture a{.layers = 4,
                 .hidden = 256,
                 .vocab = 1000,
                 .sequence = 64,
                 .heads = 4,
                 .groups = 4,
                 .head_dim = 64,
                 .inner = 512};
  a.rotary_share = 0.25;
  a.parallel = true;
  a.gated = false;
  a.activation = "relu2";
  a.others = {{"fused gradients, here not", 0, 0}};
  const NearestModel nearest = FindNearestModel(a, "run.sh").value();
  CHECK(DifferenceLines(nearest.differences) ==
        std::vector<std::string>{
            "an MLP of relu2 without a gate, width 512, here silu with a gate, width 320: "
            "+65,536 parameters, +262,144 bytes of them in f32, +393,216 FLOPs a token",
            "attention and MLP in parallel, here one after the other: no parameters, no FLOPs",
            "fused gradients, here not: no parameters, no FLOPs"});
  CHECK(nearest.model.inner() == 320);

  a.heads = 3;
  CHECK(std::string(FindNearestModel(a, "run.sh").status().message()) ==
        "run.sh: has 4 groups, which do not divide its 3 heads");
  a.heads = 4;
  a.layers = a.hidden = a.inner = 1 << 30;
  CHECK_THAT(std::string(FindNearestModel(a, "run.sh").status().message()),
             Catch::Contains("has more parameters than can be counted"));
  a.layers = 0;
  CHECK(std::string(FindNearestModel(a, "run.sh").status().message()) ==
        "run.sh: says no layers, which each decoder has; give the configuration of a decoder");
}

}  // namespace
}  // namespace oneflow
