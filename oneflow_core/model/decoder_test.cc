// Decoders whose blocks differ, and those that differ from Llama.
#include "oneflow_core/model/decoder.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/block_numbers.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

proto::Model SmallDecoder(const std::string& family, std::string_view blocks,
                          const std::string& more) {
  proto::Model said;
  REQUIRE(google::protobuf::TextFormat::ParseFromString("family: '" + family + "' " + more, &said));
  REQUIRE(SetField(*FindRow(ModelRows(), "blocks"), blocks, &said).ok());
  return said;
}

std::string DecoderError(std::string_view blocks, const std::string& more) {
  return std::string(ToStd(CompleteModel(SmallDecoder("llama", blocks, more)).status().message()));
}

const proto::Op* FindOpNamed(const proto::Graph& graph, const std::string& name) {
  for (const proto::Op& op : graph.op()) {
    if (op.name() == name) return &op;
  }
  return nullptr;
}

std::string Classes(const proto::Model& model) {
  std::string text;
  for (int64_t i = 0; i < model.layers(); ++i) text += "abcdef"[FindBlockClass(model, i)];
  return text;
}

}  // namespace

TEST_CASE("presets of decoders have the published numbers of parameters") {
  // Instantiated by transformers 5.24 on the meta device.
  const struct {
    const char *family, *preset;
    int64_t parameters, active;
  } published[] = {{"gemma", "gemma2-2b", 2614341888, 0},
                   {"gemma", "gemma2-9b", 9241705984, 0},
                   {"gemma", "gemma2-27b", 27227128320, 0},
                   {"gemma", "gemma3-270m", 268098176, 0},
                   {"gemma", "gemma3-1b", 999885952, 0},
                   {"gemma", "gemma3-4b", 3880263168, 0},
                   {"gemma", "gemma3-12b", 11766034176, 0},
                   {"gemma", "gemma3-27b", 27009346304, 0},
                   {"gpt_oss", "gpt-oss-20b", 20914757184, 4187440704},
                   {"gpt_oss", "gpt-oss-120b", 116829156672, 5711982912},
                   {"olmo", "olmo2-1b", 1484916736, 0},
                   {"olmo", "olmo2-7b", 7298617344, 0},
                   {"olmo", "olmo2-13b", 13716198400, 0},
                   {"olmo", "olmo2-32b", 32234279936, 0},
                   {"olmo", "olmo3-7b", 7298011136, 0},
                   {"olmo", "olmo3-32b", 32233522176, 0},
                   {"glm", "glm4.5", 352797814784, 33632251904},
                   {"glm", "glm4.5-air", 106852245504, 13424123904},
                   {"llama", "smollm3-3b", 3075098624, 0}};
  for (const auto& row : published) {
    INFO(row.preset);
    const proto::Model model =
        MakeModel(absl::StrCat("family: '", row.family, "' preset: '", row.preset, "'"));
    const proto::Graph graph = BuildModel(model);
    CHECK(CountParameters(graph) == row.parameters);
    CHECK(CountActiveParameters(model, graph) == (row.active == 0 ? row.parameters : row.active));
  }
}

TEST_CASE("a block that predicts next tokens has the published size, and a loss of no value") {
  const auto count = [](const char* preset, int next_tokens) {
    return CountParameters(BuildModel(MakeModel(
        absl::StrCat("family: 'glm' preset: '", preset, "' next_tokens: ", next_tokens))));
  };
  CHECK(count("glm4.5", 1) - count("glm4.5", 0) == 3988069632);
  CHECK(count("glm4.5-air", 1) - count("glm4.5-air", 0) == 2375059456);
  const proto::Graph graph = BuildModel(MakeModel("family: 'glm' next_tokens: 1"));
  CHECK(graph.loss() == "loss.all");
  const proto::Op& loss = *FindOpNamed(graph, "mtp.loss");
  CHECK(loss.attr().at("gradient_only").b());
  CHECK(loss.attr().at("factor").f() == 0.3);
  CHECK(FindOpNamed(graph, "mtp.embed")->input(0) == "wte");
  CHECK(FindOpNamed(graph, "mtp.embed")->input(1) == "next_tokens");
  CHECK(FindOpNamed(graph, "mtp.norm_stream")->input(0) == "norm_f");
  CHECK(FindOpNamed(graph, "mtp.logits")->input(1) == "head.weight");
}

TEST_CASE("runs of a pattern repeat until there are as many blocks as layers") {
  const auto classes = [](std::string_view blocks, int layers) {
    return Classes(SmallDecoder("llama", blocks, absl::StrCat("layers: ", layers)));
  };
  CHECK(classes("none", 3) == "aaa");
  CHECK(classes("5*l,f", 14) == "aaaaabaaaaabaa");
  CHECK(classes("2*d,*m", 5) == "aabbb");
  CHECK(classes("2*d,*m", 2) == "aa");
  CHECK(classes("a,b,a,c", 6) == "abacab");
  const proto::Model model =
      SmallDecoder("llama", "a(window=4),b(theta=7 window=0)", "layers: 4 window: 9 theta: 5");
  CHECK(FirstBlocks(model) == std::vector<int64_t>{0, 1});
  CHECK(BlockNumbers(model, 2).window() == 4);
  CHECK(BlockNumbers(model, 2).theta() == 5);
  CHECK(BlockNumbers(model, 3).window() == 0);
  CHECK(BlockNumbers(model, 3).theta() == 7);
}

TEST_CASE("a block has the numbers of its class") {
  proto::Model said = SmallDecoder("llama", "dense(inner=48 experts=0),*mixture(window=3)",
                                   "preset: 'llama-tiny' layers: 2 experts: 4");
  const proto::Graph graph = BuildModel(*CompleteModel(said));
  REQUIRE(FindOpNamed(graph, "h.0.mlp.gate.weight") != nullptr);
  CHECK(FindOpNamed(graph, "h.0.mlp.gate.weight")->shape().dim(1).size() == 48);
  CHECK(FindOpNamed(graph, "h.0.mlp.route") == nullptr);
  CHECK(FindOpNamed(graph, "h.1.mlp.route") != nullptr);
  CHECK(!FindOpNamed(graph, "h.0.attn.core")->attr().contains("window"));
  CHECK(FindOpNamed(graph, "h.1.attn.core")->attr().at("window").i() == 3);
}

TEST_CASE("what is asked of YaRN and of a part of a head") {
  proto::Model model = MakeModel("family: 'glm'");
  CHECK(DecoderRotary(BlockNumbers(model, 0)).rotated == 32);
  // Rounded down, as transformers does; and shares of counts give these.
  proto::Model share;
  share.set_head_dim(12), share.set_rotary_share(0.3);
  CHECK(RotatedElements(share) == 3);
  for (int64_t head = 2; head < 300; ++head) {
    for (int64_t rotated = 1; rotated <= head; ++rotated) {
      share.set_head_dim(head), share.set_rotary_share(RotaryShare(rotated, head));
      if (RotatedElements(share) != rotated) FAIL(rotated << " of " << head);
    }
  }
  model = MakeModel("family: 'gpt_oss'");
  const RotaryOptions options = DecoderRotary(model);
  CHECK(options.scaling->attention_factor == Approx(1.3465735902799727).epsilon(1e-15));
  CHECK(options.scaling->exact);
  CHECK(options.rotated == 0);
}

TEST_CASE("what a class says of experts counts for its blocks") {
  proto::Model model =
      *CompleteModel(SmallDecoder("llama", "a(experts=6 experts_per_token=1),b,c(experts=0)",
                                  "layers: 3 experts: 4 experts_per_token: 3 slots: 1.25"));
  CHECK(model.slot_groups() == 2);  // which all classes can have
  const proto::Graph graph = BuildModel(model);
  const int64_t expert = 3 * model.hidden() * model.inner();
  CHECK(CountParameters(graph) - CountActiveParameters(model, graph) == (5 + 1) * expert);
}

TEST_CASE("classes that a file names are those that blocks have") {
  proto::Model said = SmallDecoder("llama", "a(window=4),b", "layers: 2");
  said.mutable_blocks()->mutable_classes(1)->set_name("a");
  CHECK(CompleteModel(said).status().message() ==
        "--blocks=a(window=4),a: has two classes a; give each a name of its own");
  said.mutable_blocks()->clear_run();
  said.mutable_blocks()->mutable_classes(1)->set_name("b");
  CHECK(CompleteModel(said).status().message() ==
        "--blocks=none: has a class a that no run names; add a run of it, or leave it out");
}

TEST_CASE("patterns and numbers of decoders that do not fit are refused") {
  CHECK(DecoderError("2*a,*b", "layers: 2") ==
        "--blocks=2*a,*b: leaves no block of 2 for b; use more layers, or a pattern without it");
  CHECK(DecoderError("a,b(groups=5)", "layers: 2") ==
        "blocks b: --groups=5: does not divide --heads=12; each group has an equal part of the "
        "query heads");
  CHECK(DecoderError("a,b(experts=3)", "layers: 2") ==
        "blocks b: have experts, and the model has none; write --experts=N beside --blocks, and "
        "experts=0 for classes without");
  CHECK(DecoderError("a,b(dropout=0.1)", "layers: 2") ==
        "blocks b: --dropout=0.1: is a flag of `oneflow model gpt`, and the family is llama; leave "
        "it out");
  for (const char* experts : {"experts: 0", "experts: 4"}) {
    const std::string more = absl::StrCat("layers: 2 ", experts);
    CHECK(DecoderError("a(experts=0 router_bias=true),b", more) ==
          "blocks a: --router_bias=true: acts on nothing without experts; add --experts=N, or "
          "leave it out");
  }
  CHECK(DecoderError("a(experts=6),b", "layers: 2 experts: 4 slots: 1.25 slot_groups: 4") ==
        "--slot_groups=4: does not divide the 4 experts and those of each class; use a divisor of "
        "2");
  CHECK(DecoderError("a(experts=6),b", "layers: 2 experts: 4 capacity: 1.25") ==
        "--capacity=1.25: has a queue for each expert, and blocks have different numbers of them; "
        "use --slots=1.25");
  CHECK(DecoderError("none",
                     "rotary_share: 0.3 rope_scaling { kind: YARN factor: 2 low: 1 high: 32 "
                     "positions: 64 }") ==
        "--rotary_share=0.3: turns 19 elements of a head, an odd number; use a share of an even "
        "number, as YaRN demands it");
  CHECK(DecoderError("none", "rotary_share: 0.001") ==
        "--rotary_share=0.001: turns no element of a head; use 0, or a larger share");
  CHECK(DecoderError("none", "router_bias: true") ==
        "--router_bias=true: acts on nothing without experts; add --experts=N, or leave "
        "it out");
}

}  // namespace oneflow
