// FLOPs.
#include <catch2/catch.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/op_samples.h"

namespace oneflow {
namespace {

double Flops(const Sample& sample) {
  Graph graph = MakeGraph(sample);
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  return FindOpDef(sample.kind, sample.attrs)->flops({graph, graph.ops[SampleOp(graph)]});
}

TEST_CASE("products count 2 m n k, in every form and gradient") {
  const double mnk = 2.0 * (2 * 4) * 6 * 8;
  CHECK(Flops({"linear", {{{2, 4, 6}}, {{6, 8}}}, {}}) == mnk);
  CHECK(Flops({"linear", {{{2, 4, 6}}, {{6, 8}}, {{8}}}, {}}) == mnk + 2 * 4 * 8);
  CHECK(Flops({"linear", {{{2, 4, 6}}, {{8, 6}}}, {{"transpose_w", true}}}) == mnk);
  CHECK(Flops({"linear_grad_input", {{{2, 4, 8}}, {{6, 8}}}, {}}) == mnk);
  CHECK(Flops({"linear_grad_weight", {{{2, 4, 6}}, {{2, 4, 8}}}, {{"lead", int64_t{2}}}}) == mnk);
  CHECK(Flops({"matmul", {{{2, 4, 6}}, {{6, 8}}}, {}}) == mnk);
  CHECK(Flops({"matmul", {{{6, 8}}, {{8, 6}}}, {{"transpose_a", true}, {"transpose_b", true}}}) ==
        2.0 * 8 * 6 * 8);
  CHECK(Flops({"matmul_grad_b", {{{2, 4, 6}}, {{2, 4, 8}}}, {}}) == mnk);
}

TEST_CASE("attention counts the causal pairs: two products forward, five backward") {
  const double pairs = 2 * 6 * (4 * 5 / 2);  // samples, heads, t (t + 1) / 2
  const SampleInput q{{2, 4, 6, 8}}, lse{{2, 6, 4}}, qkv{{2, 4, 3, 6, 8}};
  const AttrMap first{{"parts_first", true}};
  CHECK(Flops({"causal_attention", {qkv}, {}}) == 2 * 2 * pairs * 8);
  CHECK(Flops({"attention", {q, q, q}, {}}) == 2 * 2 * pairs * 8);
  CHECK(Flops({"attention_grad", {q, q, q, q, q, lse}, {}}) == 5 * 2 * pairs * 8);
  CHECK(Flops({"packed_attention", {qkv}, first}) == 2 * 2 * pairs * 8);
  CHECK(Flops({"packed_attention_grad", {q, qkv, q, lse}, first}) == 5 * 2 * pairs * 8);
}

TEST_CASE("attention counts the pairs of a window, and each query head of a group") {
  const SampleInput k{{2, 4, 6, 8}}, heads{{2, 4, 6, 3, 8}};
  const auto flops = [&](int64_t window) {
    return Flops({"attention", {heads, k, k}, {{"window", window}}}) / (2 * 2 * 2 * 6 * 3 * 8);
  };
  CHECK(flops(0) == 4 + 3 + 2 + 1);
  CHECK(flops(1) == 4);
  CHECK(flops(3) == 1 + 2 + 3 + 3);
  CHECK(flops(100) == flops(0));
  // Half of the queries have half of the pairs.
  const SampleInput half{{2, 2, 6, 3, 8}}, of_half{{2, 2}, DType::kI32},
      of_all{{2, 4}, DType::kI32};
  CHECK(Flops({"attention", {half, k, k, of_half, of_all, of_half, of_all}, {}}) ==
        2 * 2 * 2 * 6 * 3 * 8 * 5);
}

TEST_CASE("counted FLOPs: keys up to a window, and what a kernel makes again") {
  const auto count = [](const char* kind, const AttrMap& attrs, std::vector<Dims> in,
                        std::vector<Dims> out) {
    const LocalOp op{attrs, std::move(in), std::move(out)};
    return FindOpDef(kind)->counted_flops(op);
  };
  const Dims q{2, 4, 6, 8}, lse{2, 6, 4}, qkv{2, 4, 3, 6, 8};
  const double queries = 2 * 4 * 6 * 8;
  for (const auto& [window, most, mean] :
       {std::tuple(0, 4, 2.5), std::tuple(3, 3, 2.25), std::tuple(1, 1, 1.0)}) {
    const AttrMap attrs{{"window", int64_t{window}}};
    for (const auto& [counted, products] :
         {std::pair(count("attention", attrs, {q, q, q}, {q, lse}), 2),
          std::pair(count("packed_attention", attrs, {qkv}, {q, lse}), 2),
          std::pair(count("attention_grad", attrs, {q, q, q, q, q, lse}, {q, q, q}), 4),
          std::pair(count("packed_attention_grad", attrs, {q, qkv, q, lse}, {qkv}), 4)}) {
      CHECK(counted.model == 2 * products * queries * most);
      CHECK(counted.hidden == 2 * products * queries * (most - mean));
      CHECK(counted.recomputed == 0);
    }
  }
  const CountedFlops cached =
      count("cached_attention", {{"window", int64_t{3}}}, {}, {{2, 2, 6, 9, 8}, q});
  CHECK(cached.model == 4 * queries * 3);
  const Dims x{2, 4, 6}, w{10, 6};
  const double product = 2.0 * 2 * 4 * 6 * 10;
  CHECK(count("linear_row_stats", {}, {x, w}, {}).recomputed == 0);
  const CountedFlops grad = count("linear_row_stats_grad", {}, {x, w}, {});
  CHECK(grad.model == 2 * product);
  CHECK(grad.recomputed == product);
  for (const char* one : {"linear_row_stats_grad_input", "linear_row_stats_grad_weight"}) {
    const CountedFlops of_one = count(one, {}, {x, w}, {});
    CHECK(of_one.model == product);
    CHECK(of_one.recomputed == product);
  }
}

TEST_CASE("an element of a norm, a rotation and a gated product costs a few operations") {
  const SampleInput x{{2, 4, 6}}, rows{{2, 4}}, gamma{{6}};
  const double elements = 2 * 4 * 6;
  CHECK(Flops({"rms_norm", {x, gamma}, {}}) == 4 * elements);
  CHECK(Flops({"rms_norm_grad_input", {x, x, gamma, rows}, {}}) == 7 * elements);
  CHECK(Flops({"rms_norm_grad_weight", {x, x, rows}, {}}) == 3 * elements);
  CHECK(Flops({"rotary", {x}, {{"theta", 10000.0}}}) == 3 * elements);
  const AttrMap silu = {{"activation", std::string("silu")}};
  const AttrMap gelu = {{"activation", std::string("gelu")}};
  CHECK(Flops({"gated", {x, x}, silu}) == 6 * elements);
  CHECK(Flops({"gated", {x, x}, gelu}) == Flops({"gelu", {x}, {}}) + elements);
  CHECK(Flops({"gated_grad", {x, x, x}, silu}) == 12 * elements);
  AttrMap then = silu;
  then["then"] = std::string("gated");
  const double product = 2 * elements * 8;
  CHECK(Flops({"linear", {x, {{6, 8}}, {{2, 4, 8}}}, then}) == product + 6 * 2 * 4 * 8);
  then["then"] = std::string("gated_grad");
  CHECK(Flops({"linear_grad_input", {{{2, 4, 8}}, {{6, 8}}, x, x}, then}) ==
        product + 12 * elements);
}

TEST_CASE("FLOPs are never negative") {
  for (const Sample& sample : Samples()) {
    INFO(ToString(sample));
    CHECK(Flops(sample) >= 0);
  }
}

}  // namespace
}  // namespace oneflow
