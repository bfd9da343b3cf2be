#include "oneflow_core/op/check_graph.h"

#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_samples.h"

namespace oneflow {
namespace {

std::string CheckError(const Sample& sample) {
  const absl::Status status = CheckGraph(MakeGraph(sample));
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(ToStd(status.message()));
}

std::string ShapeError(const Sample& sample) {
  Graph graph = MakeGraph(sample);
  const absl::Status status = InferShapes(&graph);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(ToStd(status.message()));
}

TEST_CASE("all samples are well formed") {
  for (const Sample& sample : Samples()) {
    INFO(ToString(sample));
    CHECK(CheckGraph(MakeGraph(sample)) == absl::OkStatus());
  }
}

TEST_CASE("CheckLogicalGraph leaves to the compiler what is the compiler's") {
  const auto refusal = [](std::string kind, std::string name, AttrMap attrs) {
    Graph graph;
    graph.AddOp("variable", "w", {}, {});
    graph.AddOp(std::move(kind), std::move(name), {}, std::move(attrs));
    return std::string(ToStd(CheckLogicalGraph(graph).message()));
  };
  CHECK(refusal("variable", "w/n", {}) == "");
  CHECK(refusal("input", "x/m", {}) == "");
  CHECK(refusal("variable", "w/m", {}) ==
        "op w/m: has the name of a state of the optimizer of \"w\"; rename it");
  CHECK(refusal("variable", "u", {{"variable", std::string("w")}}) ==
        "op u: attribute \"variable\" is the compiler's own; leave it out");
  CHECK(refusal("variable", "w/v", {}) ==
        "op w/v: has the name of a state of the optimizer of \"w\"; rename it");
  for (const char* own : {"transient", "versions", "lag"}) {
    CHECK_THAT(refusal("variable", "u", {{own, int64_t{2}}}),
               Catch::EndsWith("is the compiler's own; leave it out"));
  }
  CHECK(refusal("adamw", "u", {}) ==
        "op u: kind \"adamw\" is the compiler's own; set `loss`: `train` adds the optimizer");
  CHECK(refusal("cast", "y", {}) ==
        "op y: kind \"cast\" is the compiler's own; compile with --precision=bf16");
  CHECK(refusal("layer_norm", "y", {{"dtype", std::string("bf16")}}) ==
        "op y: attribute \"dtype\" is the compiler's own; leave it out");
  CHECK_THAT(refusal("rms_norm", "y", {{"dtype", std::string("bf16")}}),
             Catch::EndsWith("is the compiler's own; leave it out"));
  CHECK(refusal("all_reduce", "y", {}) ==
        "op y: kind \"all_reduce\" is the compiler's own; set layouts with `sbp` and "
        "`stage`");
}

TEST_CASE("CheckGraph names the op, the mistake and the hint") {
  CHECK(CheckError({"liner", {}, {}}) ==
        "op op: kind \"liner\" is not known; did you mean \"linear\"?");
  CHECK(CheckError({"convolution_3d", {}, {}}) ==
        "op op: kind \"convolution_3d\" is not known; docs/ops.md lists all kinds");
  CHECK(CheckError({"linear", {{{2, 4}}}, {}}) ==
        "op op: kind \"linear\" takes 2 to 3 inputs, not 1; "
        "linear: x[..., c...], w[c..., o...], (bias[o...]) -> [..., o...]");
  CHECK(CheckError({"gelu", {{{2}}, {{2}}}, {}}) ==
        "op op: kind \"gelu\" takes 1 input(s), not 2; gelu: x -> y");
  CHECK(CheckError({"add_n", {}, {}}) ==
        "op op: kind \"add_n\" takes at least 1 input(s), not 0; add_n: x1, x2, ... -> their sum");
  CHECK(CheckError({"mean_nll", {{{2}}, {{2}}, {{2}}}, {}}) ==
        "op op: has no attribute \"scale\"; kind \"mean_nll\" needs it: a number (f)");
  CHECK(CheckError({"gelu", {{{2}}}, {{"exact", true}}}) ==
        "op op: attribute \"exact\" is not one of kind \"gelu\"; it has none");
  CHECK(
      CheckError({"layer_norm", {{{2, 6}}, {{6}}}, {{"epsilom", 1e-5}}}) ==
      "op op: attribute \"epsilom\" is not one of kind \"layer_norm\"; did you mean \"epsilon\"?");
  CHECK(CheckError({"linear", {{{2, 4}}, {{4, 6}}}, {{"contract", std::string("one")}}}) ==
        "op op: attribute \"contract\" is a string (s); kind \"linear\" wants an int (i)");
}

TEST_CASE("a form that a kind has not is refused") {
  const AttrMap relu = {{"then", std::string("relu")}};
  CHECK(CheckError({"linear", {{{2, 4}}, {{4, 6}}}, relu}) ==
        "op op: attribute \"then\" is \"relu\"; use \"add\", \"gated\", \"gelu\"");
  CHECK(CheckError({"gelu", {{{2, 4}}}, relu}) ==
        "op op: attribute \"then\" is \"relu\"; kind \"gelu\" has no such attribute");
  CHECK(CheckError({"linear", {{{2, 4}}, {{4, 6}}}, {{"then", true}}}) ==
        "op op: attribute \"then\" is a bool (b); kind \"linear\" wants a string (s)");
  CHECK(CheckError({"linear", {{{2, 4}}, {{4, 6}}}, {{"then", std::string("add")}}}) ==
        "op op: kind \"linear\" takes 3 to 4 inputs, not 2; "
        "linear: x[..., c...], w[c..., o...], a[..., o...], (bias[o...]) -> [..., o...]");
}

TEST_CASE("an int may stand for a number, nothing else for another") {
  CHECK(CheckGraph(MakeGraph({"layer_norm", {{{2, 6}}, {{6}}}, {{"epsilon", int64_t{1}}}})) ==
        absl::OkStatus());
  CHECK_FALSE(CheckGraph(MakeGraph({"linear", {{{2, 4}}, {{4, 6}}}, {{"contract", 1.0}}})).ok());
  CHECK_FALSE(
      CheckGraph(MakeGraph({"linear", {{{2, 4}}, {{4, 6}}}, {{"transpose_w", int64_t{1}}}})).ok());
}

TEST_CASE("an output that a kind has not is refused, one that nobody reads is appended") {
  Graph graph = MakeGraph({"gelu", {{{2, 4}}}, {}});
  graph.AddOutput(SampleOp(graph));
  CHECK(CheckGraph(graph).message() ==
        "op op: kind \"gelu\" has 1 output(s), but its output 1 is used; gelu: x -> y");

  graph = MakeGraph({"layer_norm", {{{2, 4, 6}}, {{6}}}, {}});
  REQUIRE(CheckGraph(graph) == absl::OkStatus());
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  const Op& op = graph.ops[SampleOp(graph)];
  REQUIRE(op.outputs.size() == 3);
  CHECK(graph.tensors[op.outputs[2]].name == "op:2");
  CHECK(graph.tensors[op.outputs[2]].shape == Shape{2, 4});
}

TEST_CASE("shape errors show what does not fit") {
  CHECK(ShapeError({"linear", {{{4, 5}}, {{6, 8}}}, {}}) ==
        "op op (linear): x f32[4,5] and w f32[6,8] do not contract: last 1 dim(s) of x [5] against "
        "first 1 of w [6]; make them equal, or change \"contract\" or \"transpose_w\"; "
        "inputs: in0 f32[4,5], in1 f32[6,8]");
  CHECK(ShapeError({"linear", {{{4, 6}}, {{6, 8}}, {{7}}}, {}}) ==
        "op op (linear): bias f32[7] must have shape [8], the output dims of w f32[6,8]; "
        "inputs: in0 f32[4,6], in1 f32[6,8], in2 f32[7]");
  CHECK(ShapeError({"linear", {{{4, 6}}, {{6, 8}}}, {{"contract", int64_t{2}}}}) ==
        "op op (linear): attribute \"contract\" is 2 with x f32[4,6] and w f32[6,8]; it is at "
        "least 1 "
        "and leaves at least one dimension of each; inputs: in0 f32[4,6], in1 f32[6,8]");
  CHECK(ShapeError({"linear", {{{4, 6}}, {{6, 8}, DType::kF64}}, {}}) ==
        "op op (linear): x f32[4,6] and w f64[6,8] differ in type; give both one dtype; "
        "inputs: in0 f32[4,6], in1 f64[6,8]");
  CHECK(ShapeError({"embedding", {{{10, 6}}, {{2}}}, {}}) ==
        "op op (embedding): ids f32[2] must be of type i32: it holds ids; set dtype: I32 on the op "
        "that makes it; inputs: in0 f32[10,6], in1 f32[2]");
  CHECK(ShapeError({"positional_embedding", {{{2, 16, 6}}, {{8, 6}}}, {}}) ==
        "op op (positional_embedding): x f32[2,16,6] is longer than table f32[8,6]; use a longer "
        "table or a shorter sequence; inputs: in0 f32[2,16,6], in1 f32[8,6]");
  CHECK(ShapeError({"causal_attention", {{{2, 4, 6, 8}}}, {}}) ==
        "op op (causal_attention): qkv f32[2,4,6,8] must be [batch, seq, 3, heads, head_dim]; make "
        "it with a linear whose w is [hidden, 3, heads, head_dim]; inputs: in0 f32[2,4,6,8]");
  CHECK(ShapeError({"add", {{{2, 4}}, {{4}}}, {}}) ==
        "op op (add): input 1 f32[4] must have shape [2,4], that of input 0 f32[2,4]; "
        "inputs: in0 f32[2,4], in1 f32[4]");
  CHECK(ShapeError({"matmul", {{{4, 6}}, {{4, 6}}}, {}}) ==
        "op op (matmul): a f32[4,6] and b f32[4,6] do not multiply: dim 1 of a against dim 0 of b; "
        "make them equal, or change \"transpose_a\" or \"transpose_b\"; "
        "inputs: in0 f32[4,6], in1 f32[4,6]");
}

TEST_CASE("shape errors of unfused attention") {
  CHECK(ShapeError({"batch_matmul", {{{2, 4, 6}}, {{3, 6, 4}}}, {}}) ==
        "op op (batch_matmul): a f32[2,4,6] and b f32[3,6,4] differ in their leading dimensions; "
        "they have all in common but their last two; use `linear` for one matrix b; inputs: in0 "
        "f32[2,4,6], in1 f32[3,6,4]");
  CHECK(ShapeError({"batch_matmul", {{{2, 4, 6}}, {{2, 4, 6}}}, {}}).find("do not multiply") !=
        std::string::npos);
  CHECK(ShapeError({"batch_matmul", {{{4, 6}}, {{6, 4}}}, {}}).find("at least 3 dimension") !=
        std::string::npos);
  CHECK(ShapeError({"causal_softmax", {{{2, 4, 6}}}, {}}) ==
        "op op (causal_softmax): x f32[2,4,6] must have scores of all positions for all positions; "
        "make its last two dimensions equal; inputs: in0 f32[2,4,6]");
  CHECK(ShapeError({"split_heads", {{{2, 4, 6, 8}}}, {}}).find("[batch, seq, 3, heads") !=
        std::string::npos);
  CHECK(ShapeError({"split_heads_grad", {{{2, 4}}, {{2, 4}}, {{2, 4}}}, {}})
            .find("must be [batch, heads, seq, head_dim]") != std::string::npos);
  CHECK(ShapeError({"swap_dims", {{{2, 4}}}, {}}).find("at least 3 dimension") !=
        std::string::npos);
  const AttrMap rate = {{"rate", 0.1}};
  CHECK(ShapeError({"stored_dropout_grad", {{{2, 4}}, {{2, 4}}}, rate}) ==
        "op op (stored_dropout_grad): mask f32[2,4] must be of type u8; it is the second output of "
        "a stored_dropout; inputs: in0 f32[2,4], in1 f32[2,4]");
  CHECK(ShapeError({"stored_dropout_grad", {{{2, 4}}, {{2}, DType::kU8}}, rate})
            .find("must have shape [2,4]") != std::string::npos);
  CHECK(ShapeError({"gelu", {{{2, 4}, DType::kU8}}, {}}).find("not of a floating point type") !=
        std::string::npos);
}

TEST_CASE("shape errors of biases of experts") {
  const SampleInput y{{2, 2, 1, 8, 6}}, w{{4, 6, 10}}, offsets{{2, 2, 1, 3}, DType::kI32};
  CHECK_THAT(ShapeError({"expert_linear", {y, w, offsets, {{4, 6}}}, {}}),
             Catch::StartsWith("op op (expert_linear): bias f32[4,6] must have shape [4,10], a "
                               "number for each expert and column of w f32[4,6,10]"));
  CHECK_THAT(ShapeError({"expert_linear", {y, w, offsets, {{4, 10}, DType::kF64}}, {}}),
             Catch::StartsWith("op op (expert_linear): bias f64[4,10] is read as f32 only; cast "
                               "it"));
  CHECK_THAT(ShapeError({"expert_linear_grad_bias", {y, {{2, 2, 1}, DType::kI32}}, {}}),
             Catch::StartsWith("op op (expert_linear_grad_bias): dout f32[2,2,1,8,6] and offsets "
                               "i32[2,2,1] must be [groups, batch, runs, slots, width]"));
}

TEST_CASE("shape errors of attention") {
  const SampleInput q{{2, 4, 6, 8}}, far{{2, 9, 6, 8}}, numbers{{2, 4}, DType::kI32};
  const SampleInput one{{1}, DType::kI32}, cache{{2, 2, 6, 9, 8}};
  const AttrMap by_group{{"parts_first", false}}, sinks{{"sinks", true}};
  CHECK(ShapeError({"attention", {q, {{2, 4, 3, 8}}, q}, {}}) ==
        "op op (attention): k f32[2,4,3,8] must have shape [2,4,6,8], as follows from q "
        "f32[2,4,6,8]; inputs: in0 f32[2,4,6,8], in1 f32[2,4,3,8], in2 f32[2,4,6,8]");
  const std::pair<Sample, std::string> wrong[] = {
      {{"attention", {{{2, 4, 6}}, q, q}, {}}, "q f32[2,4,6] must be [batch, seq, groups, heads"},
      {{"attention", {q, {{2, 4, 48}}, q}, {}}, "k f32[2,4,48] must be [batch, seq, groups"},
      {{"attention", {q, q, far}, {}}, "v f32[2,9,6,8] must have shape [2,4,6,8], that of k"},
      {{"attention", {q, far, far}, {}},
       "queries and keys differ in number, 4 and 9; give positions of both"},
      {{"attention", {q, q, q, numbers}, {}},
       "has positions or documents of queries without those of keys; give both"},
      {{"attention", {q, q, q, numbers, numbers, numbers}, {}},
       "has positions or documents of queries without those of keys; give both"},
      {{"attention", {q, far, far, numbers, numbers}, {}},
       "k_positions i32[2,4] must have shape [2,9], a number for each key"},
      {{"attention", {q, far, far, numbers, numbers, numbers, numbers}, {}},
       "k_positions i32[2,4] must have shape [2,9], a number for each key"},
      {{"attention", {q, q, q, q, numbers, numbers, numbers}, {}},
       "q_positions f32[2,4,6,8] must be of type i32"},
      {{"attention", {q, q, q}, {{"window", int64_t{-1}}}},
       "attribute \"window\" is -1; use the number of positions that a query sees, or 0 for all"},
      {{"attention", {q, q, q}, {{"scale", -1.0}}},
       "attribute \"scale\" is -1.000000; use a factor of scores, or 0 for 1 / sqrt(head_dim)"},
      {{"attention", {q, q, q}, {{"soft_cap", -2.0}}},
       "attribute \"soft_cap\" is -2.000000; use the limit of scores, or 0 for none"},
      {{"attention", {q, q, q}, sinks},
       "has the attribute \"sinks\" and no such input; give a logit of each head"},
      {{"attention", {q, q, q, {{6, 1}}}, sinks},
       "sinks f32[6,1] must have shape [6], a logit of each head of q f32[2,4,6,8]"},
      {{"attention", {q, q, q, numbers, numbers}, sinks}, "sinks i32[2,4] is not of a floating"},
      {{"attention_sinks_grad", {q, q, {{2, 6, 4}}, {{5}}}, {}},
       "sinks f32[5] must have shape [6], as follows from out f32[2,4,6,8]"},
      {{"cached_attention", {cache, q, q, q, one, {{6}}}, {}},
       "has sinks without the attribute of that name, or the reverse"},
      {{"cached_attention", {cache, q, q, q, one, {{5}}}, sinks},
       "sinks f32[5] must have shape [6], a logit of each head of q f32[2,4,6,8]"},
      {{"split_qkv", {{{2, 4, 6, 2, 8}}}, by_group},
       "qkv f32[2,4,6,2,8] must be [batch, seq, groups, heads of a group + 2, head_dim]"},
      {{"split_qkv", {{{2, 4, 6, 8}}}, {{"parts_first", true}}},
       "must be [batch, seq, 3, heads, head_dim]"},
      {{"join_qkv", {q, q, q}, by_group},
       "dq f32[2,4,6,8] must be [batch, seq, groups, heads of a group, head_dim]"},
      {{"join_qkv", {q, q, far}, {{"parts_first", true}}}, "dv f32[2,9,6,8] must have shape"},
      {{"cached_attention", {{{2, 2, 6, 9, 8}}, q, far, far, {{1}, DType::kI32}}, {}},
       "q f32[2,4,6,8] and k f32[2,9,6,8] differ in positions"},
      {{"cached_attention", {{{2, 2, 3, 9, 8}}, q, q, q, {{1}, DType::kI32}}, {}},
       "cache f32[2,2,3,9,8] must have shape [2,2,6,9,8]"},
  };
  for (const auto& [sample, words] : wrong) CHECK_THAT(ShapeError(sample), Catch::Contains(words));
  CHECK(CheckError({"attention", {q, q}, {}})
            .starts_with("op op: kind \"attention\" takes 3 to 8 inputs, not 2"));
  CHECK(CheckError({"split_qkv", {q}, {}}) ==
        "op op: has no attribute \"parts_first\"; kind \"split_qkv\" needs it: a bool (b)");
}

TEST_CASE("shape and attribute errors of logits in pieces") {
  const SampleInput x{{2, 4, 6}}, w{{9, 6}}, labels{{2, 4}, DType::kI32}, row{{2, 4}}, one{{}};
  const AttrMap scale = {{"scale", 1.0}};
  const std::pair<Sample, std::string> wrong[] = {
      {{"linear_row_stats", {x, {{6, 9}}, labels}, {}},
       "w f32[6,9] must be [any, 6], as follows from x f32[2,4,6]"},
      {{"linear_row_stats", {x, w, row}, {}}, "labels f32[2,4] must be of type i32"},
      {{"linear_row_stats", {x, w, {{2, 3}, DType::kI32}}, {}},
       "labels i32[2,3] must have shape [2,4], the leading dims of x f32[2,4,6]"},
      {{"linear_row_stats", {x, w, labels}, {{"pieces", int64_t{-1}}}},
       "attribute \"pieces\" is -1; it is a number of pieces, or 0"},
      {{"linear_row_stats_grad", {x, w, labels, one, row, one}, scale},
       "max f32[] must have shape [2,4], the leading dims of x f32[2,4,6]"},
      {{"linear_row_stats_grad", {x, w, labels, row, row, row}, scale},
       "dloss f32[2,4] must have shape [], a scalar"},
      {{"linear_row_stats_grad", {x, w, labels, row, {{2, 4}, DType::kF64}, one}, scale},
       "x f32[2,4,6] and input 4 f64[2,4] differ in type"},
  };
  for (const auto& [sample, words] : wrong) CHECK_THAT(ShapeError(sample), Catch::Contains(words));
}

TEST_CASE("shape and attribute errors of rotary") {
  const auto error = [](AttrMap attrs, Dims x = {2, 4, 6, 8}) {
    return ShapeError({"rotary", {{std::move(x)}}, std::move(attrs)});
  };
  CHECK(CheckError({"rotary", {{{2, 4, 6, 8}}}, {}}) ==
        "op op: has no attribute \"theta\"; kind \"rotary\" needs it: a number (f)");
  CHECK(error({{"theta", 0.0}}) ==
        "op op (rotary): attribute \"theta\" is 0; use a positive number, as 10000; inputs: in0 "
        "f32[2,4,6,8]");
  CHECK(error({{"theta", 1.0}}, {2, 4, 7}) ==
        "op op (rotary): x f32[2,4,7] has heads of an odd size; rotary turns pairs of elements: "
        "make the last dimension even; inputs: in0 f32[2,4,7]");
  CHECK_THAT(error({{"theta", 1.0}}, {4, 8}), Catch::Contains("at least 3 dimension"));
  AttrMap attrs = {{"theta", 500000.0}, {"scale_factor", 8.0}, {"low_frequency_factor", 1.0}};
  attrs.insert({{"original_positions", int64_t{8192}}});
  CHECK_THAT(error(attrs),
             Catch::Contains("attribute \"original_positions\" is given without "
                             "\"high_frequency_factor\"; scaled frequencies need "
                             "\"scale_factor\", \"low_frequency_factor\", "
                             "\"high_frequency_factor\" and \"original_positions\"; give all "
                             "four or none"));
  attrs["high_frequency_factor"] = 1.0;
  CHECK_THAT(error(attrs), Catch::Contains("attribute \"high_frequency_factor\" is 1; use more "
                                           "than \"low_frequency_factor\""));
  attrs["high_frequency_factor"] = 4.0;
  attrs["scale_factor"] = -8.0;
  CHECK_THAT(error(attrs),
             Catch::Contains("attribute \"scale_factor\" is -8; use a positive number"));
  attrs["scale_factor"] = 8.0;
  attrs["original_positions"] = int64_t{0};
  CHECK_THAT(error(attrs), Catch::Contains("attribute \"original_positions\" is 0; use the number "
                                           "of positions of the first training, as 8192"));
}

TEST_CASE("errors of rotary's positions") {
  const auto error = [](SampleInput positions) {
    return ShapeError({"rotary", {{{2, 4, 8}}, std::move(positions)}, {{"theta", 10000.0}}});
  };
  CHECK(error({{4}, DType::kI32}) ==
        "op op (rotary): positions i32[4] must have shape [2,4], one position for each token of x "
        "f32[2,4,8], or shape [1], the position of the first; inputs: in0 f32[2,4,8], in1 i32[4]");
  CHECK_THAT(error({{2, 4}}), Catch::Contains("positions f32[2,4] must be of type i32"));
}

TEST_CASE("each input and attribute is looked at") {
  const SampleInput labels{{2}, DType::kI32}, out{{2, 5, 2, 4}};
  const AttrMap scale = {{"scale", 0.5}};
  const auto gated = [](const char* then) -> AttrMap {
    return {{"activation", std::string("silu")}, {"then", std::string(then)}};
  };
  const std::pair<Sample, std::string> wrong[] = {
      {{"add_bias", {{{6}}, {{6}}}, {}}, "does not match the last dimensions of y"},
      {{"linear_grad_input", {{{8}}, {{6, 8}}}, {}}, "\"contract\" is 1 with dy f32[8]"},
      {{"linear_grad_weight", {{{4, 6}}, {{5, 8}}}, {{"lead", int64_t{1}}}},
       "differ in their first"},
      {{"cross_entropy_grad", {{{2, 6}}, labels, {{2}}, {{2}}, {{2}}}, scale},
       "dloss f32[2] must have shape []"},
      {{"cross_entropy_grad", {{{2, 6}}, labels, {{2}, DType::kF64}, {{2}}, {{}}}, scale},
       "input 2 f64[2] differ in type"},
      {{"row_sum_exp", {{{2, 6}}, {{2}, DType::kF64}}, {}}, "max f64[2] differ in type"},
      {{"dropout", {{{2, 6}}}, {{"rate", 1.0}}}, "\"rate\" is 1;"},
      {{"adamw", {{{6}}, {{6}}, {{6}}, {{5}}}, {}}, "g f32[5] must have shape [6]"},
      {{"adamw", {{{6}}, {{6}}, {{6}}, {{6}}, {{}}}, {}}, "norm f32[] must be f64[]"},
      {{"layer_norm", {{{2, 6}}, {{6}}}, {{"epsilon", 0.0}}}, "\"epsilon\" is not positive"},
      {{"layer_norm", {{{2, 6}}, {{6}}}, {{"dtype", std::string("f64")}}}, "\"dtype\" is f64"},
      {{"layer_norm_grad_input", {{{2, 6}}, {{2, 6}}, {{6}}, {{3}}, {{2}}}, {}},
       "mean f32[3] must have shape [2]"},
      {{"rms_norm", {{{2, 6}}, {{5}}}, {}}, "gamma f32[5] must have shape [6]"},
      {{"rms_norm", {{{2, 6}}, {{6}}}, {{"epsilon", 0.0}}},
       "\"epsilon\" is not positive; use 1e-5"},
      {{"rms_norm", {{{6}}, {{6}}}, {}}, "at least 2 dimension"},
      {{"rms_norm_grad_input", {{{2, 6}}, {{2, 6}}, {{6}}, {{3}}}, {}},
       "rstd f32[3] must have shape [2], the rows of x f32[2,6]"},
      {{"rms_norm_grad_weight", {{{2, 5}}, {{2, 6}}, {{2}}}, {}},
       "dy f32[2,5] must have shape [2,6]"},
      {{"gated", {{{2, 6}}, {{2, 6}}}, {{"activation", std::string("relu")}}},
       "attribute \"activation\" is \"relu\"; use one of \"silu\", \"gelu\", \"clamped_silu\""},
      {{"linear", {{{2, 6}}, {{6, 8}}, {{2, 6}}}, gated("gated")},
       "gate f32[2,6] must have shape [2,8], that of x w"},
      {{"linear_grad_input", {{{2, 8}}, {{6, 8}}, {{2, 6}}, {{2, 8}}}, gated("gated_grad")},
       "up f32[2,8] must have shape [2,6], that of dy w'"},
      {{"gated", {{{2, 6}}, {{2, 5}}}, {{"activation", std::string("silu")}}},
       "up f32[2,5] must have shape [2,6], that of gate f32[2,6]"},
      {{"gated_grad", {{{2, 6}}, {{2, 6}}, {{2}}}, {{"activation", std::string("silu")}}},
       "up f32[2] must have shape [2,6], that of dy f32[2,6]"},
      {{"attention_grad", {out, out, out, out, out, {{2, 5, 2}}}, {}},
       "lse f32[2,5,2] must have shape [2,2,5]"},
      {{"packed_attention_grad",
        {out, {{2, 5, 3, 2, 4}}, {{2, 5, 2, 1, 4}}, {{2, 2, 5}}},
        {{"parts_first", true}}},
       "out f32[2,5,2,1,4] must have shape [2,5,2,4]"},
  };
  for (const auto& [sample, words] : wrong) CHECK_THAT(ShapeError(sample), Catch::Contains(words));
}

TEST_CASE("extreme attributes are errors, not crashes") {
  const int64_t huge = int64_t{1} << 40;
  for (const int64_t n : {int64_t{-1}, int64_t{0}, huge}) {
    INFO(n);
    CHECK_FALSE(ShapeError({"linear", {{{4, 6}}, {{6, 8}}}, {{"contract", n}}}).empty());
    CHECK_FALSE(ShapeError({"linear_grad_input", {{{4, 8}}, {{6, 8}}}, {{"contract", n}}}).empty());
    CHECK_FALSE(ShapeError({"linear_grad_weight", {{{4, 6}}, {{4, 8}}}, {{"lead", n}}}).empty());
    CHECK_FALSE(ShapeError({"linear_grad_bias", {{{4, 8}}}, {{"lead", n}}}).empty());
    CHECK_FALSE(
        ShapeError({"positional_embedding_grad", {{{2, 4, 6}}}, {{"length", n > 4 ? 3 : n}}})
            .empty());
  }
}

TEST_CASE("a result too large to count is an error") {
  const int64_t large = int64_t{1} << 40;
  CHECK(ShapeError({"linear", {{{large, 1}}, {{1, large}}}, {}}) ==
        "op op (linear): the result [1099511627776,1099511627776] has more than 2^48 elements; use "
        "smaller sizes; inputs: in0 f32[1099511627776,1], in1 f32[1,1099511627776]");
}

// One source op with a shape of its own.
absl::Status InferSource(const std::string& kind, Shape shape, DType dtype, AttrMap attrs) {
  Graph graph;
  graph.AddOp(kind, "x", {}, std::move(attrs));
  graph.tensors[0].shape = std::move(shape);
  graph.tensors[0].dtype = dtype;
  RETURN_IF_ERROR(CheckGraph(graph));
  return InferShapes(&graph);
}

TEST_CASE("sources keep their shape, and it is checked") {
  const AttrMap tokens = {{"source", std::string("tokens")}};
  CHECK(InferSource("input", {2, 4}, DType::kI32, tokens) == absl::OkStatus());
  CHECK(InferSource("input", {2, 4}, DType::kF32, tokens).message() ==
        "op x (input): tokens f32[2,4] must be of type i32: it holds ids; set dtype: I32 on the op "
        "that makes it");
  CHECK(InferSource("input", {2}, DType::kI32, tokens).message() ==
        "op x (input): tokens i32[2] must be [batch, seq]; give two dimensions");
  CHECK(InferSource("input", {2}, DType::kF32, {{"source", std::string("disk")}}).message() ==
        "op x (input): attribute \"source\" is \"disk\"; use \"tokens\", \"next_tokens\", "
        "\"labels\", \"next_labels\", \"positions\", \"documents\", \"document_labels\", "
        "\"next_document_labels\", \"feed\"");
  Shape unbound{0, 4};
  unbound.names = {"batch", ""};
  CHECK(
      InferSource("input", unbound, DType::kF32, {}).message() ==
      "op x (input): shape [batch,4]: dimension 0 has no size yet; give a size; \"batch\" is bound "
      "by the micro-batch size");
  CHECK(InferSource("variable", {2}, DType::kI32, {}).message() ==
        "op x (variable): variables are not i32; use F32");
  CHECK_FALSE(InferSource("variable", {2}, DType::kF32, {{"init", std::string("gaussian")}}).ok());
}

TEST_CASE("a fill has the dims of its attribute and the dtype of its tensor") {
  Graph graph;
  graph.AddOp("fill", "one", {}, {{"value", 1.0}, {"dims", std::vector<int64_t>{2, 3}}});
  graph.tensors[0].dtype = DType::kF64;
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  CHECK(graph.tensors[0].shape == Shape{2, 3});
  CHECK(graph.tensors[0].dtype == DType::kF64);
}

TEST_CASE("dimensions keep their names") {
  Graph graph = MakeGraph({"linear", {{{2, 4, 6}}, {{6, 8}}}, {}});
  graph.tensors[0].shape.names = {"batch", "seq", "hidden"};
  graph.tensors[1].shape.names = {"hidden", "vocab"};
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  CHECK(graph.tensors[2].shape.names == std::vector<std::string>{"batch", "seq", "vocab"});
}

}  // namespace
}  // namespace oneflow
