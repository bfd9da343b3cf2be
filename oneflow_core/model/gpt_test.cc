#include "oneflow_core/model/gpt.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/op/check_graph.h"

namespace oneflow {
namespace {

int64_t VariableElements(const proto::Graph& message) {
  const Graph graph = *GraphFromProto(message, "gpt");
  int64_t elements = 0;
  for (const Op& op : graph.ops) {
    if (op.kind == "variable") elements += graph.tensors[op.outputs[0]].shape.elements();
  }
  return elements;
}

proto::Model OneLayer(bool bias, bool tied) {
  return MakeModel(
      absl::StrCat("family: 'gpt' layers: 1 heads: 2 hidden: 8 sequence: 4 vocab: 16 bias: ", bias,
                   " tied: ", tied));
}

std::string Error(const std::string& text) {
  proto::Model said;
  REQUIRE(google::protobuf::TextFormat::ParseFromString("family: 'gpt' " + text, &said));
  return std::string(ToStd(CompleteModel(said).status().message()));
}

}  // namespace

TEST_CASE("the graph of one layer without biases") {
  const Graph graph = *GraphFromProto(BuildModel(OneLayer(false, true), "one"), "one");
  CHECK('\n' + ToText(graph) == R"(
graph one family=gpt mesh=1 ops=26 boxing=0 loss=loss outputs=logits
  tokens                i32[batch,4]  = input                                      source=tokens
  labels                i32[batch,4]  = input                                      source=labels
  wte                   f32[16,8]     = variable                                   init=normal init_value=0.02
  wpe                   f32[4,8]      = variable                                   init=normal init_value=0.02
  embed.tokens          f32[]         = embedding wte tokens
  embed                 f32[]         = positional_embedding embed.tokens wpe
  h.0.ln_1.weight       f32[8]        = variable                                   block=0 init=ones
  h.0.ln_1              f32[]         = layer_norm embed h.0.ln_1.weight           block=0
  h.0.attn.qkv.weight   f32[8,3,2,4]  = variable                                   block=0 init=normal init_value=0.02
  h.0.attn.qkv          f32[]         = linear h.0.ln_1 h.0.attn.qkv.weight        block=0
  h.0.attn.core         f32[]         = causal_attention h.0.attn.qkv              block=0
  h.0.attn.proj.weight  f32[2,4,8]    = variable  block=0 init=normal init_value=0.014142135623730949
  h.0.attn.proj         f32[]         = linear h.0.attn.core h.0.attn.proj.weight  block=0 contract=2
  h.0.attn.add          f32[]         = add embed h.0.attn.proj                    block=0
  h.0.ln_2.weight       f32[8]        = variable                                   block=0 init=ones
  h.0.ln_2              f32[]         = layer_norm h.0.attn.add h.0.ln_2.weight    block=0
  h.0.mlp.fc.weight     f32[8,32]     = variable                                   block=0 init=normal init_value=0.02
  h.0.mlp.fc            f32[]         = linear h.0.ln_2 h.0.mlp.fc.weight          block=0
  h.0.mlp.gelu          f32[]         = gelu h.0.mlp.fc                            block=0
  h.0.mlp.proj.weight   f32[32,8]     = variable  block=0 init=normal init_value=0.014142135623730949
  h.0.mlp.proj          f32[]         = linear h.0.mlp.gelu h.0.mlp.proj.weight    block=0
  h.0.mlp.add           f32[]         = add h.0.attn.add h.0.mlp.proj              block=0
  ln_f.weight           f32[8]        = variable                                   init=ones
  ln_f                  f32[]         = layer_norm h.0.mlp.add ln_f.weight
  logits                f32[]         = linear ln_f wte                            transpose_w=true
  loss                  f32[]         = softmax_cross_entropy logits labels
)");
}

TEST_CASE("the ops fit their definitions, and the shapes follow") {
  for (const bool bias : {false, true}) {
    Graph graph = *GraphFromProto(BuildModel(OneLayer(bias, true)), "one");
    REQUIRE(CheckGraph(graph).ok());
    for (Tensor& tensor : graph.tensors) {
      for (int64_t& size : tensor.shape.dims) size = size == 0 ? 3 : size;  // the batch
    }
    REQUIRE(InferShapes(&graph).ok());
    const auto shape = [&](const char* name) {
      return graph.tensors[graph.FindTensor(name)].shape;
    };
    CHECK(shape("embed") == Shape{3, 4, 8});
    CHECK(shape("h.0.attn.qkv") == Shape{3, 4, 3, 2, 4});
    CHECK(shape("h.0.attn.core") == Shape{3, 4, 2, 4});
    CHECK(shape("h.0.attn.core:1") == Shape{3, 2, 4});
    CHECK(shape("h.0.mlp.gelu") == Shape{3, 4, 32});
    CHECK(shape("h.0.mlp.add") == Shape{3, 4, 8});
    CHECK(shape("logits") == Shape{3, 4, 16});
    CHECK(shape("loss") == Shape{});
  }
}

TEST_CASE("biases and a head of its own add variables, and nothing else") {
  CHECK(BuildModel(OneLayer(true, true)).op_size() ==
        BuildModel(OneLayer(false, true)).op_size() + 7);
  CHECK(BuildModel(OneLayer(true, false)).op_size() ==
        BuildModel(OneLayer(true, true)).op_size() + 1);
  const Graph graph = *GraphFromProto(BuildModel(OneLayer(true, false)), "one");
  const Op* logits = graph.FindOp("logits");
  REQUIRE(logits != nullptr);
  CHECK(graph.tensors[logits->inputs[1]].name == "head.weight");
  CHECK(graph.tensors[graph.FindTensor("h.0.attn.qkv.bias")].shape == Shape{3, 2, 4});
  CHECK(graph.tensors[graph.FindTensor("h.0.mlp.fc.bias")].shape == Shape{32});
}

TEST_CASE("parameters are counted as the graph has them") {
  for (const bool bias : {false, true}) {
    for (const bool tied : {false, true}) {
      const proto::Model config = OneLayer(bias, tied);
      CHECK(CountParameters(BuildModel(config)) == VariableElements(BuildModel(config)));
    }
  }
}

TEST_CASE("presets have the published sizes") {
  CHECK(CountParameters(BuildModel(MakeModel("family: 'gpt' preset: 'gpt2-124m'"))) == 124439808);
  CHECK(CountParameters(BuildModel(MakeModel("family: 'gpt' preset: 'gpt2-350m'"))) == 354823168);
  CHECK(CountParameters(BuildModel(MakeModel("family: 'gpt' preset: 'gpt2-774m'"))) == 774030080);
  CHECK(CountParameters(BuildModel(MakeModel("family: 'gpt' preset: 'gpt2-1.5b'"))) == 1557611200);
  CHECK(CountParameters(BuildModel(MakeModel("family: 'gpt' preset: 'gpt3-175b'"))) / 1000000000 ==
        174);
}

TEST_CASE("residual projections start smaller, by the depth") {
  proto::Model config = OneLayer(true, true);
  config.set_layers(8);
  const Graph graph = *GraphFromProto(BuildModel(config), "gpt");
  CHECK(AttrDouble(*graph.FindOp("h.3.attn.proj.weight"), "init_value") == Approx(0.005));
  CHECK(AttrDouble(*graph.FindOp("h.7.mlp.proj.weight"), "init_value") == Approx(0.005));
  CHECK(AttrDouble(*graph.FindOp("h.3.mlp.fc.weight"), "init_value") == 0.02);
}

TEST_CASE("dropout stands after the embeddings and at the end of both branches") {
  proto::Model config = OneLayer(false, true);
  config.set_dropout(0.1);
  const Graph graph = *GraphFromProto(BuildModel(config), "gpt");
  REQUIRE(CheckGraph(graph).ok());
  CHECK(graph.ops.size() == 26 + 3);
  for (const auto& [name, input] :
       {std::pair("embed.drop", "embed"), std::pair("h.0.attn.drop", "h.0.attn.proj"),
        std::pair("h.0.mlp.drop", "h.0.mlp.proj")}) {
    const Op* op = graph.FindOp(name);
    REQUIRE(op != nullptr);
    CHECK(op->kind == "dropout");
    CHECK(AttrDouble(*op, "rate") == 0.1);
    CHECK(graph.tensors[op->inputs[0]].name == input);
  }
}

TEST_CASE("unfused attention has the variables of the fused op, and its probabilities as tensors") {
  proto::Model config = OneLayer(true, true);
  config.set_attention("unfused");
  config.set_masks("stored");
  config.set_dropout(0.1);
  Graph graph = *GraphFromProto(BuildModel(config), "gpt");
  REQUIRE(CheckGraph(graph).ok());
  CHECK(CountParameters(BuildModel(config)) == VariableElements(BuildModel(config)));
  for (Tensor& tensor : graph.tensors) {
    for (int64_t& size : tensor.shape.dims) size = size == 0 ? 3 : size;  // the batch
  }
  REQUIRE(InferShapes(&graph).ok());
  const auto shape = [&](const char* name) { return graph.tensors[graph.FindTensor(name)].shape; };
  CHECK(shape("h.0.attn.core.split") == Shape{3, 2, 4, 4});
  CHECK(shape("h.0.attn.core.softmax") == Shape{3, 2, 4, 4});
  CHECK(shape("h.0.attn.core.drop:1") == Shape{3, 2, 4, 4});
  CHECK(shape("h.0.attn.core") == Shape{3, 4, 2, 4});
  CHECK(AttrDouble(*graph.FindOp("h.0.attn.core.softmax"), "scale") == 0.5);
  for (const char* name : {"embed.drop", "h.0.attn.core.drop", "h.0.attn.drop", "h.0.mlp.drop"}) {
    INFO(name);
    CHECK(graph.FindOp(name)->kind == "stored_dropout");
  }
}

TEST_CASE("numbers of a GPT that do not fit name the flag") {
  CHECK(
      Error("heads: 7") ==
      "--heads=7: does not divide --hidden=768; each head takes an equal part of the hidden size");
  CHECK(Error("preset: 'gpt2-125m'") ==
        "--preset=gpt2-125m: no such preset; did you mean gpt2-124m?");
  CHECK(Error("preset: 'falcon'") ==
        "--preset=falcon: no such preset; use one of tiny, small, gpt2-124m, gpt2-350m, gpt2-774m, "
        "gpt2-1.5b, gpt3-175b, gpt3-125m, gpt3-350m, gpt3-760m, gpt3-1.3b, gpt3-2.7b, gpt3-6.7b, "
        "gpt3-13b");
}

}  // namespace oneflow
