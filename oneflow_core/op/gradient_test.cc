// Gradients: which ops they are made of, and that each has the shape of its input.
#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/op_samples.h"

namespace oneflow {
namespace {

// Differentiates op `id` for a gradient "dy" of its output 0; every input needs one but ids.
absl::StatusOr<std::vector<TensorId>> Differentiate(Graph* graph, OpId id) {
  const Op op = graph->ops[id];
  const OpId dy = graph->AddOp("input", "dy", {}, {});
  graph->tensors[graph->ops[dy].outputs[0]].shape = graph->tensors[op.outputs[0]].shape;
  graph->tensors[graph->ops[dy].outputs[0]].dtype = graph->tensors[op.outputs[0]].dtype;
  GradientContext context{*graph, id, std::vector<TensorId>(op.outputs.size(), -1), {}};
  context.output_grads[0] = graph->ops[dy].outputs[0];
  for (const TensorId input : op.inputs) {
    context.needs_grad.push_back(IsFloat(graph->tensors[input].dtype));
  }
  return FindOpDef(op)->gradient(context);
}

// "op.dx = linear_grad_input(dy, in1); -> op.dx op.dw".
std::string GradientText(const Sample& sample) {
  Graph graph = MakeGraph(sample);
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  const size_t first = graph.ops.size() + 1;
  const auto grads = Differentiate(&graph, SampleOp(graph)).value();
  std::string text;
  for (size_t i = first; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    text += op.name + " = " + op.kind + '(';
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      text += (k > 0 ? ", " : "") + graph.tensors[op.inputs[k]].name;
    }
    for (const auto& [name, value] : op.attrs) {
      const bool* on = std::get_if<bool>(&value);
      if (on != nullptr && *on) text += ", " + name;
    }
    text += "); ";
  }
  text += "->";
  for (const TensorId grad : grads) text += ' ' + (grad < 0 ? "-" : graph.tensors[grad].name);
  return text;
}

TEST_CASE("every gradient has the shape and dtype of its input") {
  for (const Sample& sample : Samples()) {
    const OpDef& def = *FindOpDef(sample.kind, sample.attrs);
    // Differentiated together, see the test of cross entropy; or in parts.
    if (!def.gradient || sample.kind == "mean_nll" || sample.kind == "pick" ||
        sample.kind == "softmax_cross_entropy" || sample.kind == "causal_attention" ||
        sample.kind == "linear_row_stats") {
      continue;
    }
    INFO(ToString(sample));
    Graph graph = MakeGraph(sample);
    REQUIRE(InferShapes(&graph) == absl::OkStatus());
    const Op op = graph.ops[SampleOp(graph)];
    // Set after ops are differentiated.
    if (graph.tensors[op.outputs[0]].dtype == DType::kBF16) continue;
    const auto grads = Differentiate(&graph, SampleOp(graph)).value();
    REQUIRE(CheckGraph(graph) == absl::OkStatus());
    REQUIRE(InferShapes(&graph) == absl::OkStatus());
    REQUIRE(grads.size() == op.inputs.size());
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor& input = graph.tensors[op.inputs[i]];
      CHECK((grads[i] >= 0) == IsFloat(input.dtype));
      if (grads[i] < 0) continue;
      CHECK(graph.tensors[grads[i]].shape == input.shape);
      CHECK(graph.tensors[grads[i]].dtype == input.dtype);
    }
  }
}

TEST_CASE("the ops of gradients") {
  CHECK(GradientText({"linear", {{{2, 6}}, {{6, 8}}, {{8}}}, {}}) ==
        "op.dx = linear_grad_input(dy, in1); op.dw = linear_grad_weight(in0, dy); "
        "op.dbias = linear_grad_bias(dy); -> op.dx op.dw op.dbias");
  CHECK(GradientText({"linear", {{{2, 6}}, {{8, 6}}}, {{"transpose_w", true}}}) ==
        "op.dx = linear_grad_input(dy, in1, transpose_w); "
        "op.dw = linear_grad_weight(in0, dy, transpose_w); -> op.dx op.dw");
  CHECK(GradientText({"add_bias", {{{2, 8}}, {{8}}}, {}}) ==
        "op.dbias = linear_grad_bias(dy); -> dy op.dbias");
  CHECK(GradientText({"add", {{{2}}, {{2}}}, {}}) == "-> dy dy");
  CHECK(GradientText({"gelu", {{{2}}}, {}}) == "op.dx = gelu_grad(dy, in0); -> op.dx");
  CHECK(GradientText({"dropout", {{{2}}}, {{"rate", 0.1}}}) == "op.dx = dropout(dy); -> op.dx");
  CHECK(GradientText({"embedding", {{{10, 6}}, {{2}, DType::kI32}}, {}}) ==
        "op.dtable = embedding_grad(in1, dy); -> op.dtable -");
  CHECK(GradientText({"positional_embedding", {{{2, 4, 6}}, {{8, 6}}}, {}}) ==
        "op.dtable = positional_embedding_grad(dy); -> dy op.dtable");
  CHECK(GradientText({"layer_norm", {{{2, 6}}, {{6}}, {{6}}}, {}}) ==
        "op.dx = layer_norm_grad_input(dy, in0, in1, op:1, op:2); "
        "op.dw = layer_norm_grad_weight(dy, in0, op:1, op:2); -> op.dx op.dw op.dw:1");
  const SampleInput q{{2, 4, 6, 8}}, numbers{{2, 4}, DType::kI32};
  CHECK(GradientText({"attention", {q, q, q}, {}}) ==
        "op.dq = attention_grad(dy, in0, in1, in2, op, op:1); -> op.dq op.dq:1 op.dq:2");
  CHECK(GradientText({"attention", {q, q, q, numbers, numbers, numbers, numbers}, {}}) ==
        "op.dq = attention_grad(dy, in0, in1, in2, op, op:1, in3, in4, in5, in6); "
        "-> op.dq op.dq:1 op.dq:2 - - - -");
  CHECK(GradientText({"attention", {q, q, q, {{6}}, numbers, numbers}, {{"sinks", true}}}) ==
        "op.dq = attention_grad(dy, in0, in1, in2, op, op:1, in4, in5); "
        "op.dsinks = attention_sinks_grad(dy, op, op:1, in3); "
        "-> op.dq op.dq:1 op.dq:2 op.dsinks - -");
  CHECK(GradientText({"split_qkv", {{{2, 4, 3, 6, 8}}}, {{"parts_first", true}}}) ==
        "op.zeros = fill(); op.zeros.2 = fill(); op.dqkv = join_qkv(dy, op.zeros, op.zeros.2, "
        "parts_first); -> op.dqkv");
}

TEST_CASE("the gradients of norms, positions and MLPs as in Llama") {
  CHECK(GradientText({"rms_norm", {{{2, 6}}, {{6}}}, {}}) ==
        "op.dx = rms_norm_grad_input(dy, in0, in1, op:1); "
        "op.dw = rms_norm_grad_weight(dy, in0, op:1); -> op.dx op.dw");
  const AttrMap theta = {{"theta", 10000.0}};
  CHECK(GradientText({"rotary", {{{2, 4, 6}}}, theta}) == "op.dx = rotary(dy, inverse); -> op.dx");
  AttrMap inverse = theta;
  inverse["inverse"] = true;
  CHECK(GradientText({"rotary", {{{2, 4, 6}}, {{2, 4}, DType::kI32}}, inverse}) ==
        "op.dx = rotary(dy, in1); -> op.dx -");
  CHECK(GradientText({"gated", {{{2}}, {{2}}}, {{"activation", std::string("gelu")}}}) ==
        "op.dx = gated_grad(dy, in0, in1); -> op.dx op.dx:1");
  // Only the first output has a gradient here; nothing depends on the gate then.
  CHECK(GradientText({"linear",
                      {{{2, 6}}, {{6, 8}}, {{2, 8}}, {{8}}},
                      {{"then", std::string("gated")}, {"activation", std::string("silu")}}}) ==
        "op.dx = linear_grad_input(dy, in1); op.dw = linear_grad_weight(in0, dy); "
        "op.dbias = linear_grad_bias(dy); op.zeros = fill(); -> op.dx op.dw op.zeros op.dbias");
}

TEST_CASE("the gradients of unfused attention") {
  CHECK(GradientText({"batch_matmul", {{{2, 4, 8}}, {{2, 8, 10}}}, {}}) ==
        "op.da = batch_matmul(dy, in1, transpose_b); op.db = batch_matmul(in0, dy, transpose_a); "
        "-> op.da op.db");
  CHECK(GradientText({"batch_matmul", {{{2, 4, 8}}, {{2, 10, 8}}}, {{"transpose_b", true}}}) ==
        "op.da = batch_matmul(dy, in1); op.db = batch_matmul(dy, in0, transpose_a); "
        "-> op.da op.db");
  CHECK(GradientText({"causal_softmax", {{{2, 4, 4}}}, {}}) ==
        "op.dx = causal_softmax_grad(dy, op); -> op.dx");
  CHECK(GradientText({"stored_dropout", {{{2}}}, {{"rate", 0.1}}}) ==
        "op.dx = stored_dropout_grad(dy, op:1); -> op.dx");
  CHECK(GradientText({"swap_dims", {{{2, 4, 6}}}, {}}) == "op.dx = swap_dims(dy); -> op.dx");
  CHECK(GradientText({"split_heads", {{{2, 4, 3, 6, 8}}}, {}}) ==
        "op.zeros = fill(); op.zeros.2 = fill(); op.dqkv = split_heads_grad(dy, op.zeros, "
        "op.zeros.2); -> op.dqkv");
}

TEST_CASE("the gradients of a matmul are products, whatever is transposed") {
  const auto text = [](Dims a, Dims b, bool ta, bool tb) {
    return GradientText({"matmul", {{a}, {b}}, {{"transpose_a", ta}, {"transpose_b", tb}}});
  };
  CHECK(text({4, 6}, {6, 8}, false, false) ==
        "op.da = matmul(dy, in1, transpose_b); op.db = matmul_grad_b(in0, dy); -> op.da op.db");
  CHECK(text({4, 6}, {8, 6}, false, true) ==
        "op.da = matmul(dy, in1); op.db = matmul_grad_b(dy, in0); -> op.da op.db");
  CHECK(text({6, 4}, {6, 8}, true, false) ==
        "op.da = matmul(in1, dy, transpose_b); op.db = matmul(in0, dy); -> op.da op.db");
  CHECK(text({6, 4}, {8, 6}, true, true) ==
        "op.da = matmul(in1, dy, transpose_a, transpose_b); "
        "op.db = matmul(dy, in0, transpose_a, transpose_b); -> op.da op.db");
}

TEST_CASE("gradient ops are backward ops of their op's stage and scope, with names of their own") {
  Graph graph = MakeGraph({"gelu", {{{2}}}, {}});
  const OpId gelu = SampleOp(graph);
  graph.ops[gelu].stage = 3;
  graph.ops[gelu].scope = "h.0.act";
  graph.AddOp("gelu", "op.dx", {0}, {});  // takes the name
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  const auto grads = Differentiate(&graph, gelu).value();
  const Op& added = graph.Producer(grads[0]);
  CHECK(added.name == "op.dx.2");
  CHECK(added.phase == Phase::kBackward);
  CHECK(added.stage == 3);
  CHECK(added.scope == "h.0.act");
}

// logits and labels are in0 and in1.
Graph CrossEntropy() {
  Graph graph = MakeGraph({"pick", {{{2, 6}}, {{2}, DType::kI32}}, {}});
  const TensorId logits = 0, picked = graph.ops[SampleOp(graph)].outputs[0];
  const TensorId max = graph.ops[graph.AddOp("row_max", "max", {logits}, {})].outputs[0];
  const TensorId sum = graph.ops[graph.AddOp("row_sum_exp", "sum", {logits, max}, {})].outputs[0];
  graph.AddOp("mean_nll", "loss", {max, sum, picked}, {{"scale", 0.5}});
  return graph;
}

TEST_CASE("cross entropy has one gradient op, and pick hands it to the logits") {
  Graph graph = CrossEntropy();
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  const OpId pick = 2, loss = SampleOp(graph);
  const auto at_loss = Differentiate(&graph, loss).value();
  CHECK(at_loss[0] == -1);
  CHECK(at_loss[1] == -1);
  GradientContext context{graph, pick, {at_loss[2]}, {true, false}};
  const auto at_pick = FindOpDef("pick")->gradient(context).value();
  CHECK(at_pick == std::vector<TensorId>{at_loss[2], -1});
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  CHECK(graph.tensors[at_pick[0]].shape == graph.tensors[0].shape);
  const Op& op = graph.Producer(at_pick[0]);
  CHECK(op.kind == "cross_entropy_grad");
  CHECK(AttrDouble(op, "scale") == 0.5);
  CHECK_FALSE(FindOpDef("row_max")->gradient);
  CHECK_FALSE(FindOpDef("row_sum_exp")->gradient);
}

TEST_CASE("a cross entropy taken apart is refused") {
  Graph graph = CrossEntropy();
  graph.AddOp("gelu", "other", {2}, {});  // a second reader of picked
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  GradientContext context{graph, 2, {0}, {true, false}};
  CHECK(FindOpDef("pick")->gradient(context).status().message() ==
        "its output is read by other (gelu); only mean_nll may read a pick that is differentiated");

  graph = MakeGraph({"mean_nll", {{{2}}, {{2}}, {{2}}}, {{"scale", 0.5}}});
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  CHECK(Differentiate(&graph, SampleOp(graph)).status().message() ==
        "its inputs are not row_max, row_sum_exp and pick of the same logits; "
        "write softmax_cross_entropy");

  graph = CrossEntropy();  // the sum is of another row_max
  const TensorId other = graph.ops[graph.AddOp("row_max", "other", {0}, {})].outputs[0];
  const OpId sum = 4, loss = 5;
  graph.ops[sum].inputs[1] = other;
  CHECK_FALSE(Differentiate(&graph, loss).ok());
}

TEST_CASE("statistics of logits in pieces have one gradient op, of the one loss that reads them") {
  Graph graph = MakeGraph({"linear_row_stats",
                           {{{2, 6}}, {{9, 6}}, {{2}, DType::kI32}},
                           {{"pieces", int64_t{4}}, {"ignore_negative", true}}});
  const OpId stats = SampleOp(graph);
  REQUIRE(InferShapes(&graph) == absl::OkStatus());  // which adds its further outputs
  const std::vector<TensorId> out = graph.ops[stats].outputs;
  const TensorId labels = graph.ops[stats].inputs[2];
  const OpId loss =
      graph.AddOp("mean_nll", "loss", {out[0], out[1], out[2], labels}, {{"scale", 0.5}});
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  GradientContext of_loss{graph, loss, {graph.ops[loss].outputs[0]}, {true, true, true, false}};
  const auto at_loss = FindOpDef("mean_nll")->gradient(of_loss).value();
  CHECK(at_loss == std::vector<TensorId>{-1, -1, graph.ops[loss].outputs[0], -1});
  GradientContext context{graph, stats, {-1, -1, at_loss[2]}, {true, true, false}};
  const auto grads = FindOpDef("linear_row_stats")->gradient(context).value();
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  const Op& op = graph.Producer(grads[0]);
  CHECK(op.kind == "linear_row_stats_grad");
  CHECK(grads == std::vector<TensorId>{op.outputs[0], op.outputs[1], -1});
  CHECK(AttrDouble(op, "scale") == 0.5);
  CHECK(AttrInt(op, "pieces") == 4);
  CHECK(AttrBool(op, "ignore_negative"));
  CHECK(graph.tensors[op.outputs[1]].shape == graph.tensors[graph.ops[stats].inputs[1]].shape);
  // The gradient of a frozen factor is nobody's.
  context.needs_grad = {false, true, false};
  const auto weight = FindOpDef("linear_row_stats")->gradient(context).value();
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  CHECK(weight[0] == -1);
  CHECK(graph.Producer(weight[1]).kind == "linear_row_stats_grad_weight");
  CHECK(graph.tensors[weight[1]].shape == graph.tensors[grads[1]].shape);
  context.needs_grad = {true, false, false};
  const auto input = FindOpDef("linear_row_stats")->gradient(context).value();
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  CHECK(input[1] == -1);
  CHECK(graph.Producer(input[0]).kind == "linear_row_stats_grad_input");
  CHECK(graph.tensors[input[0]].shape == graph.tensors[grads[0]].shape);

  graph.AddOp("gelu", "other", {out[0]}, {});
  CHECK(FindOpDef("linear_row_stats")->gradient(context).status().message() ==
        "its outputs are not read by one mean_nll alone; write softmax_cross_entropy");
}

TEST_CASE("a gradient that reaches a saved value is refused") {
  Graph graph = MakeGraph({"layer_norm", {{{2, 6}}, {{6}}}, {}});
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  GradientContext context{graph, SampleOp(graph), {-1, 0, -1}, {true, true}};
  CHECK(FindOpDef("layer_norm")->gradient(context).status().message() ==
        "the loss depends on its output 1: the mean or deviation of a layer_norm is not "
        "differentiable; use its output 0 only");

  graph = MakeGraph({"rms_norm", {{{2, 6}}, {{6}}}, {}});
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  GradientContext of_rms{graph, SampleOp(graph), {-1, 0}, {true, true}};
  CHECK(FindOpDef("rms_norm")->gradient(of_rms).status().message() ==
        "the loss depends on its output 1: the scale of an rms_norm is not differentiable; use its "
        "output 0 only");
}

}  // namespace
}  // namespace oneflow
