// The choice on one axis, and on several at once, is the least of all: small graphs of any form
// against brute force over every combination of rows.
#include "compiler/sbp/infer_sbp.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>

#include "compiler/boxing/boxing_path.h"
#include "compiler/graph/rewrite.h"
#include "compiler/passes/passes.h"
#include "compiler/sbp/brute_force.h"
#include "compiler/sbp/op_groups.h"
#include "compiler/sbp/sbp_choice.h"
#include "compiler/sbp/sbp_network.h"
#include "compiler/sbp/sbp_tables.h"
#include "oneflow_core/cost/call_bytes.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

TensorId Add(Graph* graph, const char* kind, std::vector<TensorId> inputs, Dims dims = {}) {
  const std::string name = std::string(kind) + std::to_string(graph->ops.size());
  const OpId op = graph->AddOp(kind, name, std::move(inputs), {});
  if (!dims.empty()) graph->tensors[graph->ops[op].outputs[0]].shape = Shape(std::move(dims));
  return graph->ops[op].outputs[0];
}

// `layers` products, sums and gelus of earlier tensors; 16 x 16 each.
Graph Draw(int layers, const Mesh& mesh, std::mt19937* random) {
  Graph graph;
  graph.mesh = mesh;
  std::vector<TensorId> made = {Add(&graph, "input", {}, {16, 16})};
  const auto any = [&] { return made[(*random)() % made.size()]; };
  for (int i = 0; i < layers; ++i) {
    switch ((*random)() % 3) {
      case 0: {
        const TensorId w = Add(&graph, "variable", {}, {16, 16});
        made.push_back(Add(&graph, "linear", {any(), w}));
        break;
      }
      case 1: made.push_back(Add(&graph, "gelu", {any()})); break;
      default: made.push_back(Add(&graph, "add", {any(), any()}));
    }
    if ((*random)() % 4 == 0) {
      const Sbp wishes[] = {B(), S(0), S(1)};
      graph.tensors[made.back()].constraint["x"] = wishes[(*random)() % 3];
    }
  }
  graph.outputs = {made.back()};
  REQUIRE(CheckAndInferShapes(&graph).ok());
  REQUIRE(PlaceVariables(&graph).ok());
  return graph;
}

// Links and devices at which neither boxing nor computing is negligible.
proto::Cluster Slow(std::mt19937* random) {
  proto::Cluster cluster;
  proto::Level* level = cluster.add_level();
  level->set_size(8);
  level->set_latency(1e-8 * static_cast<double>((*random)() % 100));
  level->set_bandwidth(1e8 * static_cast<double>(1 + (*random)() % 100));
  cluster.mutable_device()->set_peak_flops(1e9 * static_cast<double>(1 + (*random)() % 100));
  cluster.mutable_device()->set_memory_bandwidth(1e9 * static_cast<double>(1 + (*random)() % 20));
  return cluster;
}

// The choice on all axes of the graph's mesh at once, as a network.
ChoiceNetwork MakeNetwork(Graph* graph, const SbpOptions& options) {
  const SbpChoice replicated = ReplicateAll(graph);
  std::vector<int> axes(graph->mesh.axes.size());
  std::iota(axes.begin(), axes.end(), 0);
  const auto space = ChoiceSpace::Make(*graph, replicated, options, axes).value();
  return SbpNetwork({*graph, replicated, options, space, FindObserved(*graph)}).network;
}

// "... by the cluster's costs: 0.012 ms a step", in seconds.
double ReadSeconds(const std::string& note) {
  return 1e-3 * std::stod(note.substr(note.rfind(": ") + 2));
}

// What InferSbp makes of the graph costs what its note says, and no assignment costs
// less. Returns false, and compares nothing, where there are too many of them.
bool CheckLeast(const Graph& graph, const SbpOptions& options) {
  Graph empty = graph, chosen = graph;
  const SbpChoice replicated = ReplicateAll(&empty);
  const auto space =
      ChoiceSpace::Make(empty, replicated, options, AxesToChoose(graph.mesh)).value();
  const SbpProblem problem{empty, replicated, options, space, FindObserved(graph)};
  const SbpCosts costs = SbpNetwork(problem);
  const ChoiceNetwork& network = costs.network;
  double combinations = 1;
  for (int v = 0; v < network.variables(); ++v) combinations *= network.domain_size(v);
  if (combinations > 2e5) return false;
  const Cost least = BruteForce(network);
  CHECK(Solve(network).cost == least);
  const auto choice = InferSbp(&chosen, options).value();
  CHECK(network.Evaluate(ExtendAssignment(network, FindAssignment(problem, chosen, choice))) ==
        least);
  const std::string& note = choice.notes.back();
  INFO(note);
  CHECK_THAT(note, Catch::Contains(": of all layouts none has a smaller sum of the seconds of "));
  CHECK(ReadSeconds(note) * costs.costs_a_second == Approx(static_cast<double>(least)));
  return true;
}

TEST_CASE("infer_sbp: small graphs of any form are given the cheapest of all layouts") {
  std::mt19937 random(11);
  int tried = 0;
  for (int i = 0; i < 60; ++i) {
    const int layers = 2 + static_cast<int>(random() % 4);
    const Mesh mesh{{{"x", 2 + static_cast<int>(random() % 3)}}};
    const Graph graph = Draw(layers, mesh, &random);
    tried += CheckLeast(graph, {.cluster = Slow(&random)}) ? 1 : 0;
  }
  CHECK(tried > 50);
}

// The model that the note names, worked out from a graph with layouts, without the search's tables:
// each op as a call of its kernel on one device, each tensor boxed once for each layout that its
// readers need, one after another.
double SumSeconds(const Graph& graph, const SbpChoice& choice, const proto::Cluster& cluster) {
  const KernelCost kernels(cluster.device());
  const double devices = graph.mesh.axes[0].size;
  const auto part = [&](TensorId t, Sbp sbp) {
    return static_cast<double>(TensorBytes(graph.tensors[t])) / (sbp.split() ? devices : 1);
  };
  std::map<std::pair<TensorId, std::string>, double> boxed;
  const auto box = [&](TensorId t, Sbp need) {
    const BoxedTensor tensor{graph.tensors[t].shape.dims, 4};
    double& seconds = boxed[{t, ToString(need)}] = 0;
    for (const BoxingStep& step :
         BoxingPath({cluster, graph.mesh}, tensor, graph.tensors[t].sbp, {need})) {
      seconds += step.seconds;
    }
  };
  double sum = 0;
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    const OpView op{graph, graph.ops[id]};
    bool split = false;
    std::vector<double> read;
    for (size_t i = 0; i < op.op.inputs.size(); ++i) {
      const Sbp sbp = choice.op_inputs[id][i][0];
      split = split || sbp.split();
      read.push_back(part(op.op.inputs[i], sbp));
      box(op.op.inputs[i], sbp);
    }
    const TensorId y = op.op.outputs[0];
    const Sbp out = graph.tensors[y].sbp[0];
    const double written = part(y, out);
    if (IsVariable(op.op)) continue;
    const auto& flops = FindOpDef(op.op)->flops;
    CallWork call{.kernel = op.op.kind};
    call.flops = flops == nullptr ? 0 : flops(op) / (split || out.split() ? devices : 1);
    call.bytes = BytesRead(op.op.kind, read, written) + written;
    sum += kernels.Seconds(call);
  }
  for (const TensorId t : graph.outputs) {
    const Sbp sbp = graph.tensors[t].sbp[0];
    box(t, sbp.partial() ? B() : sbp);
  }
  for (const auto& [path, seconds] : boxed) sum += seconds;
  return sum;
}

// The sums of all layouts of a graph, by fixing one row of each op after the other.
void AddSums(const Graph& graph, const SbpOptions& options, OpId next, std::vector<double>* sums) {
  if (next == static_cast<OpId>(graph.ops.size())) {
    Graph chosen = graph;
    const absl::StatusOr<SbpChoice> choice = InferSbp(&chosen, options);
    if (choice.ok()) sums->push_back(SumSeconds(chosen, *choice, options.cluster));
    return;
  }
  const OpView view{graph, graph.ops[next]};
  for (const Signature& row : FindOpDef(view.op)->signatures(view)) {
    SbpOptions fixed = options;
    fixed.fixed["x"][view.op.name] = RowText(row);
    AddSums(graph, fixed, next + 1, sums);
  }
}

TEST_CASE("infer_sbp: what the note says is proved is so by the model that it names") {
  std::mt19937 random(16);
  int tried = 0;
  for (int i = 0; i < 24; ++i) {
    Graph graph =
        Draw(1 + static_cast<int>(random() % 2), Mesh{{{"x", i % 3 == 0 ? 4 : 2}}}, &random);
    SbpOptions options{.cluster = Slow(&random)};
    if (i % 2 == 0) options.cluster.mutable_device()->set_kind(proto::Device::CUDA);
    std::vector<double> sums;
    AddSums(graph, options, 0, &sums);
    const SbpChoice choice = InferSbp(&graph, options).value();
    const std::string& note = choice.notes.back();
    INFO(note);
    CHECK_THAT(note, Catch::StartsWith("axis x: of all layouts none has a smaller sum of the "
                                       "seconds of kernels and exchanges, one after another, by "
                                       "the cluster's costs: "));
    const double reported = ReadSeconds(note);
    // Costs are integer picoseconds.
    const double margin = 1e-12 * static_cast<double>(4 * graph.ops.size());
    CHECK(reported == Approx(SumSeconds(graph, choice, options.cluster)).margin(margin));
    REQUIRE_FALSE(sums.empty());
    CHECK(reported <= *std::min_element(sums.begin(), sums.end()) + margin);
    tried += sums.size() > 1 ? 1 : 0;
  }
  CHECK(tried > 12);
}

// A product, and a gelu that reads it; all parts have the same choices of layouts.
struct Part {
  int64_t width = 16;
  const char* x = "input";
  Phase reader = Phase::kForward;
  std::optional<Sbp> wish = std::nullopt;  // the product's constraint on one axis
};

// The network of several parts side by side.
ChoiceNetwork MakeNetwork(const std::vector<Part>& parts) {
  Graph graph;
  graph.mesh = *ParseMesh("x=2,y=2");
  SbpOptions options{.micro_batches = 4};
  for (const Part& part : parts) {
    const TensorId x = Add(&graph, part.x, {}, {part.width, part.width});
    const TensorId w = Add(&graph, "variable", {}, {part.width, part.width});
    const TensorId y = Add(&graph, "linear", {x, w}), z = Add(&graph, "gelu", {y});
    graph.ops[graph.tensors[z].producer].phase = part.reader;
    if (part.wish) graph.tensors[y].constraint["x"] = *part.wish;
    graph.outputs.push_back(y);
    options.mirrors.push_back({x, graph.tensors[y].producer, 0, y});
  }
  REQUIRE(CheckAndInferShapes(&graph).ok());
  return MakeNetwork(&graph, options);
}

TEST_CASE("sbp network: only equal ops share their costs") {
  std::mt19937 random(15);
  const Part plain;
  const std::pair<Part, Part> different[] = {{plain, {.width = 32}},
                                             {plain, {.x = "variable"}},
                                             {plain, {.reader = Phase::kUpdate}},
                                             {{.wish = B()}, {.wish = P()}},
                                             {{.wish = S(0)}, {.wish = S(1)}}};
  for (const auto& [a, b] : different) {
    for (const auto& [first, second] : {std::pair(a, b), std::pair(b, a)}) {
      const ChoiceNetwork one = MakeNetwork({first}), two = MakeNetwork({second});
      const ChoiceNetwork both = MakeNetwork({first, second});
      REQUIRE(both.variables() == one.variables() + two.variables());
      for (int i = 0; i < 100; ++i) {
        std::vector<int> assignment, rest;
        for (int v = 0; v < one.variables(); ++v)
          assignment.push_back(random() % one.domain_size(v));
        for (int v = 0; v < two.variables(); ++v) rest.push_back(random() % two.domain_size(v));
        const Cost apart = AddCosts(one.Evaluate(assignment), two.Evaluate(rest));
        assignment.insert(assignment.end(), rest.begin(), rest.end());
        CHECK(both.Evaluate(assignment) == apart);
      }
    }
  }
}

// Draws graphs of up to `layers` layers: InferSbp chooses all axes of the mesh together. Returns
// how many were small enough to be compared.
int TryAllAxes(const char* mesh, int layers, int graphs, unsigned seed) {
  std::mt19937 random(seed);
  int tried = 0;
  for (int i = 0; i < graphs; ++i) {
    const Graph graph = Draw(1 + static_cast<int>(random() % layers), *ParseMesh(mesh), &random);
    tried += CheckLeast(graph, {.cluster = Slow(&random)}) ? 1 : 0;
  }
  return tried;
}

TEST_CASE("infer_sbp: all axes are chosen together, the cheapest of all ways") {
  CHECK(TryAllAxes("x=2,y=2", 3, 80, 12) > 20);
  CHECK(TryAllAxes("x=2,y=2,z=2", 2, 40, 13) > 10);
}

TEST_CASE("infer_sbp: many axes get a bound of all together, and far too many are reported so") {
  const auto note_of = [](const char* mesh, int layers) {
    std::mt19937 random(14);
    Graph graph = Draw(layers, *ParseMesh(mesh), &random);
    const auto choice = InferSbp(&graph, {.cluster = Slow(&random)}).value();
    return choice.notes.back();
  };
  CHECK_THAT(note_of("x=2,b=2,c=2,d=2", 12), Catch::StartsWith("all axes together: "));
  CHECK_THAT(note_of("x=2,b=2,c=2,d=2,e=2", 12), Catch::StartsWith("all axes together: "));
  CHECK_THAT(note_of("x=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2,i=2", 12),
             Catch::StartsWith("all axes together: not searched"));
  CHECK_THAT(note_of("x=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2,i=2,j=2,k=2,l=2,m=2,n=2,o=2,p=2", 2),
             Catch::StartsWith("all axes together: not searched"));
}

TEST_CASE("infer_sbp: no axis may split what another left too small") {
  // 3 rows cannot be split by both axes, and the product's other dimensions are as small.
  Graph graph;
  graph.mesh = *ParseMesh("x=2,y=2");
  const TensorId x = Add(&graph, "input", {}, {3, 3});
  graph.outputs = {Add(&graph, "gelu", {x})};
  REQUIRE(CheckAndInferShapes(&graph).ok());
  REQUIRE(InferSbp(&graph, {.cluster = {}}).ok());
  const NdSbp& sbp = graph.tensors[graph.outputs[0]].sbp;
  CHECK((!sbp[0].split() || !(sbp[0] == sbp[1])));
}

TEST_CASE(
    "infer_sbp: what the writer's constraint leaves small, its reader may split by another axis") {
  Graph graph;
  graph.mesh = *ParseMesh("a=2,b=2");
  const TensorId x = Add(&graph, "input", {}, {2, 13});
  const TensorId y = Add(&graph, "add_n", {x});
  graph.outputs = {y};
  graph.tensors[x].constraint = {{"a", S(1)}, {"b", S(0)}};
  graph.tensors[y].constraint = {{"a", S(0)}, {"b", B()}};
  REQUIRE(CheckAndInferShapes(&graph).ok());
  const auto choice = InferSbp(&graph).value();
  CHECK(choice.op_inputs[graph.tensors[y].producer][0] == NdSbp{S(0), B()});
  // A layout of its own that leaves a device without an element is refused.
  graph.tensors[y].constraint = {{"a", S(0)}, {"b", S(0)}};
  CHECK_THAT(
      InferSbp(&graph).status().ToString(),
      Catch::Contains("leaves some of its 2 devices without an element: the shape is [2,13], "
                      "and axis b of 2 splits dimension 0, too; use"));
  // Each of three axes is named that splits the dimension besides the refused one.
  graph.mesh = *ParseMesh("a=2,b=2,c=2");
  graph.tensors[y].constraint = {{"a", S(0)}, {"b", B()}, {"c", S(0)}};
  graph.tensors[x].constraint = {};
  CHECK_THAT(InferSbp(&graph).status().ToString(),
             Catch::Contains("on axis a") && Catch::Contains("and axis c of 2 splits dimension 0"));
}

TEST_CASE("infer_sbp: products take the time of the rate of their type") {
  // Some columns of x w each, and the result gathered: worth it where the product takes long.
  const auto choose_product = [](DType dtype) {
    Graph graph;
    graph.mesh = Mesh{{{"x", 8}}};
    const TensorId x = Add(&graph, "input", {}, {64, 4096});
    const TensorId w = Add(&graph, "variable", {}, {4096, 4096});
    const TensorId product = Add(&graph, "linear", {x, w});
    graph.outputs = {Add(&graph, "gelu", {product})};
    for (const TensorId t : {x, graph.outputs[0]}) graph.tensors[t].constraint["x"] = B();
    REQUIRE(CheckAndInferShapes(&graph).ok());
    for (Tensor& tensor : graph.tensors) tensor.dtype = dtype;
    REQUIRE(PlaceVariables(&graph).ok());
    proto::Cluster cluster;
    cluster.mutable_device()->set_kind(proto::Device::CUDA);
    cluster.mutable_device()->set_peak_flops(20e12);
    cluster.mutable_device()->set_peak_flops_bf16(300e12);
    cluster.mutable_device()->set_memory_bandwidth(2e12);
    cluster.add_level()->set_size(8);
    cluster.mutable_level(0)->set_bandwidth(20e9);
    REQUIRE(InferSbp(&graph, {.cluster = cluster}).ok());
    return ToString(graph.tensors[product].sbp);
  };
  CHECK(choose_product(DType::kF32) == "S(1)");
  CHECK(choose_product(DType::kBF16) == "B");
}

TEST_CASE("infer_sbp: a tensor with very many readers is shared among readers of one layout") {
  // The readers are split along the batch, as asked; x is replicated: one slice for all of them.
  Graph graph;
  graph.mesh = Mesh{{{"x", 2}}};
  const TensorId x = Add(&graph, "input", {}, {16, 16});
  graph.tensors[x].constraint["x"] = S(1);
  for (int i = 0; i < 12; ++i) {
    const TensorId w = Add(&graph, "variable", {}, {16, 16});
    graph.outputs.push_back(Add(&graph, "linear", {x, w}));
  }
  REQUIRE(CheckAndInferShapes(&graph).ok());
  REQUIRE(PlaceVariables(&graph).ok());
  const auto choice = InferSbp(&graph).value();
  const NdSbp first = choice.op_inputs[graph.tensors[graph.outputs[0]].producer][0];
  for (const TensorId y : graph.outputs) {
    CHECK(choice.op_inputs[graph.tensors[y].producer][0] == first);
  }
  CHECK_THAT(choice.notes.back(), Catch::StartsWith("axis x: of all layouts none has a smaller "));
}

}  // namespace
}  // namespace oneflow
