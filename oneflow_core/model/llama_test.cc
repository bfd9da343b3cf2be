#include "oneflow_core/model/llama.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/op/check_graph.h"

namespace oneflow {
namespace {

proto::Model OneLayer(const std::string& more = "") {
  return MakeModel("family: 'llama' preset: 'llama-tiny' layers: 1 " + more);
}

proto::Model Published(const char* preset) {
  return MakeModel(absl::StrCat("family: 'llama' preset: '", preset, "'"));
}

std::string Error(const std::string& text) {
  proto::Model said;
  REQUIRE(google::protobuf::TextFormat::ParseFromString("family: 'llama' " + text, &said));
  return std::string(ToStd(CompleteModel(said).status().message()));
}

}  // namespace

TEST_CASE("the graph of one Llama layer") {
  const Graph graph = *GraphFromProto(BuildModel(OneLayer(), "one"), "one");
  CHECK('\n' + ToText(graph) == R"(
graph one family=llama mesh=1 ops=29 boxing=0 loss=loss outputs=logits
  tokens                i32[batch,16]  = input                                      source=tokens
  labels                i32[batch,16]  = input                                      source=labels
  wte                   f32[256,32]    = variable                                   init=normal init_value=0.02
  embed                 f32[]          = embedding wte tokens
  h.0.norm_1.weight     f32[32]        = variable                                   block=0 init=ones
  h.0.norm_1            f32[]          = rms_norm embed h.0.norm_1.weight           block=0
  h.0.attn.qkv.weight   f32[32,2,4,8]  = variable                                   block=0 init=normal init_value=0.02
  h.0.attn.qkv          f32[]          = linear h.0.norm_1 h.0.attn.qkv.weight      block=0
  h.0.attn.split :1 :2  f32[]x3        = split_qkv h.0.attn.qkv                     block=0 parts_first=false
  h.0.attn.q_rotary     f32[]          = rotary h.0.attn.split                      block=0 theta=10000
  h.0.attn.k_rotary     f32[]          = rotary h.0.attn.split:1                    block=0 theta=10000
  h.0.attn.core         f32[]          = attention h.0.attn.q_rotary h.0.attn.k_rotary h.0.attn.split:2  block=0
  h.0.attn.proj.weight  f32[2,2,8,32]  = variable  block=0 init=normal init_value=0.014142135623730949
  h.0.attn.proj         f32[]          = linear h.0.attn.core h.0.attn.proj.weight  block=0 contract=3
  h.0.attn.add          f32[]          = add embed h.0.attn.proj                    block=0
  h.0.norm_2.weight     f32[32]        = variable                                   block=0 init=ones
  h.0.norm_2            f32[]          = rms_norm h.0.attn.add h.0.norm_2.weight    block=0
  h.0.mlp.gate.weight   f32[32,128]    = variable                                   block=0 init=normal init_value=0.02
  h.0.mlp.gate          f32[]          = linear h.0.norm_2 h.0.mlp.gate.weight      block=0
  h.0.mlp.up.weight     f32[32,128]    = variable                                   block=0 init=normal init_value=0.02
  h.0.mlp.up            f32[]          = linear h.0.norm_2 h.0.mlp.up.weight        block=0
  h.0.mlp.act           f32[]          = gated h.0.mlp.gate h.0.mlp.up              block=0 activation=silu
  h.0.mlp.proj.weight   f32[128,32]    = variable  block=0 init=normal init_value=0.014142135623730949
  h.0.mlp.proj          f32[]          = linear h.0.mlp.act h.0.mlp.proj.weight     block=0
  h.0.mlp.add           f32[]          = add h.0.attn.add h.0.mlp.proj              block=0
  norm_f.weight         f32[32]        = variable                                   init=ones
  norm_f                f32[]          = rms_norm h.0.mlp.add norm_f.weight
  logits                f32[]          = linear norm_f wte                          transpose_w=true
  loss                  f32[]          = softmax_cross_entropy logits labels
)");
}

TEST_CASE("biases, norms of queries and keys, and a head of its own add variables") {
  const auto ops = [](const proto::Model& config) { return BuildModel(config).op_size(); };
  const int plain = ops(OneLayer());
  proto::Model config = OneLayer();
  config.set_tied(false);
  CHECK(ops(config) == plain + 1);
  config = OneLayer();
  config.set_qkv_bias(true);
  CHECK(ops(config) == plain + 1);
  CHECK(AttrBool(*(*GraphFromProto(BuildModel(config), "g")).FindOp("h.0.attn.qkv.bias"), "decay",
                 true) == false);
  config = OneLayer();
  config.set_qk_norm(true), config.set_norm_epsilon(1e-6);
  CHECK(ops(config) == plain + 4);
  const Graph graph = *GraphFromProto(BuildModel(config), "g");
  CHECK(graph.tensors[graph.FindTensor("h.0.attn.k_norm.weight")].shape == Shape{8});
  CHECK(graph.tensors[graph.FindOp("h.0.attn.q_rotary")->inputs[0]].name == "h.0.attn.q_norm");
  for (const char* norm : {"h.0.norm_1", "h.0.attn.q_norm", "norm_f"}) {
    CHECK(AttrDouble(*graph.FindOp(norm), "epsilon") == 1e-6);
  }
}

TEST_CASE("windows and scaled rotary frequencies are attributes") {
  proto::Model config = MakeModel("family: 'llama' preset: 'llama3.2-1b'");
  config.set_window(128);
  const Graph graph = *GraphFromProto(BuildModel(config), "g");
  CHECK(AttrInt(*graph.FindOp("h.15.attn.core"), "window") == 128);
  for (const char* name : {"h.3.attn.q_rotary", "h.3.attn.k_rotary"}) {
    const Op& rotary = *graph.FindOp(name);
    CHECK(AttrDouble(rotary, "theta") == 500000);
    CHECK(AttrDouble(rotary, "scale_factor") == 32);
    CHECK(AttrDouble(rotary, "low_frequency_factor") == 1);
    CHECK(AttrDouble(rotary, "high_frequency_factor") == 4);
    CHECK(AttrInt(rotary, "original_positions") == 8192);
  }
}

TEST_CASE("presets of Llama and its like have the published numbers of parameters") {
  const std::pair<const char*, int64_t> published[] = {{"llama2-7b", 6738415616},
                                                       {"llama2-13b", 13015864320},
                                                       {"llama2-70b", 68976648192},
                                                       {"llama3-8b", 8030261248},
                                                       {"llama3-70b", 70553706496},
                                                       {"llama3.1-8b", 8030261248},
                                                       {"llama3.1-70b", 70553706496},
                                                       {"llama3.1-405b", 405853388800},
                                                       {"llama3.2-1b", 1235814400},
                                                       {"llama3.2-3b", 3212749824},
                                                       {"mistral-7b", 7241732096},
                                                       {"qwen2.5-0.5b", 494032768},
                                                       {"qwen2.5-1.5b", 1543714304},
                                                       {"qwen2.5-3b", 3085938688},
                                                       {"qwen2.5-7b", 7615616512},
                                                       {"qwen2.5-14b", 14770033664},
                                                       {"qwen2.5-32b", 32763876352},
                                                       {"qwen3-0.6b", 596049920},
                                                       {"qwen3-1.7b", 1720574976},
                                                       {"qwen3-4b", 4022468096},
                                                       {"qwen3-8b", 8190735360},
                                                       {"qwen3-14b", 14768307200},
                                                       {"qwen3-32b", 32762123264},
                                                       {"mixtral-8x7b", 46702792704},
                                                       {"mixtral-8x22b", 140620634112},
                                                       {"qwen3-30b-a3b", 30532122624},
                                                       {"qwen3-235b-a22b", 235093634560},
                                                       {"tinyllama-1.1b", 1100048384},
                                                       {"smollm2-135m", 134515008},
                                                       {"smollm2-360m", 361821120},
                                                       {"smollm3-3b", 3075098624},
                                                       {"smollm2-1.7b", 1711376384},
                                                       {"yi-6b", 6061035520},
                                                       {"yi-34b", 34388917248},
                                                       {"deepseek-7b", 6910365696},
                                                       {"deepseek-67b", 67425001472},
                                                       {"phi-4", 14659507200},
                                                       {"mistral-7b-v0.2", 7241732096},
                                                       {"mistral-7b-v0.3", 7248023552},
                                                       {"mistral-nemo-12b", 12247782400},
                                                       {"mistral-small-24b", 23572403200},
                                                       {"mistral-large-123b", 122610069504},
                                                       {"qwen2.5-72b", 72706203648},
                                                       {"qwen3-480b-a35b", 480154875392}};
  for (const auto& [name, parameters] : published) {
    INFO(name);
    CHECK(CountParameters(BuildModel(Published(name))) == parameters);
  }
  // The presets for tests and measurements are about as large as those of the GPT.
  CHECK(LlamaPresets().size() == std::size(published) + 3);
  CHECK(CountParameters(BuildModel(Published("llama-124m"))) == 124730880);
}

TEST_CASE("a bias that a rule moves is chosen with, and is no weight that decays") {
  proto::Model config = OneLayer("experts: 4 scores: 'sigmoid' bias_rate: 0.01");
  const Graph graph = *GraphFromProto(BuildModel(config), "g");
  const Op& route = *graph.FindOp("h.0.mlp.route");
  CHECK(AttrString(route, "scores") == "sigmoid");
  CHECK(AttrDouble(route, "bias_rate") == 0.01);
  REQUIRE(route.inputs.size() == 2);
  const Tensor& bias = graph.tensors[route.inputs[1]];
  CHECK(bias.name == "h.0.mlp.router.bias");
  CHECK(bias.shape == Shape{4});
  CHECK_FALSE(AttrBool(*graph.FindOp(bias.name), "decay", true));
  const int64_t biased = CountParameters(BuildModel(config));
  config.set_bias_rate(0);
  CHECK(biased == CountParameters(BuildModel(config)));
  CHECK(GraphFromProto(BuildModel(config), "g")->FindOp("h.0.mlp.route")->inputs.size() == 1);
}

TEST_CASE("a token reads the parameters of the experts that it chooses") {
  const std::pair<const char*, int64_t> active[] = {{"mixtral-8x7b", 12879925248},
                                                    {"mixtral-8x22b", 39152031744},
                                                    {"qwen3-30b-a3b", 3353032704},
                                                    {"qwen3-235b-a22b", 22190763520},
                                                    {"qwen3-8b", 8190735360}};
  for (const auto& [name, parameters] : active) {
    INFO(name);
    const proto::Model model = Published(name);
    CHECK(CountActiveParameters(model, BuildModel(model)) == parameters);
  }
}

TEST_CASE("numbers of a Llama that do not fit name the flag") {
  CHECK(Error("groups: 5") ==
        "--groups=5: does not divide --heads=12; each group has an equal part of the query heads");
  CHECK(Error("head_dim: 7") ==
        "--head_dim=7: is odd; use an even number: rotary positions turn pairs of elements");
  CHECK(Error("heads: 5") ==
        "--heads=5: does not divide --hidden=768; write --head_dim=N, the size of a head");
  CHECK(Error("preset: 'llama3.1-9b'") ==
        "--preset=llama3.1-9b: no such preset; did you mean llama3.1-8b?");
  CHECK(Error("layers: 0") ==
        "--layers=0: is out of range; use 1 to 10000, or leave it out; the default: the preset's");
  CHECK_THAT(Error("window: -1"), Catch::StartsWith("--window=-1: is out of range; use 0 to"));
  CHECK_THAT(Error("theta: 1"), Catch::StartsWith("--theta=1: is out of range"));
  CHECK_THAT(Error("norm_epsilon: 0"), Catch::StartsWith("--norm_epsilon=0: is out of range"));
  CHECK_THAT(Error("scores: 'tanh' experts: 2"),
             Catch::StartsWith("--scores=tanh: is not known; use softmax or sigmoid"));
  CHECK_THAT(Error("hidden: 1048576 heads: 1"), Catch::StartsWith("--head_dim=1048576: is out"));
  CHECK(Error("rope_scaling { factor: 8 low: 4 high: 1 positions: 8192 }") ==
        "--rope_scaling=8,4,1,8192: has a HIGH that is not above LOW; write "
        "FACTOR,LOW,HIGH,POSITIONS as in --rope_scaling=8,1,4,8192, linear:FACTOR, or "
        "yarn:FACTOR,POSITIONS,FAST,SLOW as in --rope_scaling=yarn:32,4096,32,1");
  CHECK(Error("preset: 'qwen3'") == "--preset=qwen3: no such preset; did you mean qwen3-0.6b?");
}

TEST_CASE("numbers of a mixture need experts, and slots one for each queue") {
  CHECK(Error("experts: 4 experts_per_token: 5") ==
        "--experts_per_token=5: is out of range: there are 4 experts; use 1 to 4");
  for (const char* said :
       {"experts_per_token: 2", "capacity: 1.25", "slots: 1.25", "shared_inner: 8",
        "norm_topk_prob: false", "scores: 'sigmoid'", "bias_rate: 0.001", "aux_loss_coeff: 0.1",
        "z_loss_coeff: 0.1", "routed_positions: 8"}) {
    CHECK_THAT(Error(said), Catch::Contains(": acts on nothing without experts; add "
                                            "--experts=N, or leave it out"));
    CHECK(Error(std::string("experts: 4 ") + said).empty());
    CHECK(Error(std::string("preset: 'mixtral-8x7b' ") + said).empty());
  }
  CHECK(Error("sequence: 1024 experts: 8 capacity: 0.0001") ==
        "--capacity=0.0001: leaves less than one slot to a queue, of 256 tokens where routing is "
        "even; use slots relative to even routing, as 1.25, or 0 to drop nothing");
  CHECK(Error("experts: 64 routed_positions: 4 capacity: 1.25").empty());  // 0.125 tokens: one slot
}

TEST_CASE("queues have as many slots and groups as the model says, or a capacity") {
  const auto queues = [](const std::string& said) {
    const Graph graph = *GraphFromProto(BuildModel(OneLayer(said)), "g");
    const Op& op = *graph.FindOp("h.0.mlp.combine");
    return absl::StrCat(AttrDouble(op, "capacity"), " of ", AttrInt(op, "groups"));
  };
  CHECK(queues("experts: 12") == "0 of 0");
  CHECK(queues("experts: 12 slots: 0 slot_groups: 0 capacity: 0") == "0 of 0");
  CHECK(queues("experts: 12 slots: 1.5") == "1.5 of 6");
  CHECK(queues("experts: 16 slots: 1.5") == "1.5 of 8");
  CHECK(queues("experts: 12 slots: 1.5 slot_groups: 3") == "1.5 of 3");
  CHECK(queues("experts: 12 capacity: 1.5") == "1.5 of 12");
  CHECK(Error("experts: 8 slots: 1.25 slot_groups: 3") ==
        "--slot_groups=3: does not divide the 8 experts; use a divisor of 8");
  CHECK(Error("experts: 8 slot_groups: 4") ==
        "--slot_groups=4: acts on nothing without --slots; add --slots=1.25, or leave it out");
  CHECK(Error("experts: 8 slots: 9") ==
        "--slots=9: is out of range; use slots relative to even routing, as 1.25, or 0 to drop "
        "nothing");
  for (const char* twice : {"slots: 1.25", "slot_groups: 4"}) {
    CHECK(Error(std::string("experts: 8 capacity: 1 ") + twice) ==
          "--capacity=1: is --slots with a queue for each expert, and --slots or --slot_groups is "
          "given, too; leave out one of them");
  }
}

TEST_CASE("what follows from heads and the width, unless a preset or the user says it") {
  const auto text = [](const std::string& said) {
    const proto::Model model = MakeModel("family: 'llama' " + said);
    return absl::StrCat(model.groups(), " ", model.inner(), " ", model.head_dim());
  };
  CHECK(text("") == "4 2432 64");
  CHECK(text("heads: 4 hidden: 32") == "4 128 8");
  CHECK(text("heads: 4 hidden: 128 groups: 2 inner: 100 head_dim: 10") == "2 100 10");
  CHECK(text("preset: 'llama3-8b' heads: 64") == "8 14336 64");
  CHECK(text("preset: 'llama3-8b' hidden: 4096") == "8 10944 128");
}

TEST_CASE("a complete model comes back as it is, in every family") {
  for (const Family& family : Families()) {
    for (const Preset& preset : family.presets) {
      INFO(preset.name);
      const proto::Model model = MakeModel(
          absl::StrCat("family: '", ToAbsl(family.name), "' preset: '", preset.name, "'"));
      CHECK(CompleteModel(model)->SerializeAsString() == model.SerializeAsString());
    }
  }
  CHECK(
      MakeModel("family: 'llama' preset: 'llama3.1-8b' rope_scaling {}").rope_scaling().factor() ==
      0);
}

TEST_CASE("numbers and presets of another family are refused") {
  CHECK(Error("bias: false") ==
        "--bias=false: is a flag of `oneflow model gpt`, and the family is llama; leave it out");
  CHECK(Error("preset: 'gpt2-124m'") ==
        "--preset=gpt2-124m: is a preset of the family gpt; write `oneflow model gpt "
        "--preset=gpt2-124m`");
}

}  // namespace oneflow
