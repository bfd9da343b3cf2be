#include "oneflow_core/graph/graph_builder.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_text.h"

namespace oneflow {

TEST_CASE("a model reads as straight lines") {
  GraphBuilder g("mlp");
  g.SetMesh(*ParseMesh("pipe=2,tensor=2"));
  auto x = g.Input("x", {{"batch", 0}, {"hidden", 64}});
  auto w = g.Variable("w", {64, 64}, Normal(0.02));
  auto b = g.Variable("b", {64}, Zeros());
  auto y = g.Linear("fc", x, w, b);
  g.Constrain(w, "tensor", S(1));
  g.Stage(1);
  auto scale = g.Variable("scale", {64}, Ones());
  auto z = g.LayerNorm("norm", g.Gelu("act", y), scale);
  g.Constrain(z.output(2), "tensor", B());
  auto labels = g.Input("labels", {{"batch", 0}}, "labels", DType::kI32);
  g.Loss(g.SoftmaxCrossEntropy("loss", z, labels));
  g.Output(z);
  CHECK('\n' + ToText(*g.Build()) == R"(
graph mlp mesh=pipe=2,tensor=2 ops=9 boxing=0 loss=loss outputs=norm
  x           f32[batch,64]  = input                              stage=0 source=feed
  w           f32[64,64]     = variable                           stage=0 want=tensor:S(1) init=normal init_value=0.02
  b           f32[64]        = variable                           stage=0 init=zeros
  fc          f32[]          = linear x w b                       stage=0
  scale       f32[64]        = variable                           stage=1 init=ones
  act         f32[]          = gelu fc                            stage=1
  norm :1 :2  f32[]x3        = layer_norm act scale               stage=1 want:2=tensor:B
  labels      i32[batch]     = input                              stage=1 source=labels
  loss        f32[]          = softmax_cross_entropy norm labels  stage=1
)");
}

TEST_CASE("ops belong to the block that is being built; the graph states its family") {
  GraphBuilder g("net");
  g.Family("gpt");
  auto x = g.Input("x", {{"batch", 0}, {"hidden", 8}});
  g.Block(0);
  x = g.Gelu("first", x);
  g.Block(1);
  x = g.Gelu("second", x);
  g.Block(-1);
  g.Output(g.Gelu("last", x));
  const Graph graph = *g.Build();
  CHECK('\n' + ToText(graph) == R"(
graph net family=gpt mesh=1 ops=4 boxing=0 outputs=last
  x       f32[batch,8]  = input        source=feed
  first   f32[]         = gelu x       block=0
  second  f32[]         = gelu first   block=1
  last    f32[]         = gelu second
)");
  CHECK(graph.FindOp("x")->block == -1);
}

TEST_CASE("kinds of a GPT have methods") {
  GraphBuilder g("all");
  auto ids = g.Input("ids", {4, 8}, "tokens", DType::kI32);
  auto table = g.Variable("table", {16, 12}, Constant(0.5));
  auto x = g.PositionalEmbedding("pos", g.Embedding("embed", table, ids), table);
  auto qkv = g.Variable("qkv", {12, 3, 2, 6}, Zeros());
  auto proj = g.Variable("proj", {2, 6, 12}, Zeros());
  auto a = g.CausalAttention("attn", g.Linear("qkv.fc", x, qkv));
  x = g.Add("add", x, g.Linear("proj.fc", a, proj, {}, {.contract = 2}));
  auto logits = g.Linear("logits", x, table, {}, {.transpose_w = true});
  g.Loss(g.SoftmaxCrossEntropy("nll", logits, ids));
  g.Matmul("gram", table, table, true, false);
  g.Matmul("outer", table, table, false, true);
  g.Fill("one", {2, 2}, 1.0);
  g.Op("add_bias", "bias", {table, g.Fill("row", {12}, 2.0)});
  CHECK('\n' + ToText(*g.Build()) == R"(
graph all mesh=1 ops=17 boxing=0 loss=nll
  ids      i32[4,8]       = input                             source=tokens
  table    f32[16,12]     = variable                          init=constant init_value=0.5
  embed    f32[]          = embedding table ids
  pos      f32[]          = positional_embedding embed table
  qkv      f32[12,3,2,6]  = variable                          init=zeros
  proj     f32[2,6,12]    = variable                          init=zeros
  qkv.fc   f32[]          = linear pos qkv
  attn     f32[]          = causal_attention qkv.fc
  proj.fc  f32[]          = linear attn proj                  contract=2
  add      f32[]          = add pos proj.fc
  logits   f32[]          = linear add table                  transpose_w=true
  nll      f32[]          = softmax_cross_entropy logits ids
  gram     f32[]          = matmul table table                transpose_a=true
  outer    f32[]          = matmul table table                transpose_b=true
  one      f32[]          = fill                              dims=[2,2] value=1
  row      f32[]          = fill                              dims=[12] value=2
  bias     f32[]          = add_bias table row
)");
}

TEST_CASE("a block of Llama has its methods") {
  GraphBuilder g("llama");
  auto x = g.Input("x", {2, 4, 12});
  auto norm = g.RmsNorm("norm", x, g.Variable("gamma", {12}, Ones()), 1e-6);
  auto w = g.Variable("w", {12, 2, 4, 6}, Normal(0.02));
  auto q = g.SplitQkv("split", g.Linear("qkv", norm, w), /*parts_first=*/false);
  const RotaryOptions scaled{.theta = 500000, .scaling = {{8, 1, 4, 8192}}};
  auto positions = g.Input("positions", {2, 4}, "feed", DType::kI32);
  auto k = g.Rotary("k_rotary", q.output(1), scaled, positions);
  auto a = g.Attention("attn", g.Rotary("q_rotary", q, {}), k, q.output(2), {.window = 16});
  g.Attention("full", q, k, q.output(2), {});
  g.Gated("act", a, a);
  g.Gated("other", g.RmsNorm("plain", x, {"gamma"}), a, "gelu");
  CHECK('\n' + ToText(*g.Build()) == R"(
graph llama mesh=1 ops=14 boxing=0
  x            f32[2,4,12]    = input                                source=feed
  gamma        f32[12]        = variable                             init=ones
  norm         f32[]          = rms_norm x gamma                     epsilon=1e-06
  w            f32[12,2,4,6]  = variable                             init=normal init_value=0.02
  qkv          f32[]          = linear norm w
  split :1 :2  f32[]x3        = split_qkv qkv                        parts_first=false
  positions    i32[2,4]       = input                                source=feed
  k_rotary     f32[]          = rotary split:1 positions             high_frequency_factor=4 low_frequency_factor=1
      original_positions=8192 scale_factor=8 theta=5e+05
  q_rotary     f32[]          = rotary split                         theta=10000
  attn         f32[]          = attention q_rotary k_rotary split:2  window=16
  full         f32[]          = attention split k_rotary split:2
  act          f32[]          = gated attn attn                      activation=silu
  plain        f32[]          = rms_norm x gamma
  other        f32[]          = gated plain attn                     activation=gelu
)");
}

TEST_CASE("mistakes are told by Build") {
  GraphBuilder twice("twice");
  twice.Gelu("y", twice.Gelu("y", twice.Input("x", {4})));
  CHECK(ToStd(twice.Build().status().message()) ==
        "twice: op \"y\": is defined twice; rename one: names are unique");

  GraphBuilder other("other"), g("g");
  g.Gelu("y", other.Input("x", {4}));
  CHECK(ToStd(g.Build().status().message()) ==
        "g: op \"y\": reads \"x\", which is no tensor of the graph");
  g.Constrain({"z"}, "data", B());
  CHECK(ToStd(g.Build().status().message()) == "g: no tensor \"z\" to constrain");
}

}  // namespace oneflow
