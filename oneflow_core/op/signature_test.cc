// SBP tables: properties that every row of every kind has, and the tables themselves where parallel
// training rests on them.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/op_samples.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

Dims LocalDims(Dims dims, Sbp sbp) {
  if (sbp.split()) dims[sbp.dim] /= 2;
  return dims;
}

bool AllBroadcast(const Signature& row) {
  const auto is_b = [](Sbp sbp) { return sbp.broadcast(); };
  return std::all_of(row.in.begin(), row.in.end(), is_b) &&
         std::all_of(row.out.begin(), row.out.end(), is_b);
}

void CheckRange(const std::vector<Sbp>& sbp, const std::vector<TensorId>& tensors,
                const Graph& graph) {
  REQUIRE(sbp.size() == tensors.size());
  for (size_t i = 0; i < sbp.size(); ++i) {
    const Tensor& tensor = graph.tensors[tensors[i]];
    if (sbp[i].split()) {
      CHECK(sbp[i].dim >= 0);
      CHECK(sbp[i].dim < tensor.shape.rank());
    } else {
      CHECK(sbp[i].dim == 0);
    }
    if (sbp[i].partial()) CHECK(IsFloat(tensor.dtype));
  }
}

// Outputs that are split though nothing they are made of is: the kernel makes its piece of the
// whole.
bool MadeSplit(const Sample& sample, const Signature& row) {
  return IsBoxing(sample.kind) ||
         ((sample.kind == "embedding_grad" || sample.kind == "count_ahead") && row.out[0] == S(0));
}

// Groups of experts are split, and the attributes say how many there are in all.
bool SplitsGroups(const Sample& sample, const Signature& row) {
  const auto lead = [](Sbp sbp) { return sbp == S(0); };
  return sample.attrs.contains("experts") && row.in.back() == B() &&
         (std::ranges::any_of(row.in, lead) || std::ranges::any_of(row.out, lead));
}

// Two devices: halves of the split inputs must make halves of the split outputs.
void CheckLocalShapes(const Sample& sample, const Signature& row, const Graph& logical) {
  Sample local = sample;
  for (size_t i = 0; i < row.in.size(); ++i) {
    local.inputs[i].dims = LocalDims(local.inputs[i].dims, row.in[i]);
  }
  Graph graph = MakeGraph(local);
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  for (size_t i = 0; i < row.out.size(); ++i) {
    const Dims& dims = logical.tensors[logical.ops[SampleOp(logical)].outputs[i]].shape.dims;
    CHECK(graph.tensors[graph.ops[SampleOp(graph)].outputs[i]].shape.dims ==
          LocalDims(dims, row.out[i]));
  }
}

TEST_CASE("every row of every table fits its op") {
  for (const Sample& sample : Samples()) {
    INFO(ToString(sample));
    Graph graph = MakeGraph(sample);
    REQUIRE(InferShapes(&graph) == absl::OkStatus());
    const Op& op = graph.ops[SampleOp(graph)];
    const std::vector<Signature> rows = FindOpDef(op)->signatures({graph, op});
    REQUIRE(!rows.empty());
    CHECK(AllBroadcast(rows[0]));
    for (size_t r = 0; r < rows.size(); ++r) {
      INFO(ToString(rows[r]));
      CheckRange(rows[r].in, op.inputs, graph);
      CheckRange(rows[r].out, op.outputs, graph);
      CHECK(std::find(rows.begin(), rows.begin() + r, rows[r]) == rows.begin() + r);
      if (MadeSplit(sample, rows[r]) || SplitsGroups(sample, rows[r])) continue;
      CheckLocalShapes(sample, rows[r], graph);
    }
  }
}

TEST_CASE("variables and inputs lie in any way but partially") {
  for (const char* kind : {"input", "variable"}) {
    Graph graph;
    graph.AddOp(kind, "w", {}, {});
    graph.tensors[0].shape = {4, 6};
    const std::vector<Signature> rows = FindOpDef(kind)->signatures({graph, graph.ops[0]});
    CHECK(rows == std::vector<Signature>{{{}, {B()}}, {{}, {S(0)}}, {{}, {S(1)}}});
  }
}

TEST_CASE("a linear contracts split dims to a partial sum, but never with its bias") {
  CHECK(TableText({"linear", {{{2, 4, 6, 8}}, {{6, 8, 10}}}, {{"contract", int64_t{2}}}}) ==
        "B B -> B\n"
        "S(0) B -> S(0)\n"
        "S(1) B -> S(1)\n"
        "B S(2) -> S(2)\n"
        "S(2) S(0) -> P\n"
        "S(3) S(1) -> P\n"
        "P B -> P\n");
  CHECK(TableText({"linear", {{{2, 6}}, {{8, 6}}, {{8}}}, {{"transpose_w", true}}}) ==
        "B B B -> B\n"
        "S(0) B B -> S(0)\n"
        "B S(0) S(0) -> S(1)\n");
  CHECK(TableText({"add_bias", {{{2, 4, 8}}, {{8}}}, {}}) ==
        "B B -> B\n"
        "S(0) B -> S(0)\n"
        "S(1) B -> S(1)\n"
        "S(2) S(0) -> S(2)\n");
}

TEST_CASE("the gradients of a linear mirror its table") {
  CHECK(TableText({"linear_grad_input", {{{2, 8}}, {{6, 8}}}, {}}) ==
        "B B -> B\n"
        "S(0) B -> S(0)\n"
        "S(1) S(1) -> P\n"
        "B S(0) -> S(1)\n"
        "P B -> P\n");
  CHECK(TableText({"linear_grad_weight", {{{2, 6}}, {{2, 8}}}, {{"lead", int64_t{1}}}}) ==
        "B B -> B\n"
        "S(0) S(0) -> P\n"
        "S(1) B -> S(0)\n"
        "B S(1) -> S(1)\n"
        "B P -> P\n"
        "P B -> P\n");
  CHECK(TableText({"linear_grad_bias", {{{2, 8}}}, {{"lead", int64_t{1}}}}) ==
        "B -> B\n"
        "S(0) -> P\n"
        "S(1) -> S(0)\n"
        "P -> P\n");
}

TEST_CASE("embeddings split by sample, by row of the table or by column") {
  CHECK(TableText({"embedding", {{{10, 6}}, {{2, 4}, DType::kI32}}, {}}) ==
        "B B -> B\n"
        "B S(0) -> S(0)\n"
        "B S(1) -> S(1)\n"
        "S(0) B -> P\n"
        "S(1) B -> S(2)\n");
  CHECK(TableText({"embedding_grad", {{{2}, DType::kI32}, {{2, 6}}}, {{"vocab", int64_t{10}}}}) ==
        "B B -> B\n"
        "S(0) S(0) -> P\n"
        "B B -> S(0)\n"
        "B S(1) -> S(1)\n"
        "B P -> P\n");
  CHECK(TableText({"positional_embedding", {{{2, 4, 6}}, {{8, 6}}}, {}}) ==
        "B B -> B\n"
        "S(0) B -> S(0)\n"
        "S(1) B -> S(1)\n"
        "S(2) S(1) -> S(2)\n");
}

TEST_CASE(
    "attention splits samples, groups, the heads of a group, and queries that have positions") {
  const SampleInput q{{2, 4, 6, 8}}, heads{{2, 4, 6, 2, 8}}, lses{{2, 6, 2, 4}};
  const SampleInput numbers{{2, 4}, DType::kI32}, qkv{{2, 4, 3, 6, 8}}, groups{{2, 4, 6, 4, 8}};
  CHECK(TableText({"attention", {q, q, q}, {}}) ==
        "B B B -> B B\n"
        "S(0) S(0) S(0) -> S(0) S(0)\n"
        "S(2) S(2) S(2) -> S(2) S(1)\n");
  CHECK(TableText({"attention", {heads, q, q, numbers, numbers, numbers, numbers}, {}}) ==
        "B B B B B B B -> B B\n"
        "S(0) S(0) S(0) S(0) S(0) S(0) S(0) -> S(0) S(0)\n"
        "S(2) S(2) S(2) B B B B -> S(2) S(1)\n"
        "S(3) B B B B B B -> S(3) S(2)\n"
        "S(1) B B S(1) B S(1) B -> S(1) S(3)\n");
  CHECK(TableText({"attention", {q, q, q, numbers, numbers}, {}}) ==
        "B B B B B -> B B\n"
        "S(0) S(0) S(0) S(0) S(0) -> S(0) S(0)\n"
        "S(2) S(2) S(2) B B -> S(2) S(1)\n"
        "S(1) B B S(1) B -> S(1) S(2)\n");
  CHECK(TableText({"attention_grad", {heads, heads, q, q, heads, lses}, {}}) ==
        "B B B B B B -> B B B\n"
        "S(0) S(0) S(0) S(0) S(0) S(0) -> S(0) S(0) S(0)\n"
        "S(2) S(2) S(2) S(2) S(2) S(1) -> S(2) S(2) S(2)\n"
        "S(3) S(3) B B S(3) S(2) -> S(3) P P\n");
  CHECK(TableText({"attention_grad", {q, q, q, q, q, {{2, 6, 4}}, numbers, numbers}, {}}) ==
        "B B B B B B B B -> B B B\n"
        "S(0) S(0) S(0) S(0) S(0) S(0) S(0) S(0) -> S(0) S(0) S(0)\n"
        "S(2) S(2) S(2) S(2) S(2) S(1) B B -> S(2) S(2) S(2)\n"
        "S(1) S(1) B B S(1) S(2) S(1) B -> S(1) P P\n");
  CHECK(TableText({"packed_attention", {qkv}, {{"parts_first", true}}}) ==
        "B -> B B\n"
        "S(0) -> S(0) S(0)\n"
        "S(3) -> S(2) S(1)\n");
  CHECK(TableText({"packed_attention", {groups}, {{"parts_first", false}}}) ==
        "B -> B B\n"
        "S(0) -> S(0) S(0)\n"
        "S(2) -> S(2) S(1)\n");
  CHECK(TableText({"cached_attention", {{{2, 2, 6, 9, 8}}, heads, q, q, {{1}, DType::kI32}}, {}}) ==
        "B B B B B -> B B\n"
        "S(0) S(0) S(0) S(0) B -> S(0) S(0)\n"
        "S(2) S(2) S(2) S(2) B -> S(2) S(2)\n"
        "B S(3) B B B -> B S(3)\n");
}

TEST_CASE("a packed qkv is split as its queries, keys and values are") {
  CHECK(TableText({"split_qkv", {{{2, 4, 3, 6, 8}}}, {{"parts_first", true}}}) ==
        "B -> B B B\n"
        "S(0) -> S(0) S(0) S(0)\n"
        "S(1) -> S(1) S(1) S(1)\n"
        "S(3) -> S(2) S(2) S(2)\n"
        "S(4) -> S(3) S(3) S(3)\n"
        "P -> P P P\n");
  CHECK(TableText({"join_qkv",
                   {{{2, 4, 6, 2, 8}}, {{2, 4, 6, 8}}, {{2, 4, 6, 8}}},
                   {{"parts_first", false}}}) ==
        "B B B -> B\n"
        "S(0) S(0) S(0) -> S(0)\n"
        "S(1) S(1) S(1) -> S(1)\n"
        "S(2) S(2) S(2) -> S(2)\n"
        "S(4) S(3) S(3) -> S(4)\n"
        "P P P -> P\n");
}

TEST_CASE("an rms_norm splits rows, and the gradient of its gain columns, too") {
  CHECK(TableText({"rms_norm", {{{2, 4, 6}}, {{6}}}, {}}) ==
        "B B -> B B\n"
        "S(0) B -> S(0) S(0)\n"
        "S(1) B -> S(1) S(1)\n");
  CHECK(TableText({"rms_norm_grad_input", {{{2, 6}}, {{2, 6}}, {{6}}, {{2}}}, {}}) ==
        "B B B B -> B\n"
        "S(0) S(0) B S(0) -> S(0)\n");
  CHECK(TableText({"rms_norm_grad_weight", {{{2, 6}}, {{2, 6}}, {{2}}}, {}}) ==
        "B B B -> B\n"
        "S(0) S(0) S(0) -> P\n"
        "S(1) S(1) B -> S(0)\n");
}

TEST_CASE("rotary splits samples and heads, and positions where each has its own") {
  const AttrMap theta = {{"theta", 10000.0}};
  CHECK(TableText({"rotary", {{{2, 4, 6, 8}}}, theta}) ==
        "B -> B\nS(0) -> S(0)\nS(2) -> S(2)\nP -> P\n");
  CHECK(TableText({"rotary", {{{2, 4, 6, 8}}, {{1}, DType::kI32}}, theta}) ==
        "B B -> B\nS(0) B -> S(0)\nS(2) B -> S(2)\nP B -> P\n");
  CHECK(TableText({"rotary", {{{2, 4, 6, 10, 8}}, {{2, 4}, DType::kI32}}, theta}) ==
        "B B -> B\nS(0) S(0) -> S(0)\nS(1) S(1) -> S(1)\nS(2) B -> S(2)\nS(3) B -> S(3)\n"
        "P B -> P\n");
}

TEST_CASE("a gated product is split in any way, and never partial") {
  const AttrMap silu = {{"activation", std::string("silu")}};
  CHECK(TableText({"gated", {{{2, 4}}, {{2, 4}}}, silu}) ==
        "B B -> B\nS(0) S(0) -> S(0)\nS(1) S(1) -> S(1)\n");
  CHECK(TableText({"gated_grad", {{{2}}, {{2}}, {{2}}}, silu}) ==
        "B B B -> B B\nS(0) S(0) S(0) -> S(0) S(0)\n");
  AttrMap then = silu;
  then["then"] = std::string("gated");
  CHECK(TableText({"linear", {{{2, 6}}, {{6, 8}}, {{2, 8}}, {{8}}}, then}) ==
        "B B B B -> B B\nS(0) B S(0) B -> S(0) S(0)\nB S(1) S(1) S(0) -> S(1) S(1)\n");
  then["then"] = std::string("gated_grad");
  CHECK(TableText({"linear_grad_input", {{{2, 8}}, {{6, 8}}, {{2, 6}}, {{2, 6}}}, then}) ==
        "B B B B -> B B\nS(0) B S(0) S(0) -> S(0) S(0)\nB S(0) S(1) S(1) -> S(1) S(1)\n");
}

TEST_CASE("tokens meet groups of experts by a split of their queues") {
  const AttrMap route = {{"experts", int64_t{8}}, {"groups", int64_t{4}}};
  const SampleInput x{{2, 4, 6}}, choices{{2, 4, 2}, DType::kI32}, w{{2, 4, 2}};
  const SampleInput queues{{4, 2, 1, 8, 6}}, offsets{{4, 2, 1, 3}, DType::kI32};
  CHECK(TableText({"route", {{{2, 4, 8}}}, {{"choices", int64_t{2}}}}) ==
        "B -> B B B B\nS(0) -> S(0) S(0) S(0) S(1)\n");
  CHECK(TableText({"dispatch", {x, choices, choices}, route}) ==
        "B B B -> B\n"
        "S(0) S(0) S(0) -> S(1)\n"
        "S(2) B B -> S(4)\n"
        "P B B -> P\n"
        "B B B -> S(0)\n");
  CHECK(TableText({"expert_linear", {queues, {{8, 6, 10}}, offsets}, {}}) ==
        "B B B -> B\n"
        "S(1) B S(1) -> S(1)\n"
        "B S(2) B -> S(4)\n"
        "S(4) S(1) B -> P\n"
        "P B B -> P\n"
        "S(0) S(0) S(0) -> S(0)\n");
  // Of devices that split the contraction, one adds the bias, and the others zeros.
  CHECK(TableText({"expert_linear", {queues, {{8, 6, 10}}, offsets, {{8, 10}}}, {}}) ==
        "B B B B -> B\n"
        "S(1) B S(1) B -> S(1)\n"
        "B S(2) B S(1) -> S(4)\n"
        "S(4) S(1) B P -> P\n"
        "P B B P -> P\n"
        "S(0) S(0) S(0) S(0) -> S(0)\n");
  CHECK(TableText({"combine", {queues, choices, choices, w}, route}) ==
        "B B B B -> B\n"
        "S(1) S(0) S(0) S(0) -> S(0)\n"
        "S(4) B B B -> S(2)\n"
        "P B B B -> P\n"
        "S(0) B B B -> P\n");
}

TEST_CASE("tokens that queue in runs may be split by runs") {
  const AttrMap route = {{"experts", int64_t{8}}, {"groups", int64_t{4}}, {"run", int64_t{2}}};
  const SampleInput x{{2, 4, 6}}, choices{{2, 4, 2}, DType::kI32}, w{{2, 4, 2}};
  const SampleInput queues{{4, 2, 2, 4, 6}};
  CHECK(TableText({"route", {{{2, 4, 8}}}, {{"choices", int64_t{2}}, {"run", int64_t{2}}}}) ==
        "B -> B B B B\nS(0) -> S(0) S(0) S(0) S(1)\nS(1) -> S(1) S(1) S(1) S(2)\n");
  CHECK_THAT(TableText({"dispatch", {x, choices, choices}, route}),
             Catch::Contains("\nS(1) S(1) S(1) -> S(2)\n"));
  CHECK_THAT(TableText({"combine", {queues, choices, choices, w}, route}),
             Catch::Contains("\nS(2) S(1) S(1) S(1) -> S(1)\n"));
}

TEST_CASE("unfused attention splits samples and heads from end to end") {
  CHECK(TableText({"split_heads", {{{2, 4, 3, 6, 8}}}, {}}) ==
        "B -> B B B\n"
        "S(0) -> S(0) S(0) S(0)\n"
        "S(1) -> S(2) S(2) S(2)\n"
        "S(3) -> S(1) S(1) S(1)\n"
        "S(4) -> S(3) S(3) S(3)\n"
        "P -> P P P\n");
  CHECK(TableText({"batch_matmul", {{{2, 6, 4, 8}}, {{2, 6, 10, 8}}}, {{"transpose_b", true}}}) ==
        "B B -> B\n"
        "S(0) S(0) -> S(0)\n"
        "S(1) S(1) -> S(1)\n"
        "S(2) B -> S(2)\n"
        "B S(2) -> S(3)\n"
        "S(3) S(3) -> P\n"
        "P B -> P\n"
        "B P -> P\n");
  CHECK(TableText({"causal_softmax", {{{2, 6, 4, 4}}}, {}}) ==
        "B -> B\nS(0) -> S(0)\nS(1) -> S(1)\n");
  CHECK(TableText({"swap_dims", {{{2, 6, 4, 8}}}, {}}) ==
        "B -> B\nS(0) -> S(0)\nS(1) -> S(2)\nS(2) -> S(1)\nS(3) -> S(3)\nP -> P\n");
  CHECK(TableText({"stored_dropout", {{{2, 4}}}, {{"rate", 0.1}}}) ==
        "B -> B B\nS(0) -> S(0) S(0)\nS(1) -> S(1) S(1)\n");
}

TEST_CASE("a vocabulary that is split costs three numbers a row") {
  CHECK(TableText({"row_max", {{{2, 6}}}, {}}) == "B -> B\nS(0) -> S(0)\nS(1) -> Pmax\n");
  CHECK(TableText({"row_sum_exp", {{{2, 6}}, {{2}}}, {}}) ==
        "B B -> B\nS(0) S(0) -> S(0)\nS(1) B -> P\n");
  CHECK(TableText({"pick", {{{2, 6}}, {{2}, DType::kI32}}, {}}) ==
        "B B -> B\nS(0) S(0) -> S(0)\nS(1) B -> P\n");
  CHECK(TableText({"mean_nll", {{{2}}, {{2}}, {{2}}}, {{"scale", 0.5}}}) ==
        "B B B -> B\nS(0) S(0) S(0) -> P\n");
  CHECK(TableText({"cross_entropy_grad",
                   {{{2, 6}}, {{2}, DType::kI32}, {{2}}, {{2}}, {{}}},
                   {{"scale", 0.5}}}) ==
        "B B B B B -> B\nS(0) S(0) S(0) S(0) B -> S(0)\nS(1) B B B B -> S(1)\n");
}

TEST_CASE("sums carry partial values, the sum over uses of a variable does not") {
  CHECK(TableText({"add", {{{2}}, {{2}}}, {}}) == "B B -> B\nS(0) S(0) -> S(0)\nP P -> P\n");
  CHECK(TableText({"sum_uses", {{{2}}, {{2}}}, {}}) == "B B -> B\nS(0) S(0) -> S(0)\n");
}

TEST_CASE("an update is split as its variable is") {
  CHECK(TableText({"adamw", {{{4}}, {{4}}, {{4}}, {{4}}, {{}, DType::kF64}}, {}}) ==
        "B B B B B -> B B B\nS(0) S(0) S(0) S(0) B -> S(0) S(0) S(0)\n");
  for (const char* kind : {"adamw", "next_adamw"}) {
    CHECK(TableText({kind, {{{4}}, {{4}}, {{4}}, {{4}}}, {}}) ==
          "B B B B -> B B B\nS(0) S(0) S(0) S(0) -> S(0) S(0) S(0)\n");
  }
  CHECK(TableText({"sum_squares", {{{4, 6}}}, {}}) == "B -> B\nS(0) -> P\nS(1) -> P\n");
}

TEST_CASE("boxing changes one way and else keeps what it gets") {
  const std::string kept = "B -> B\nS(0) -> S(0)\nP -> P\nPmax -> Pmax\n";
  const auto table = [](const char* kind) { return TableText({kind, {{{4}}}, {}}); };
  CHECK(table("transfer") == kept);
  CHECK(table("slice") == kept + "B -> S(0)\n");
  CHECK(table("all_gather") == kept + "S(0) -> B\n");
  CHECK(table("all_reduce") == kept + "P -> B\nPmax -> B\n");
  CHECK(table("reduce_scatter") == kept + "P -> S(0)\nPmax -> S(0)\n");
  CHECK(table("zero_fill") == kept + "B -> P\nB -> Pmax\nS(0) -> P\nS(0) -> Pmax\n");
  CHECK(table("all_to_all") == kept + "B -> S(0)\nS(0) -> B\n");  // as part of several axes
}

}  // namespace
}  // namespace oneflow
