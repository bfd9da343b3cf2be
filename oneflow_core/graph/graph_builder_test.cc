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
  x       input                               -> x                   f32[batch,64]      stage=0 source=feed
  w       variable                            -> w                   f32[64,64]         stage=0 want=tensor:S(1) init=normal init_value=0.02
  b       variable                            -> b                   f32[64]            stage=0 init=zeros
  fc      linear                 x w b        -> fc                  f32[]              stage=0
  scale   variable                            -> scale               f32[64]            stage=1 init=ones
  act     gelu                   fc           -> act                 f32[]              stage=1
  norm    layer_norm             act scale    -> norm norm:1 norm:2  f32[] f32[] f32[]  stage=1 want:2=tensor:B
  labels  input                               -> labels              i32[batch]         stage=1 source=labels
  loss    softmax_cross_entropy  norm labels  -> loss                f32[]              stage=1
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
  ids      input                               -> ids      i32[4,8]       source=tokens
  table    variable                            -> table    f32[16,12]     init=constant init_value=0.5
  embed    embedding             table ids     -> embed    f32[]
  pos      positional_embedding  embed table   -> pos      f32[]
  qkv      variable                            -> qkv      f32[12,3,2,6]  init=zeros
  proj     variable                            -> proj     f32[2,6,12]    init=zeros
  qkv.fc   linear                pos qkv       -> qkv.fc   f32[]
  attn     causal_attention      qkv.fc        -> attn     f32[]
  proj.fc  linear                attn proj     -> proj.fc  f32[]          contract=2
  add      add                   pos proj.fc   -> add      f32[]
  logits   linear                add table     -> logits   f32[]          transpose_w=true
  max      row_max               logits        -> max      f32[]
  sum      row_sum_exp           logits max    -> sum      f32[]
  pick     pick                  logits ids    -> pick     f32[]
  nll      mean_nll              max sum pick  -> nll      f32[]          scale=0.03125
  gram     matmul                table table   -> gram     f32[]          transpose_a=true
  outer    matmul                table table   -> outer    f32[]          transpose_b=true
  one      fill                                -> one      f32[]          dims=[2,2] value=1
  row      fill                                -> row      f32[]          dims=[12] value=2
  bias     add_bias              table row     -> bias     f32[]
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
