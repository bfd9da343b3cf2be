// Gradients against central differences, in f64: the ops that a definition's gradient is made of,
// run by their kernels, give what small changes of the inputs give.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_samples.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

using Feeds = std::map<TensorId, Values>;

// Runs the ops of a graph whose sources are fed; returns the values of all tensors.
Feeds RunGraph(const Graph& graph, Feeds values) {
  for (const Op& op : graph.ops) {
    if (HasOwnShape(op.kind)) continue;
    std::vector<std::vector<Port>> in;
    std::vector<Port> out;
    for (TensorId t : op.inputs) {
      in.push_back({FullPort(graph.tensors[t].shape.dims, graph.tensors[t].dtype)});
    }
    for (TensorId t : op.outputs) {
      out.push_back(FullPort(graph.tensors[t].shape.dims, graph.tensors[t].dtype));
    }
    KernelHarness harness(op.kind, op.attrs, std::move(in), std::move(out));
    harness.setup().name = op.name;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      harness.SetInput(static_cast<int>(i), values.at(op.inputs[i]));
    }
    INFO(op.name << " (" << op.kind << ")");
    REQUIRE(harness.MakeAndCall() == absl::OkStatus());
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      values[op.outputs[i]] = harness.Output(static_cast<int>(i));
    }
  }
  return values;
}

// A graph that ends in `output`, and the sources to differentiate by.
struct Problem {
  Graph graph;
  TensorId output;
  Feeds feeds;
  std::vector<OpId> path;  // ops to differentiate, last first
};

// Gradients of Σ dy * output by the definitions, keyed by tensor.
std::map<TensorId, TensorId> Differentiate(Problem* p, const Values& dy) {
  Graph& graph = p->graph;
  const OpId source = graph.AddOp("input", "dy", {}, {});
  const TensorId dy_tensor = graph.ops[source].outputs[0];
  graph.tensors[dy_tensor].shape = graph.tensors[p->output].shape;
  graph.tensors[dy_tensor].dtype = DType::kF64;
  p->feeds[dy_tensor] = dy;
  std::map<TensorId, TensorId> grads{{p->output, dy_tensor}};
  for (OpId id : p->path) {
    const Op op = graph.ops[id];
    GradientContext context{graph, id, {}, {}};
    for (TensorId t : op.outputs) context.output_grads.push_back(grads.count(t) ? grads[t] : -1);
    for (TensorId t : op.inputs)
      context.needs_grad.push_back(graph.tensors[t].dtype != DType::kI32);
    if (std::all_of(context.output_grads.begin(), context.output_grads.end(),
                    [](TensorId t) { return t < 0; })) {
      continue;
    }
    const auto result = FindOpDef(op)->gradient(context).value();
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (result[i] >= 0) grads[op.inputs[i]] = result[i];
    }
  }
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  return grads;
}

double Weighted(const Values& y, const Values& dy) {
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
  return sum;
}

void CheckGradients(Problem p) {
  const Graph forward = p.graph;
  const Feeds feeds = p.feeds;
  const int64_t n = Product(forward.tensors[p.output].shape.dims);
  const Values dy = RandomValues(n, 77);
  const std::map<TensorId, TensorId> grads = Differentiate(&p, dy);
  const Feeds all = RunGraph(p.graph, p.feeds);
  constexpr double kStep = 1e-5;
  for (const auto& [source, value] : feeds) {
    if (forward.tensors[source].dtype == DType::kI32) continue;
    REQUIRE(grads.count(source) == 1);
    const Values& analytic = all.at(grads.at(source));
    REQUIRE(analytic.size() == value.size());
    const size_t stride = value.size() / 24 + 1;  // enough of them; every one where there are few
    for (size_t i = 0; i < value.size(); i += stride) {
      Feeds moved = feeds;
      moved[source][i] = value[i] + kStep;
      const double up = Weighted(RunGraph(forward, moved).at(p.output), dy);
      moved[source][i] = value[i] - kStep;
      const double down = Weighted(RunGraph(forward, moved).at(p.output), dy);
      INFO(forward.tensors[source].name << "[" << i << "]");
      REQUIRE(analytic[i] == Approx((up - down) / (2 * kStep)).epsilon(1e-6).margin(1e-7));
    }
  }
}

Problem MakeProblem(const KernelSample& sample) {
  Problem p{.graph = MakeSampleGraph(sample, DType::kF64)};
  const Op& op = p.graph.ops.back();
  const std::vector<Values> values = InputValues(sample);
  for (size_t i = 0; i < values.size(); ++i) p.feeds[op.inputs[i]] = values[i];
  p.output = op.outputs[0];
  p.path = {static_cast<OpId>(p.graph.ops.size()) - 1};
  return p;
}

TEST_CASE("each op's gradient is what finite differences give") {
  for (const KernelSample& sample : SmallSamples()) {
    // Differentiated together: the next test.
    constexpr std::string_view kTogether[] = {"pick", "mean_nll", "linear_row_stats"};
    const bool together = std::ranges::find(kTogether, sample.kind) != std::end(kTogether);
    if (!FindDef(sample).gradient || together) continue;
    INFO(ToString(sample));
    CheckGradients(MakeProblem(sample));
  }
}

TEST_CASE("gradients reach a linear then gelu, or gated, through both of its outputs") {
  for (const KernelSample& sample : SmallSamples()) {
    const std::string& then = FindDef(sample).then;
    if ((then != "gelu" && then != "gated") || sample.in[0].narrow) continue;
    INFO(ToString(sample));
    Problem p = MakeProblem(sample);
    const std::vector<TensorId> both = p.graph.ops.back().outputs;
    const OpId sum = p.graph.AddOp("add", "sum", both, {});
    p.output = p.graph.ops[sum].outputs[0];
    p.path = {sum, sum - 1};
    REQUIRE(InferShapes(&p.graph) == absl::OkStatus());
    CheckGradients(std::move(p));
  }
}

// A graph of sources that grows towards a loss.
struct LossProblem {
  Problem p;

  TensorId Source(const char* name, Dims dims, DType dtype, Values values) {
    Graph& g = p.graph;
    const TensorId t = g.ops[g.AddOp("input", name, {}, {})].outputs[0];
    g.tensors[t].shape = Shape(std::move(dims));
    g.tensors[t].dtype = dtype;
    p.feeds[t] = std::move(values);
    return t;
  }
  // Labels of 12 rows, of a vocabulary of 7.
  TensorId Labels(bool ignores) {
    Values ids = RandomIds(12, 6, 7);
    if (ignores) ids[0] = ids[5] = ids[11] = -1;
    return Source("labels", {3, 4}, DType::kI32, ids);
  }
  std::vector<TensorId> Add(const char* kind, std::vector<TensorId> in, AttrMap attrs = {}) {
    const OpId id =
        p.graph.AddOp(kind, kind, std::move(in), std::move(attrs), FindOpDef(kind)->outputs);
    if (FindOpDef(kind)->gradient) p.path.insert(p.path.begin(), id);
    return p.graph.ops[id].outputs;
  }
  // The loss of statistics, of the mean over all rows or of the sum over those whose label is not
  // negative.
  void Check(const std::vector<TensorId>& stats, TensorId labels, bool ignores) {
    std::vector<TensorId> in = stats;
    if (ignores) in.push_back(labels);
    p.output = Add("mean_nll", std::move(in), {{"scale", ignores ? 1.0 : 1.0 / 12}})[0];
    REQUIRE(InferShapes(&p.graph) == absl::OkStatus());
    CheckGradients(p);
  }
};

TEST_CASE("the gradient of softmax cross entropy is what finite differences give") {
  for (const bool ignores : {false, true}) {
    LossProblem l;
    const TensorId logits = l.Source("logits", {3, 4, 7}, DType::kF64, RandomValues(84, 5, -3, 3));
    const TensorId labels = l.Labels(ignores);
    const TensorId max = l.Add("row_max", {logits})[0];
    const TensorId sum = l.Add("row_sum_exp", {logits, max})[0];
    l.Check({max, sum, l.Add("pick", {logits, labels})[0]}, labels, ignores);
  }
}

TEST_CASE("the same where no tensor holds the logits") {
  for (const bool ignores : {false, true}) {
    LossProblem l;
    const TensorId x = l.Source("x", {3, 4, 5}, DType::kF64, RandomValues(60, 5, -2, 2));
    const TensorId w = l.Source("w", {7, 5}, DType::kF64, RandomValues(35, 6, -1, 1));
    const TensorId labels = l.Labels(ignores);
    AttrMap attrs = {{"pieces", int64_t{1}}};
    if (ignores) attrs["cap"] = 2.5;
    l.Check(l.Add("linear_row_stats", {x, w, labels}, std::move(attrs)), labels, ignores);
  }
}

TEST_CASE("the gradient of unfused attention is what finite differences give") {
  Problem p;
  Graph& g = p.graph;
  const TensorId qkv = g.ops[g.AddOp("input", "qkv", {}, {})].outputs[0];
  g.tensors[qkv].shape = Shape{2, 7, 3, 2, 5};
  g.tensors[qkv].dtype = DType::kF64;
  p.feeds[qkv] = RandomValues(2 * 7 * 3 * 2 * 5, 5, -2, 2);
  auto op = [&](const char* kind, const char* name, std::vector<TensorId> in, AttrMap attrs = {}) {
    const OpId id = g.AddOp(kind, name, std::move(in), std::move(attrs), FindOpDef(kind)->outputs);
    p.path.insert(p.path.begin(), id);
    return g.ops[id].outputs;
  };
  const std::vector<TensorId> heads = op("split_heads", "split", {qkv});
  const TensorId scores =
      op("batch_matmul", "scores", {heads[0], heads[1]}, {{"transpose_b", true}})[0];
  const TensorId softmax = op("causal_softmax", "softmax", {scores}, {{"scale", 0.45}})[0];
  const TensorId kept = op("stored_dropout", "drop", {softmax}, {{"rate", 0.25}})[0];
  const TensorId values = op("batch_matmul", "values", {kept, heads[2]})[0];
  p.output = op("swap_dims", "out", {values})[0];
  REQUIRE(InferShapes(&g) == absl::OkStatus());
  CheckGradients(p);
}

TEST_CASE("attention's gradient holds over several query blocks") {
  const SampleTensor q{{1, 150, 1, 2, 5}, -2, 2}, k{{1, 150, 1, 5}, -2, 2}, v{{1, 150, 1, 5}};
  const SampleTensor positions = SampleTensor::Ids({1, 150}, 150);
  const SampleTensor documents = SampleTensor::Ids({1, 150}, 3);
  CheckGradients(MakeProblem({"attention", {q, k, v}, {}}));
  CheckGradients(MakeProblem({"attention", {q, k, v}, {{"window", int64_t{20}}}}));
  CheckGradients(MakeProblem({"attention",
                              {q, k, v, positions, positions, documents, documents},
                              {{"window", int64_t{70}}}}));
}

}  // namespace
}  // namespace oneflow
