#include "oneflow_core/op/op_samples.h"

#include <algorithm>

#include <glog/logging.h>

#include "oneflow_core/op/check_graph.h"

namespace oneflow {
namespace {

// Even and different.
constexpr SampleSizes kSizes = {2, 4, 6, 8, 10, 12, 14};

DType FindDType(const SampleTensor& input) {
  if (input.ids > 0) return DType::kI32;
  if (input.mask) return DType::kU8;
  return input.wide ? DType::kF64 : DType::kF32;
}

// Those of f32: precision_test has the others.
std::vector<Sample> AllSamples() {
  std::vector<Sample> all;
  for (const OpDef& def : OpDefs()) {
    for (const OpSample& made : MakeSamples(def, kSizes)) {
      if (std::ranges::any_of(made.in, &SampleTensor::narrow)) continue;
      Sample& sample = all.emplace_back(Sample{def.kind, {}, made.attrs});
      for (const SampleTensor& input : made.in) {
        sample.inputs.push_back({input.dims, FindDType(input)});
      }
    }
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
  std::string text = FormName(sample.kind, sample.attrs);
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
  for (const Signature& row : FindOpDef(view.op)->signatures(view)) text += ToString(row) + '\n';
  return text;
}

}  // namespace oneflow
