// Which tensors of an op may be bf16, and what the others are then.
#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/base/status.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_samples.h"

namespace oneflow {
namespace {

constexpr DType kNarrow = DType::kBF16;
constexpr DType kIds = DType::kI32;
const Attr kBf16 = std::string("bf16");

// "bf16 f32": the types of the outputs; or the error.
std::string OutputTypes(const Sample& sample) {
  Graph graph = MakeGraph(sample);
  const absl::Status status = InferOpShapes(&graph, SampleOp(graph));
  if (!status.ok()) return std::string(ToStd(status.message()));
  std::string text;
  for (const TensorId t : graph.ops[SampleOp(graph)].outputs) {
    text += (text.empty() ? "" : " ") + std::string(Name(graph.tensors[t].dtype));
  }
  return text;
}

TEST_CASE("products of bf16 are bf16, gradients that add up over micro-batches f32") {
  CHECK(OutputTypes({"linear", {{{2, 6}, kNarrow}, {{6, 8}, kNarrow}, {{8}}}, {}}) == "bf16");
  CHECK(OutputTypes({"linear_grad_input", {{{2, 8}, kNarrow}, {{6, 8}, kNarrow}}, {}}) == "bf16");
  const SampleInput dy{{2, 8}, kNarrow}, w{{6, 8}, kNarrow};
  const AttrMap then = {{"then", std::string("gelu_grad")}};
  CHECK(OutputTypes({"linear_grad_input", {dy, w, {{2, 6}, kNarrow}}, then}) == "bf16");
  CHECK_THAT(OutputTypes({"linear_grad_input", {dy, w, {{2, 6}}}, then}),
             Catch::Contains("x f32[2,6] differ in type"));
  const AttrMap lead = {{"lead", int64_t{1}}};
  CHECK(OutputTypes({"linear_grad_weight", {{{2, 6}, kNarrow}, {{2, 8}, kNarrow}}, lead}) == "f32");
  CHECK(OutputTypes({"linear_grad_bias", {{{2, 8}, kNarrow}}, lead}) == "f32");
  CHECK(OutputTypes({"add_bias", {{{2, 8}, kNarrow}, {{8}}}, {}}) == "bf16");
}

TEST_CASE("a residual stream of bf16 stays bf16, its statistics f32") {
  const SampleInput x{{2, 6}, kNarrow}, row{{6}}, saved{{2}};
  CHECK(OutputTypes({"add", {x, x}, {}}) == "bf16");
  CHECK(OutputTypes({"add_n", {x, x, x}, {}}) == "bf16");
  CHECK(OutputTypes({"layer_norm", {x, row}, {}}) == "bf16 f32 f32");
  CHECK(OutputTypes({"layer_norm", {x, row}, {{"dtype", kBf16}}}) == "bf16 f32 f32");
  CHECK(OutputTypes({"layer_norm_grad_input", {x, x, row, saved, saved}, {}}) == "bf16");
  CHECK(OutputTypes({"layer_norm_grad_weight", {x, x, saved, saved}, {}}) == "f32 f32");
  CHECK(OutputTypes({"layer_norm", {x, row}, {{"dtype", std::string("f32")}}}) ==
        "op op (layer_norm): attribute \"dtype\" is f32 with x bf16[2,6]; use bf16, or f32 where x "
        "is f32; inputs: in0 bf16[2,6], in1 f32[6]");
  const SampleInput wide{{2, 6}};
  for (const Sample& sample : {Sample{"add", {x, wide}, {}}, Sample{"add_n", {x, wide}, {}},
                               Sample{"add_n", {wide, x}, {}},
                               Sample{"layer_norm_grad_input", {wide, x, row, saved, saved}, {}},
                               Sample{"layer_norm_grad_weight", {wide, x, saved, saved}, {}}}) {
    INFO(ToString(sample));
    CHECK(OutputTypes(sample).find("differ in type; give both one dtype") != std::string::npos);
  }
}

TEST_CASE("a residual stream of f32, statistics and the loss stay f32") {
  CHECK(OutputTypes({"add", {{{2, 4}}, {{2, 4}, kNarrow}}, {}}) == "f32");
  CHECK(OutputTypes({"layer_norm", {{{2, 6}}, {{6}}}, {{"dtype", kBf16}}}) == "bf16 f32 f32");
  CHECK(OutputTypes(
            {"layer_norm_grad_input", {{{2, 6}, kNarrow}, {{2, 6}}, {{6}}, {{2}}, {{2}}}, {}}) ==
        "f32");
  CHECK(OutputTypes({"layer_norm_grad_weight", {{{2, 6}, kNarrow}, {{2, 6}}, {{2}}, {{2}}}, {}}) ==
        "f32 f32");
  CHECK(OutputTypes({"row_max", {{{2, 6}, kNarrow}}, {}}) == "f32");
  CHECK(OutputTypes({"row_sum_exp", {{{2, 6}, kNarrow}, {{2}}}, {}}) == "f32");
  CHECK(OutputTypes({"pick", {{{2, 6}, kNarrow}, {{2}, kIds}}, {}}) == "f32");
}

TEST_CASE("an rms_norm reads a stream and heads of either type, and so do its gradients") {
  const SampleInput wide{{2, 6}}, narrow{{2, 6}, kNarrow}, row{{6}}, rstd{{2}};
  CHECK(OutputTypes({"rms_norm", {wide, row}, {}}) == "f32 f32");
  CHECK(OutputTypes({"rms_norm", {wide, row}, {{"dtype", kBf16}}}) == "bf16 f32");
  CHECK(OutputTypes({"rms_norm", {narrow, row}, {}}) == "bf16 f32");
  CHECK(OutputTypes({"rms_norm", {{{2, 6}, DType::kF64}, {{6}, DType::kF64}}, {}}) == "f64 f64");
  CHECK_THAT(OutputTypes({"rms_norm", {narrow, row}, {{"dtype", std::string("f32")}}}),
             Catch::Contains("attribute \"dtype\" is f32 with x bf16[2,6]; use bf16"));
  CHECK_THAT(OutputTypes({"rms_norm", {wide, {{6}, kNarrow}}, {}}),
             Catch::Contains("gamma bf16[6] is read as f32 only; cast it"));
  for (const SampleInput& dy : {wide, narrow}) {
    CHECK(OutputTypes({"rms_norm_grad_input", {dy, wide, row, rstd}, {}}) == "f32");
    CHECK(OutputTypes({"rms_norm_grad_input", {dy, narrow, row, rstd}, {}}) == "bf16");
    CHECK(OutputTypes({"rms_norm_grad_weight", {dy, wide, rstd}, {}}) == "f32");
    CHECK(OutputTypes({"rms_norm_grad_weight", {dy, narrow, rstd}, {}}) == "f32");
  }
}

TEST_CASE("rotary and gated keep the type of what they read") {
  const SampleInput x{{2, 4, 6}, kNarrow}, wide{{2, 4, 6}}, ids{{2, 4}, kIds};
  CHECK(OutputTypes({"rotary", {x, ids}, {{"theta", 10000.0}}}) == "bf16");
  const AttrMap silu = {{"activation", std::string("silu")}};
  CHECK(OutputTypes({"gated", {x, x}, silu}) == "bf16");
  CHECK(OutputTypes({"gated_grad", {x, x, x}, silu}) == "bf16 bf16");
  const SampleInput w{{6, 8}, kNarrow}, gate{{2, 4, 8}, kNarrow}, dy{{2, 4, 8}, kNarrow};
  AttrMap then = silu;
  then["then"] = std::string("gated");
  CHECK(OutputTypes({"linear", {x, w, gate, {{8}}}, then}) == "bf16 bf16");
  CHECK_THAT(OutputTypes({"linear", {x, w, {{2, 4, 8}}}, then}),
             Catch::Contains("x bf16[2,4,6] and gate f32[2,4,8] differ in type"));
  then["then"] = std::string("gated_grad");
  CHECK(OutputTypes({"linear_grad_input", {dy, w, x, x}, then}) == "bf16 bf16");
  CHECK_THAT(OutputTypes({"linear_grad_input", {dy, w, x, wide}, then}),
             Catch::Contains("up f32[2,4,6] differ in type"));
  CHECK_THAT(OutputTypes({"gated", {x, wide}, silu}), Catch::Contains("differ in type"));
  CHECK_THAT(OutputTypes({"gated_grad", {wide, x, x}, silu}), Catch::Contains("differ in type"));
}

TEST_CASE("attention of bf16 is bf16, its log-sum-exp f32") {
  const SampleInput qkv{{2, 5, 3, 2, 4}, kNarrow}, out{{2, 5, 2, 4}, kNarrow}, lse{{2, 2, 5}};
  const SampleInput wide{{2, 5, 2, 4}}, narrow_lse{{2, 2, 5}, kNarrow};
  const AttrMap first{{"parts_first", true}};
  CHECK(OutputTypes({"causal_attention", {qkv}, {}}) == "bf16 f32");
  CHECK(OutputTypes({"attention", {out, out, out}, {}}) == "bf16 f32");
  CHECK(OutputTypes({"attention_grad", {out, out, out, out, out, lse}, {}}) == "bf16 bf16 bf16");
  CHECK(OutputTypes({"packed_attention", {qkv}, first}) == "bf16 f32");
  CHECK(OutputTypes({"packed_attention_grad", {out, qkv, out, lse}, first}) == "bf16");
  CHECK(OutputTypes({"split_qkv", {qkv}, first}) == "bf16 bf16 bf16");
  CHECK(OutputTypes({"join_qkv", {out, out, out}, first}) == "bf16");
  CHECK_THAT(OutputTypes({"attention", {out, wide, out}, {}}),
             Catch::Contains("q bf16[2,5,2,4] and k f32[2,5,2,4] differ in type"));
  CHECK_THAT(OutputTypes({"attention_grad", {out, out, out, out, out, narrow_lse}, {}}),
             Catch::Contains("lse bf16[2,2,5] is read as f32 only"));
  CHECK_THAT(OutputTypes({"packed_attention_grad", {wide, qkv, out, lse}, first}),
             Catch::Contains("dout f32[2,5,2,4] and qkv bf16[2,5,3,2,4] differ in type"));
}

TEST_CASE("what is element-wise keeps its type") {
  CHECK(OutputTypes({"gelu", {{{2, 4}, kNarrow}}, {}}) == "bf16");
  CHECK(OutputTypes({"dropout", {{{2, 4}, kNarrow}}, {{"rate", 0.1}}}) == "bf16");
  CHECK(OutputTypes({"gelu_grad", {{{2, 4}, kNarrow}, {{2, 4}, kNarrow}}, {}}) == "bf16");
  CHECK(OutputTypes({"cross_entropy_grad",
                     {{{2, 6}, kNarrow}, {{2}, kIds}, {{2}}, {{2}}, {{}}},
                     {{"scale", 0.5}}}) == "bf16");
  CHECK(OutputTypes({"all_reduce", {{{2, 4}, kNarrow}}, {}}) == "bf16");
}

TEST_CASE("unfused attention of bf16 is bf16, its masks are bytes") {
  const SampleInput head{{2, 3, 4, 6}, kNarrow}, scores{{2, 3, 4, 4}, kNarrow};
  const SampleInput mask{{2, 3, 4, 4}, DType::kU8};
  const AttrMap rate = {{"rate", 0.1}};
  CHECK(OutputTypes({"split_heads", {{{2, 4, 3, 3, 6}, kNarrow}}, {}}) == "bf16 bf16 bf16");
  CHECK(OutputTypes({"split_heads_grad", {head, head, head}, {}}) == "bf16");
  CHECK(OutputTypes({"swap_dims", {head}, {}}) == "bf16");
  CHECK(OutputTypes({"batch_matmul", {scores, head}, {}}) == "bf16");
  CHECK(OutputTypes({"causal_softmax", {scores}, {}}) == "bf16");
  CHECK(OutputTypes({"causal_softmax_grad", {scores, scores}, {}}) == "bf16");
  CHECK(OutputTypes({"stored_dropout", {scores}, rate}) == "bf16 u8");
  CHECK(OutputTypes({"stored_dropout", {{{2, 4}}}, rate}) == "f32 u8");
  CHECK(OutputTypes({"stored_dropout_grad", {scores, mask}, rate}) == "bf16");
}

TEST_CASE("a cast goes between f32 and bf16; f64 stays f64") {
  CHECK(OutputTypes({"cast", {{{2}}}, {{"dtype", kBf16}}}) == "bf16");
  CHECK(OutputTypes({"cast", {{{2}, kNarrow}}, {{"dtype", std::string("f32")}}}) == "f32");
  CHECK(OutputTypes({"cast", {{{2}, DType::kF64}}, {{"dtype", kBf16}}}) == "f64");
  CHECK(OutputTypes({"cast", {{{2}, kNarrow}}, {{"dtype", kBf16}}}) ==
        "op op (cast): x bf16[2] cannot become bf16; cast f32 to bf16 or bf16 to f32; inputs: in0 "
        "bf16[2]");
  CHECK(OutputTypes({"cast", {{{2}}}, {{"dtype", std::string("i32")}}}).find("cannot become i32") !=
        std::string::npos);
  CHECK(OutputTypes({"cast", {{{2}}}, {{"dtype", std::string("f16")}}}).find("is not known") !=
        std::string::npos);
}

TEST_CASE("bf16 where a kernel reads f32 is refused") {
  CHECK(OutputTypes({"row_sum_exp", {{{2, 6}}, {{2}, kNarrow}}, {}})
            .find("bf16[2] is read as f32 only; cast it") != std::string::npos);
  CHECK(OutputTypes({"linear", {{{2, 6}, kNarrow}, {{6, 8}}}, {}})
            .find("x bf16[2,6] and w f32[6,8] differ in type") != std::string::npos);
  CHECK(OutputTypes({"gelu_grad", {{{2}}, {{2}, kNarrow}}, {}}).find("differ in type") !=
        std::string::npos);
  const SampleInput scalar{{}, DType::kF64}, narrow{{4}, kNarrow};
  for (const Sample& sample :
       {Sample{"adamw", {narrow, narrow, narrow, narrow, scalar}, {}},
        Sample{"sum_squares", {narrow}, {}}, Sample{"sum_uses", {narrow}, {}},
        Sample{"embedding_grad", {{{2}, kIds}, {{2, 6}, kNarrow}}, {{"vocab", int64_t{10}}}},
        Sample{"layer_norm", {{{2, 6}, kNarrow}, {{6}, kNarrow}}, {}}}) {
    INFO(ToString(sample));
    CHECK(OutputTypes(sample).find("op op (" + sample.kind + "): ") == 0);
  }
}

}  // namespace
}  // namespace oneflow
