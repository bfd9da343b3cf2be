#include "actor_runtime/kernel/kernel_samples.h"

#include <glog/logging.h>

#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/tensor/bf16.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// Boxing has no kernels of its own shapes: its samples are those of copy_slices_test.
std::vector<KernelSample> CollectSamples(const SampleSizes& sizes) {
  std::vector<KernelSample> all;
  for (const OpDef& def : OpDefs()) {
    if (!def.on_cpu || IsBoxing(def.kind)) continue;
    for (OpSample& sample : MakeSamples(def, sizes)) {
      all.push_back({def.kind, std::move(sample.in), std::move(sample.attrs)});
    }
  }
  return all;
}

}  // namespace

const std::vector<KernelSample>& SmallSamples() {
  static const auto* samples = new std::vector<KernelSample>(CollectSamples({2, 5, 6, 7, 3, 4, 9}));
  return *samples;
}

const std::vector<KernelSample>& LargeSamples() {
  static const auto* samples =
      new std::vector<KernelSample>(CollectSamples({2, 150, 300, 161, 3, 40, 515, true}));
  return *samples;
}

const std::vector<KernelSample>& MediumSamples() {
  static const auto* samples =
      new std::vector<KernelSample>(CollectSamples({1, 70, 132, 67, 3, 40, 515, true}));
  return *samples;
}

std::string ToString(const KernelSample& sample) {
  std::string text = FormName(sample.kind, sample.attrs);
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
  graph.AddOp(sample.kind, "op", inputs, sample.attrs,
              FindOpDef(sample.kind, sample.attrs)->outputs);
  // The sources have their shapes, and types that no file may ask for.
  const absl::Status status = InferOpShapes(&graph, static_cast<OpId>(graph.ops.size()) - 1);
  CHECK(status.ok()) << ToString(sample) << ": " << status.ToString();
  for (TensorId t : graph.ops.back().outputs) {
    if (sample.in.empty()) graph.tensors[t].dtype = dtype;
  }
  return graph;
}

std::vector<Values> InputValues(const KernelSample& sample) {
  std::vector<Values> values;
  for (const SampleTensor& input : sample.in) {
    if (!input.given.empty()) {
      values.push_back(input.given);
      continue;
    }
    const int64_t n = Product(input.dims);
    const uint64_t seed = 1000 * (values.size() + 1) + static_cast<uint64_t>(n);
    const int64_t ids = input.mask ? 2 : input.ids;
    values.push_back(ids > 0 ? RandomIds(n, seed, ids)
                             : RandomValues(n, seed, input.low, input.high));
    for (size_t j = 0; input.some_negative && j < values.back().size(); j += 3) {
      values.back()[j] = -1;
    }
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

double FindTolerance(const KernelSample& sample, DType dtype) {
  // A product's kernel does a second thing to what it has rounded.
  const bool rounds_twice = sample.attrs.contains("then");
  // Half a unit in the last of bf16's eight digits, and a margin for earlier rounding in f32.
  const double once = dtype == DType::kBF16 ? 0x1.1p-8 : 4e-5;
  // So narrow is what f32 results are made of.
  if (FindDef(sample).rounds_between && sample.in[0].narrow) return 2 * 0x1.1p-8;
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
