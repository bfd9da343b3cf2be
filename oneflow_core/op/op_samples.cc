#include "oneflow_core/op/op_samples.h"

#include <glog/logging.h>

#include "oneflow_core/op/check_graph.h"

namespace oneflow {
namespace {

constexpr DType kIds = DType::kI32;
constexpr DType kWide = DType::kF64;

AttrMap Contract(int64_t n, bool transposed) {
  return {{"contract", n}, {"transpose_w", transposed}};
}

AttrMap WithLead(AttrMap attrs, int64_t lead) {
  attrs["lead"] = lead;
  return attrs;
}

std::vector<Sample> LinearSamples() {
  return {
      {"linear", {{{2, 4, 6}}, {{6, 8}}}, {}},
      {"linear", {{{2, 4, 6}}, {{6, 8}}, {{8}}}, {}},
      {"linear", {{{2, 4, 6}}, {{8, 6}}}, Contract(1, true)},
      {"linear", {{{2, 4, 6, 8}}, {{6, 8, 10}}}, Contract(2, false)},
      {"linear", {{{2, 4}}, {{10, 12, 4}}, {{10, 12}}}, Contract(1, true)},
      {"linear_gelu", {{{2, 4, 6}}, {{6, 8}}}, {}},
      {"linear_gelu", {{{2, 4}}, {{10, 12, 4}}, {{10, 12}}}, Contract(1, true)},
      {"linear_add", {{{2, 4, 6}}, {{6, 8}}, {{2, 4, 8}}}, {}},
      {"linear_add", {{{2, 4}}, {{10, 12, 4}}, {{2, 10, 12}}, {{10, 12}}}, Contract(1, true)},
      {"linear_gelu_grad_input", {{{2, 4, 8, 10}}, {{6, 8, 10}}, {{2, 4, 6}}}, Contract(1, false)},
      {"linear_gelu_grad_input", {{{2, 4, 8}}, {{8, 6, 10}}, {{2, 4, 6, 10}}}, Contract(2, true)},
      {"add_bias", {{{2, 4, 6, 8}}, {{6, 8}}}, {}},
      {"linear_grad_input", {{{2, 4, 8, 10}}, {{6, 8, 10}}}, Contract(1, false)},
      {"linear_grad_input", {{{2, 4, 8}}, {{8, 6, 10}}}, Contract(2, true)},
      {"linear_grad_weight", {{{2, 4, 6}}, {{2, 4, 8, 10}}}, WithLead(Contract(1, false), 2)},
      {"linear_grad_weight", {{{2, 4, 6}}, {{2, 8}}}, WithLead(Contract(2, true), 1)},
      {"linear_grad_bias", {{{2, 4, 6, 8}}}, {{"lead", int64_t{2}}}},
      {"matmul", {{{2, 4, 6}}, {{6, 8}}}, {}},
      {"matmul", {{{2, 4, 6}}, {{8, 6}}}, {{"transpose_b", true}}},
      {"matmul", {{{6, 4}}, {{6, 8}}}, {{"transpose_a", true}}},
      {"matmul", {{{6, 4}}, {{8, 6}}}, {{"transpose_a", true}, {"transpose_b", true}}},
      {"matmul_grad_b", {{{2, 4, 6}}, {{2, 4, 8}}}, {}},
  };
}

std::vector<Sample> BlockSamples() {
  return {
      {"embedding", {{{10, 6}}, {{2, 4}, kIds}}, {}},
      {"embedding_grad", {{{2, 4}, kIds}, {{2, 4, 6}}}, {{"vocab", int64_t{10}}}},
      {"positional_embedding", {{{2, 4, 6}}, {{8, 6}}}, {}},
      {"positional_embedding_grad", {{{2, 4, 6}}}, {{"length", int64_t{8}}}},
      {"layer_norm", {{{2, 4, 6}}, {{6}}}, {}},
      {"layer_norm", {{{2, 4, 6}}, {{6}}, {{6}}}, {{"epsilon", 1e-6}}},
      {"layer_norm_grad_input", {{{2, 4, 6}}, {{2, 4, 6}}, {{6}}, {{2, 4}}, {{2, 4}}}, {}},
      {"layer_norm_grad_weight", {{{2, 4, 6}}, {{2, 4, 6}}, {{2, 4}}, {{2, 4}}}, {}},
      {"add", {{{2, 4}}, {{2, 4}}}, {}},
      {"add_n", {{{2, 4}}, {{2, 4}}, {{2, 4}}}, {}},
      {"sum_uses", {{{2, 4}}, {{2, 4}}}, {}},
      {"gelu", {{{2, 4}}}, {}},
      {"gelu_grad", {{{2, 4}}, {{2, 4}}}, {}},
      {"cast", {{{2, 4}}}, {{"dtype", std::string("bf16")}}},
      {"dropout", {{{2, 4}}}, {{"rate", 0.25}}},
      {"positional_embedding_at", {{{2, 4, 6}}, {{8, 6}}, {{1}, kIds}}, {}},
      {"cached_attention", {{{2, 2, 6, 10, 8}}, {{2, 4, 3, 6, 8}}, {{1}, kIds}}, {}},
      {"causal_attention", {{{2, 4, 3, 6, 8}}}, {}},
      {"causal_attention_grad",
       {{{2, 4, 6, 8}}, {{2, 4, 3, 6, 8}}, {{2, 4, 6, 8}}, {{2, 6, 4}}},
       {}},
  };
}

// Attention without a fused kernel, with masks that are stored.
std::vector<Sample> UnfusedSamples() {
  constexpr DType kMask = DType::kU8;
  return {
      {"split_heads", {{{2, 4, 3, 6, 8}}}, {}},
      {"split_heads_grad", {{{2, 6, 4, 8}}, {{2, 6, 4, 8}}, {{2, 6, 4, 8}}}, {}},
      {"swap_dims", {{{2, 4, 6, 8}}}, {}},
      {"batch_matmul", {{{2, 6, 4, 8}}, {{2, 6, 8, 10}}}, {}},
      {"batch_matmul", {{{2, 6, 4, 8}}, {{2, 6, 10, 8}}}, {{"transpose_b", true}}},
      {"batch_matmul", {{{2, 8, 4}}, {{2, 8, 10}}}, {{"transpose_a", true}}},
      {"batch_matmul", {{{2, 8, 4}}, {{2, 10, 8}}}, {{"transpose_a", true}, {"transpose_b", true}}},
      {"causal_softmax", {{{2, 6, 4, 4}}}, {{"scale", 0.5}}},
      {"causal_softmax_grad", {{{2, 6, 4, 4}}, {{2, 6, 4, 4}}}, {{"scale", 0.5}}},
      {"stored_dropout", {{{2, 4}}}, {{"rate", 0.25}}},
      {"stored_dropout_grad", {{{2, 4}}, {{2, 4}, kMask}}, {{"rate", 0.25}}},
  };
}

std::vector<Sample> LossAndUpdateSamples() {
  return {
      {"softmax_cross_entropy", {{{2, 4, 6}}, {{2, 4}, kIds}}, {}},
      {"row_max", {{{2, 4, 6}}}, {}},
      {"row_sum_exp", {{{2, 4, 6}}, {{2, 4}}}, {}},
      {"pick", {{{2, 4, 6}}, {{2, 4}, kIds}}, {}},
      {"row_stats", {{{2, 4, 6}}, {{2, 4}, kIds}}, {}},
      {"mean_nll", {{{2, 4}}, {{2, 4}}, {{2, 4}}}, {{"scale", 0.125}}},
      {"cross_entropy_grad",
       {{{2, 4, 6}}, {{2, 4}, kIds}, {{2, 4}}, {{2, 4}}, {{}}},
       {{"scale", 0.125}}},
      {"sum_squares", {{{4, 6}}}, {}},
      {"global_norm", {{{}, kWide}, {{}, kWide}}, {}},
      {"adamw", {{{4, 6}}, {{4, 6}}, {{4, 6}}, {{4, 6}}, {{}, kWide}}, {{"decay", true}}},
      {"next_adamw", {{{4, 6}}, {{4, 6}}, {{4, 6}}, {{4, 6}}}, {{"decay", true}}},
      {"slice", {{{4, 6}}}, {}},
      {"all_gather", {{{4, 6}}}, {}},
      {"reduce_scatter", {{{4, 6}}}, {}},
      {"all_reduce", {{{4, 6}}}, {}},
      {"all_to_all", {{{4, 6}}}, {}},
      {"zero_fill", {{{4, 6}}}, {}},
      {"transfer", {{{4, 6}}}, {}},
  };
}

std::vector<Sample> AllSamples() {
  std::vector<Sample> all;
  for (const auto& part :
       {LinearSamples(), BlockSamples(), UnfusedSamples(), LossAndUpdateSamples()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

Graph MakeGraph(const Sample& sample) {
  Graph graph;
  graph.name = "sample";
  std::vector<TensorId> inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const OpId source = graph.AddOp("input", "in" + std::to_string(i), {}, {});
    inputs.push_back(graph.ops[source].outputs[0]);
    graph.tensors[inputs.back()].shape = Shape(sample.inputs[i].dims);
    graph.tensors[inputs.back()].dtype = sample.inputs[i].dtype;
  }
  graph.AddOp(sample.kind, "op", inputs, sample.attrs);
  return graph;
}

const std::vector<Sample>& Samples() {
  static const std::vector<Sample> samples = AllSamples();
  return samples;
}

std::string ToString(const Sample& sample) {
  std::string text = sample.kind;
  for (const SampleInput& input : sample.inputs) text += ' ' + ToString(input.dims);
  return text;
}

std::string ToString(const Signature& row) {
  std::string text;
  for (const Sbp sbp : row.in) text += ToString(sbp) + ' ';
  text += "->";
  for (const Sbp sbp : row.out) text += ' ' + ToString(sbp);
  return text;
}

std::string TableText(const Sample& sample) {
  Graph graph = MakeGraph(sample);
  CHECK(InferShapes(&graph).ok()) << ToString(sample);
  std::string text;
  const OpView view{graph, graph.ops[SampleOp(graph)]};
  for (const Signature& row : FindOpDef(sample.kind)->signatures(view))
    text += ToString(row) + '\n';
  return text;
}

}  // namespace oneflow
