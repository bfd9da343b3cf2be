// The definitions of what decoders of 2026 are made of: parts and scalings of rotary, norms with an
// offset or over split dimensions, clamped gates, scaled embeddings and soft caps.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/op/activation.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/op_samples.h"

namespace oneflow {
namespace {

std::string Refusal(const Sample& sample) {
  Graph graph = MakeGraph(sample);
  const absl::Status status = InferShapes(&graph);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(ToStd(status.message()));
}

const AttrMap kYarnAttrs = {{"theta", 10000.0},
                            {"scaling", std::string("yarn")},
                            {"scale_factor", 8.0},
                            {"low_frequency_factor", 1.0},
                            {"high_frequency_factor", 32.0},
                            {"original_positions", int64_t{64}}};

AttrMap With(AttrMap attrs, std::string_view name, Attr value) {
  attrs.insert_or_assign(std::string(name), std::move(value));
  return attrs;
}

AttrMap Without(AttrMap attrs, std::string_view name) {
  attrs.erase(attrs.find(name));
  return attrs;
}

TEST_CASE("errors of rotary's scalings and of its part of a head") {
  const SampleInput x{{2, 4, 6, 8}};
  const AttrMap plain = {{"theta", 10000.0}};
  const AttrMap linear = With(plain, "scaling", std::string("linear"));
  const auto error = [&](AttrMap attrs) { return Refusal({"rotary", {x}, std::move(attrs)}); };
  const std::pair<AttrMap, std::string> wrong[] = {
      {With(plain, "scaling", std::string("dynamic")),
       "attribute \"scaling\" is \"dynamic\"; use \"linear\" or \"yarn\", or leave it out"},
      {linear, "attribute \"scaling\" is given without \"scale_factor\"; linear scaling needs it"},
      {With(With(linear, "scale_factor", 8.0), "original_positions", int64_t{64}),
       "attribute \"original_positions\" is given for linear scaling; that has \"scale_factor\" "
       "alone"},
      {Without(kYarnAttrs, "high_frequency_factor"),
       "is given without \"high_frequency_factor\"; scaled frequencies need"},
      {With(kYarnAttrs, "high_frequency_factor", 0.5),
       "\"high_frequency_factor\" is 0.5; use no less than \"low_frequency_factor\""},
      {With(kYarnAttrs, "theta", 1.0), "attribute \"theta\" is 1; YaRN scales frequencies"},
      {With(kYarnAttrs, "attention_factor", 0.0),
       "attribute \"attention_factor\" is 0; use a positive number"},
      {With(plain, "exact", true), "\"exact\" is given without YaRN's scaling; leave it out"},
      {With(kYarnAttrs, "rotated", int64_t{3}),
       "attribute \"rotated\" is 3 with x f32[2,4,6,8]; use a number of a head's elements, an even "
       "one for YaRN"},
      {With(plain, "rotated", int64_t{10}), "attribute \"rotated\" is 10"},
      {With(plain, "rotated", int64_t{0}), "attribute \"rotated\" is 0"},
  };
  for (const auto& [attrs, words] : wrong) CHECK_THAT(error(attrs), Catch::Contains(words));
  Graph step = MakeGraph({"rotary", {x}, With(kYarnAttrs, "high_frequency_factor", 1.0)});
  CHECK(InferShapes(&step) == absl::OkStatus());
  Graph odd = MakeGraph({"rotary", {{{2, 4, 7}}}, With(plain, "rotated", int64_t{4})});
  CHECK(InferShapes(&odd) == absl::OkStatus());
  odd = MakeGraph({"rotary", {{{2, 4, 7}}}, With(plain, "rotated", int64_t{5})});
  CHECK(InferShapes(&odd) == absl::OkStatus());
  odd = MakeGraph({"rotary", {{{2, 4, 7}}}, With(plain, "rotated", int64_t{7})});
  CHECK(InferShapes(&odd) != absl::OkStatus());
}

TEST_CASE("errors of norms over split dimensions, caps, and other numbers") {
  const SampleInput x{{2, 4, 6, 8}}, sums{{2, 4}}, gamma{{6, 8}};
  const AttrMap of = {{"of", int64_t{48}}};
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::pair<Sample, std::string> wrong[] = {
      {{"square_sums", {x}, {{"dims", int64_t{4}}}},
       "x f32[2,4,6,8] has no rows of 4 dimension(s); leave at least one"},
      {{"square_sums", {x}, {{"dims", int64_t{0}}}}, "has no rows of 0 dimension(s)"},
      {{"square_sums_grad", {{{2, 3}}, x}, {}}, "sums f32[2,3] must have shape [2,4]"},
      {{"rms_scale", {x, {{2, 5}}, gamma}, of}, "sums f32[2,5] must have shape [2,4]"},
      {{"rms_scale", {x, sums, {{6, 9}}}, of}, "gamma f32[6,9] must have shape [6,8]"},
      {{"rms_scale", {x, sums, gamma}, {{"of", int64_t{8}}}},
       "attribute \"of\" is 8; give the elements of a row, 48"},
      {{"rms_scale", {x, sums, gamma}, With(of, "epsilon", 0.0)}, "\"epsilon\" is not positive"},
      {{"rms_scale_grad_sums", {{{2, 4, 6, 9}}, x, sums, gamma}, of},
       "dy f32[2,4,6,9] must have shape [2,4,6,8]"},
      {{"rms_scale_grad_weight", {x, x, {{2, 4, 6, 8}}}, of}, "has no rows of 0 dimension(s)"},
      {{"rms_norm", {{{2, 6}}, {{6}}}, {{"offset", none}}}, "\"offset\" is nan; use a number"},
      {{"soft_cap", {x}, {{"cap", 0.0}}}, "attribute \"cap\" is 0; use a positive number"},
      {{"soft_cap_grad", {x, sums}, {{"cap", 1.0}}}, "input 1 f32[2,4] must have shape"},
      {{"embedding", {{{10, 6}}, {{2}, DType::kI32}}, {{"scale", -1.0}}},
       "attribute \"scale\" is -1; use a positive number"},
      {{"linear_row_stats", {{{2, 6}}, {{9, 6}}, {{2}, DType::kI32}}, {{"cap", -3.0}}},
       "attribute \"cap\" is -3"},
      {{"linear",
        {{{2, 6}}, {{6, 8}}, {{2, 8}}},
        {{"then", std::string("gated")}, {"activation", std::string("clamped_silu")}}},
       "attribute \"activation\" is \"clamped_silu\"; use one of \"silu\", \"gelu\""},
  };
  for (const auto& [sample, words] : wrong) CHECK_THAT(Refusal(sample), Catch::Contains(words));
}

TEST_CASE("a norm over split dimensions exchanges its sums alone") {
  const SampleInput x{{2, 6, 8}}, sums{{2}}, gamma{{6, 8}};
  const AttrMap of = {{"of", int64_t{48}}};
  CHECK(TableText({"square_sums", {x}, {{"dims", int64_t{2}}}}) ==
        "B -> B\nS(0) -> S(0)\nS(1) -> P\nS(2) -> P\n");
  CHECK(TableText({"square_sums_grad", {sums, x}, {}}) ==
        "B B -> B\nS(0) S(0) -> S(0)\nB S(1) -> S(1)\nB S(2) -> S(2)\n");
  CHECK(TableText({"rms_scale", {x, sums, gamma}, of}) ==
        "B B B -> B\nS(0) S(0) B -> S(0)\nS(1) B S(0) -> S(1)\nS(2) B S(1) -> S(2)\n");
  CHECK(TableText({"rms_scale_grad_sums", {x, x, sums, gamma}, of}) ==
        "B B B B -> B\nS(0) S(0) S(0) B -> S(0)\nS(1) S(1) B S(0) -> P\nS(2) S(2) B S(1) -> P\n");
  CHECK(TableText({"rms_scale_grad_weight", {x, x, sums}, of}) ==
        "B B B -> B\nS(0) S(0) S(0) -> P\nS(1) S(1) B -> S(0)\nS(2) S(2) B -> S(1)\n");
  CHECK(TableText({"soft_cap", {sums}, {{"cap", 2.0}}}) == "B -> B\nS(0) -> S(0)\n");
}

// The kinds and inputs of the gradients of op "op", of those inputs that need one.
std::string GradientKinds(const Sample& sample) {
  Graph graph = MakeGraph(sample);
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  const OpId op = SampleOp(graph);
  const TensorId dy = graph.ops[graph.AddOp("input", "dy", {}, {})].outputs[0];
  GradientContext context{graph, op, {dy}, {}};
  for (const TensorId input : graph.ops[op].inputs) {
    context.needs_grad.push_back(IsFloat(graph.tensors[input].dtype));
  }
  const auto first = static_cast<size_t>(graph.ops.size());
  REQUIRE(FindOpDef(graph.ops[op])->gradient(context).ok());
  std::string text;
  for (size_t i = first; i < graph.ops.size(); ++i) {
    text += graph.ops[i].kind + '(';
    for (const TensorId input : graph.ops[i].inputs) text += graph.tensors[input].name + ' ';
    for (const auto& [name, value] : graph.ops[i].attrs) text += name + ' ';
    text.back() = ')';
    text += i + 1 < graph.ops.size() ? " " : "";
  }
  return text;
}

TEST_CASE("the gradients of the ops of decoders") {
  const SampleInput x{{2, 6, 8}}, sums{{2}}, gamma{{6, 8}};
  CHECK(GradientKinds({"square_sums", {x}, {{"dims", int64_t{2}}}}) == "square_sums_grad(dy in0)");
  CHECK(GradientKinds({"rms_scale", {x, sums, gamma}, {{"of", int64_t{48}}}}) ==
        "rms_scale(dy in1 in2 of) rms_scale_grad_sums(dy in0 in1 in2 of) "
        "rms_scale_grad_weight(dy in0 in1 of)");
  CHECK(GradientKinds({"soft_cap", {x}, {{"cap", 2.0}}}) == "soft_cap_grad(dy op cap)");
  CHECK(GradientKinds({"rms_norm", {{{2, 6}}, {{6}}}, {{"offset", 1.0}, {"epsilon", 1e-6}}}) ==
        "rms_norm_grad_input(dy in0 in1 op:1 offset) rms_norm_grad_weight(dy in0 op:1)");
  CHECK(GradientKinds({"embedding", {{{10, 6}}, {{2}, DType::kI32}}, {{"scale", 2.0}}}) ==
        "embedding_grad(in1 dy scale vocab)");
  CHECK(GradientKinds({"rotary", {{{2, 4, 8}}}, With(kYarnAttrs, "rotated", int64_t{4})}) ==
        "rotary(dy high_frequency_factor inverse low_frequency_factor original_positions rotated "
        "scale_factor scaling theta)");
}

TEST_CASE("products apply the activations that they have, and costs know all") {
  for (const Activation& activation : Activations()) {
    INFO(activation.name);
    CHECK(FindActivation(activation.name) == &activation);
    CHECK(activation.grad_flops > activation.flops);
  }
  CHECK(FindActivation("silu")->fused);
  CHECK_FALSE(FindActivation("clamped_silu")->fused);
  CHECK(FindActivation("relu") == nullptr);
}

}  // namespace
}  // namespace oneflow
