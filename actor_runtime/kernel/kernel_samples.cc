#include "actor_runtime/kernel/kernel_samples.h"

#include <glog/logging.h>

#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {
namespace {

struct Sizes {
  int64_t b, t, c, o, heads, d, vocab;
};

AttrMap Contract(int64_t n, bool transposed, int64_t leading = 0) {
  AttrMap attrs{{"contract", n}, {"transpose_w", transposed}};
  if (leading > 0) attrs["lead"] = leading;
  return attrs;
}

void AddProducts(const Sizes& s, std::vector<KernelSample>& all) {
  const auto [b, t, c, o, h, d, vocab] = s;
  all.insert(all.end(),
             {{"linear", {{{b, t, c}}, {{c, o}}}, {}},
              {"linear", {{{b, t, c}}, {{c, o}}, {{o}}}, {}},
              {"linear", {{{b, t, c}}, {{o, c}}}, Contract(1, true)},
              {"linear", {{{b, t, h, d}}, {{h, d, c}}}, Contract(2, false)},
              {"linear", {{{t, c}}, {{h, d, c}}, {{h, d}}}, Contract(1, true)},
              {"linear_add", {{{b, t, c}}, {{c, o}}, {{b, t, o}}, {{o}}}, {}},
              {"linear_add", {{{b, t, c}}, {{o, c}}, {{b, t, o}}}, Contract(1, true)},
              {"linear_gelu", {{{b, t, c}}, {{c, o}}, {{o}}}, {}},
              {"linear_gelu", {{{b, t, c}}, {{o, c}}}, Contract(1, true)},
              {"linear_gelu_grad_input", {{{b, t, o}}, {{c, o}}, {{b, t, c}, 0, -4, 4}}, {}},
              {"add_bias", {{{b, t, h, d}}, {{h, d}}}, {}},
              {"linear_grad_input", {{{b, t, h, d}}, {{c, h, d}}}, Contract(1, false)},
              {"linear_grad_input", {{{b, t, c}}, {{c, h, d}}}, Contract(2, true)},
              {"linear_grad_weight", {{{b, t, c}}, {{b, t, h, d}}}, Contract(1, false, 2)},
              {"linear_grad_weight", {{{b, h, d}}, {{b, c}}}, Contract(2, true, 1)},
              {"linear_grad_bias", {{{b, t, h, d}}}, {{"lead", int64_t{2}}}},
              {"matmul", {{{b, t, c}}, {{c, o}}}, {}},
              {"matmul", {{{b, t, c}}, {{o, c}}}, {{"transpose_b", true}}},
              {"matmul", {{{c, t}}, {{c, o}}}, {{"transpose_a", true}}},
              {"matmul", {{{c, t}}, {{o, c}}}, {{"transpose_a", true}, {"transpose_b", true}}},
              {"matmul_grad_b", {{{b, t, c}}, {{b, t, o}}}, {}}});
}

void AddBlocks(const Sizes& s, std::vector<KernelSample>& all) {
  const auto [b, t, c, o, h, d, vocab] = s;
  const SampleTensor x{{b, t, c}}, positive{{b, t}, 0, 0.5, 2}, ids{{b, t}, vocab};
  all.insert(
      all.end(),
      {{"embedding", {{{vocab, c}}, ids}, {}},
       {"embedding_grad", {ids, x}, {{"vocab", vocab}}},
       {"positional_embedding", {x, {{t + 2, c}}}, {}},
       {"positional_embedding_at", {x, {{t + 2, c}}, {{1}, t + 2}}, {}},
       {"positional_embedding_grad", {x}, {{"length", t + 2}}},
       {"layer_norm", {x, {{c}}}, {}},
       {"layer_norm", {x, {{c}}, {{c}}}, {{"epsilon", 1e-6}}},
       {"layer_norm_grad_input", {x, x, {{c}}, {{b, t}}, positive}, {}},
       {"layer_norm_grad_weight", {x, x, {{b, t}}, positive}, {}},
       {"add", {x, x}, {}},
       {"add_n", {x, x, x}, {}},
       {"sum_uses", {x, x}, {}},
       {"gelu", {{{b, t, c}, 0, -4, 4}}, {}},
       {"gelu_grad", {x, {{b, t, c}, 0, -4, 4}}, {}},
       {"fill", {}, {{"value", 0.25}, {"dims", std::vector<int64_t>{b, t, c}}}},
       {"cached_attention", {{{b, 2, h, t + 3, d}}, {{b, t, 3, h, d}, 0, -2, 2}, {{1}, t + 3}}, {}},
       {"causal_attention", {{{b, t, 3, h, d}, 0, -2, 2}}, {}},
       {"causal_attention_grad",
        {{{b, t, h, d}}, {{b, t, 3, h, d}}, {{b, t, h, d}}, {{b, h, t}}},
        {}}});
}

// Attention without a fused kernel, of f32 and of bf16.
void AddUnfused(const Sizes& s, std::vector<KernelSample>& all) {
  const auto [b, t, c, o, h, d, vocab] = s;
  for (const bool narrow : {false, true}) {
    const auto in = [narrow](Dims dims, double low = -1, double high = 1) {
      return SampleTensor{std::move(dims), 0, low, high, false, narrow};
    };
    const SampleTensor head = in({b, h, t, d}), scores = in({b, h, t, t}, -3, 3);
    const SampleTensor weights = in({b, h, t, t}, 0, 1), x = in({b, t, c});
    SampleTensor mask{{b, t, c}};
    mask.mask = true;
    const AttrMap scale{{"scale", 0.5}}, rate{{"rate", 0.3}};
    all.insert(all.end(), {{"split_heads", {in({b, t, 3, h, d})}, {}},
                           {"split_heads_grad", {head, head, head}, {}},
                           {"swap_dims", {in({b, t, h, d})}, {}},
                           {"batch_matmul", {head, head}, {{"transpose_b", true}}},
                           {"batch_matmul", {weights, head}, {}},
                           {"batch_matmul", {weights, head}, {{"transpose_a", true}}},
                           {"batch_matmul",
                            {weights, in({b, h, d, t})},
                            {{"transpose_a", true}, {"transpose_b", true}}},
                           {"causal_softmax", {scores}, scale},
                           {"causal_softmax_grad", {scores, weights}, scale},
                           {"stored_dropout", {x}, rate},
                           {"stored_dropout_grad", {x, mask}, rate}});
  }
}

void AddLoss(const Sizes& s, std::vector<KernelSample>& all) {
  const auto [b, t, c, o, h, d, vocab] = s;
  const SampleTensor logits{{b, t, vocab}, 0, -3, 3}, max{{b, t}, 0, 1, 3}, ids{{b, t}, vocab};
  const SampleTensor positive{{b, t}, 0, 0.5, 2}, wide{{}, 0, 0, 1, true}, w{{c, o}};
  all.insert(all.end(),
             {{"row_max", {logits}, {}},
              {"row_sum_exp", {logits, max}, {}},
              {"pick", {logits, ids}, {}},
              {"row_stats", {logits, ids}, {}},
              {"mean_nll", {max, positive, {{b, t}}}, {{"scale", 0.125}}},
              {"cross_entropy_grad", {logits, ids, max, positive, {{}}}, {{"scale", 0.125}}},
              {"sum_squares", {w}, {}},
              {"global_norm", {wide, wide}, {}},
              {"adamw", {w, w, {{c, o}, 0, 0, 1}, w, wide}, {{"decay", true}}},
              {"adamw", {w, w, {{c, o}, 0, 0, 1}, w}, {{"decay", true}}},
              {"next_adamw", {w, {{c, o}, 0, 0, 1}, w, w}, {{"decay", true}}}});
}

// Samples of kernels with tensors that may be stored narrow.
void AddNarrow(const Sizes& s, std::vector<KernelSample>& all) {
  const auto [b, t, c, o, h, d, vocab] = s;
  const SampleTensor x{{b, t, c}}, positive{{b, t}, 0, 0.5, 2}, ids{{b, t}, vocab}, max = positive;
  const auto narrow = [](SampleTensor input) {
    input.narrow = true;
    return input;
  };
  const SampleTensor nx = narrow(x), logits = narrow({{b, t, vocab}, 0, -3, 3});
  const SampleTensor steep = narrow({{b, t, c}, 0, -4, 4});
  const AttrMap bf16{{"dtype", std::string("bf16")}};
  all.insert(
      all.end(),
      {{"cast", {x}, bf16},
       {"cast", {nx}, {{"dtype", std::string("f32")}}},
       {"add", {x, nx}, {}},
       {"add", {nx, nx}, {}},
       {"add_n", {nx, nx, nx}, {}},
       {"add_bias", {narrow({{b, t, h, d}}), {{h, d}}}, {}},
       {"linear", {nx, narrow({{c, o}}), {{o}}}, {}},
       {"linear", {nx, narrow({{h, d, c}})}, Contract(1, true)},
       {"linear_gelu", {nx, narrow({{c, o}}), {{o}}}, {}},
       {"linear_gelu_grad_input", {narrow({{b, t, o}}), narrow({{c, o}}), steep}, {}},
       {"linear_grad_input", {narrow({{b, t, h, d}}), narrow({{c, h, d}})}, {}},
       {"linear_grad_weight", {nx, narrow({{b, t, h, d}})}, Contract(1, false, 2)},
       {"linear_grad_bias", {narrow({{b, t, h, d}})}, {{"lead", int64_t{2}}}},
       {"causal_attention", {narrow({{b, t, 3, h, d}, 0, -2, 2})}, {}},
       {"causal_attention_grad",
        {narrow({{b, t, h, d}}), narrow({{b, t, 3, h, d}}), narrow({{b, t, h, d}}), {{b, h, t}}},
        {}},
       {"gelu", {steep}, {}},
       {"dropout", {nx}, {{"rate", 0.3}}},
       {"gelu_grad", {nx, steep}, {}},
       {"layer_norm", {x, {{c}}, {{c}}}, bf16},
       {"layer_norm_grad_input", {nx, x, {{c}}, {{b, t}}, positive}, {}},
       {"layer_norm_grad_weight", {nx, x, {{b, t}}, positive}, {}},
       {"layer_norm", {nx, {{c}}, {{c}}}, {}},
       {"layer_norm_grad_input", {nx, nx, {{c}}, {{b, t}}, positive}, {}},
       {"layer_norm_grad_weight", {nx, nx, {{b, t}}, positive}, {}},
       {"row_max", {logits}, {}},
       {"row_sum_exp", {logits, max}, {}},
       {"pick", {logits, ids}, {}},
       {"row_stats", {logits, ids}, {}},
       {"cross_entropy_grad", {logits, ids, max, positive, {{}}}, {{"scale", 0.125}}}});
}

std::vector<KernelSample> MakeSamples(const Sizes& sizes) {
  std::vector<KernelSample> all;
  AddProducts(sizes, all);
  AddBlocks(sizes, all);
  AddUnfused(sizes, all);
  AddLoss(sizes, all);
  AddNarrow(sizes, all);
  return all;
}

}  // namespace

const std::vector<KernelSample>& SmallSamples() {
  static const auto* samples = new std::vector<KernelSample>(MakeSamples({2, 5, 6, 7, 3, 4, 9}));
  return *samples;
}

const std::vector<KernelSample>& LargeSamples() {
  static const auto* samples =
      new std::vector<KernelSample>(MakeSamples({2, 150, 300, 161, 3, 40, 515}));
  return *samples;
}

std::string ToString(const KernelSample& sample) {
  std::string text = sample.kind;
  for (const SampleTensor& input : sample.in) {
    text += (input.narrow ? " bf16" : " ") + ToString(input.dims);
  }
  return text;
}

namespace {

DType FindType(const SampleTensor& input, DType dtype) {
  if (input.ids > 0) return DType::kI32;
  if (input.mask) return DType::kU8;
  if (input.wide) return DType::kF64;
  return input.narrow && dtype == DType::kF32 ? DType::kBF16 : dtype;
}

}  // namespace

Graph MakeSampleGraph(const KernelSample& sample, DType dtype) {
  Graph graph;
  graph.name = "sample";
  std::vector<TensorId> inputs;
  for (size_t i = 0; i < sample.in.size(); ++i) {
    const OpId source = graph.AddOp("input", "in" + std::to_string(i), {}, {});
    inputs.push_back(graph.ops[source].outputs[0]);
    Tensor& tensor = graph.tensors[inputs.back()];
    tensor.shape = Shape(sample.in[i].dims);
    tensor.dtype = FindType(sample.in[i], dtype);
  }
  graph.AddOp(sample.kind, "op", inputs, sample.attrs, FindOpDef(sample.kind)->outputs);
  // The sources have their shapes, and types that no file may ask for.
  const absl::Status status = InferOpShapes(&graph, static_cast<OpId>(graph.ops.size()) - 1);
  CHECK(status.ok()) << ToString(sample) << ": " << status.ToString();
  for (TensorId t : graph.ops.back().outputs) {
    if (sample.kind == "fill") graph.tensors[t].dtype = dtype;
  }
  return graph;
}

std::vector<Values> InputValues(const KernelSample& sample) {
  std::vector<Values> values;
  for (const SampleTensor& input : sample.in) {
    const int64_t n = Product(input.dims);
    const uint64_t seed = 1000 * (values.size() + 1) + static_cast<uint64_t>(n);
    const int64_t ids = input.mask ? 2 : input.ids;
    values.push_back(ids > 0 ? RandomIds(n, seed, ids)
                             : RandomValues(n, seed, input.low, input.high));
    if (!input.narrow) continue;
    for (double& v : values.back()) v = ToFloat(ToBf16(static_cast<float>(v)));
  }
  return values;
}

int UpdateInputs(const std::string& kind) { return FindOpDef(kind)->updates; }

void SetOpInput(KernelHarness& harness, int i, const Values& values) {
  const int updates = UpdateInputs(harness.setup().kind);
  i < updates ? harness.SetOutput(i, values) : harness.SetInput(i - updates, values);
}

KernelHarness MakeHarness(const KernelSample& sample, DType dtype, int threads) {
  const Graph graph = MakeSampleGraph(sample, dtype);
  std::vector<std::vector<Port>> in;
  std::vector<Port> out;
  for (TensorId t : graph.ops.back().inputs) {
    in.push_back({FullPort(graph.tensors[t].shape.dims, graph.tensors[t].dtype)});
  }
  in.erase(in.begin(), in.begin() + UpdateInputs(sample.kind));
  for (TensorId t : graph.ops.back().outputs) {
    out.push_back(FullPort(graph.tensors[t].shape.dims, graph.tensors[t].dtype));
  }
  KernelHarness harness(sample.kind, sample.attrs, std::move(in), std::move(out), threads);
  harness.run().optimizer = TestStepNumbers;
  const std::vector<Values> values = InputValues(sample);
  for (size_t i = 0; i < values.size(); ++i) SetOpInput(harness, static_cast<int>(i), values[i]);
  return harness;
}

double FindTolerance(const std::string& kind, DType dtype) {
  // These do a second thing to what they have rounded.
  const bool rounds_twice = kind == "linear_gelu" || kind == "linear_gelu_grad_input";
  // Half a unit in the last of bf16's eight digits, and a margin for earlier rounding in f32.
  const double once = dtype == DType::kBF16 ? 0x1.1p-8 : 4e-5;
  return rounds_twice ? 2 * once : once;
}

StepNumbers TestStepNumbers(int64_t step) {
  return {.learning_rate = 0.01,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .weight_decay = 0.1,
          .clip = 1.0,
          .step = step};
}

}  // namespace oneflow
