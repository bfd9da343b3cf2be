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

TEST_CASE("every kind has a method") {
  GraphBuilder g("all");
  auto ids = g.Input("ids", {4, 8}, "tokens", DType::kI32);
  auto table = g.Variable("table", {16, 12}, Constant(0.5));
  auto x = g.PositionalEmbedding("pos", g.Embedding("embed", table, ids), table);
  auto qkv = g.Variable("qkv", {12, 3, 2, 6}, Zeros());
  auto proj = g.Variable("proj", {2, 6, 12}, Zeros());
  auto a = g.CausalAttention("attn", g.Linear("qkv.fc", x, qkv));
  x = g.Add("add", x, g.Linear("proj.fc", a, proj, {}, {.contract = 2}));
  auto logits = g.Linear("logits", x, table, {}, {.transpose_w = true});
  auto max = g.RowMax("max", logits);
  auto sum = g.RowSumExp("sum", logits, max);
  g.Loss(g.MeanNll("nll", max, sum, g.Pick("pick", logits, ids), 1.0 / 32));
  g.Matmul("gram", table, table, true, false);
  g.Matmul("outer", table, table, false, true);
  g.Fill("one", {2, 2}, 1.0);
  g.AddBias("bias", table, g.Fill("row", {12}, 2.0));
  CHECK('\n' + ToText(*g.Build()) == R"(
graph all mesh=1 ops=20 boxing=0 loss=nll
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
  max      f32[]          = row_max logits
  sum      f32[]          = row_sum_exp logits max
  pick     f32[]          = pick logits ids
  nll      f32[]          = mean_nll max sum pick             scale=0.03125
  gram     f32[]          = matmul table table                transpose_a=true
  outer    f32[]          = matmul table table                transpose_b=true
  one      f32[]          = fill                              dims=[2,2] value=1
  row      f32[]          = fill                              dims=[12] value=2
  bias     f32[]          = add_bias table row
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
