// The whole front end on a GPT as users train it: what is exchanged, and that there is nothing
// else.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/annotate_model.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

proto::Model Config(int64_t layers) {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(layers);
  config.set_heads(4);
  config.set_hidden(32);
  config.set_sequence(16);
  config.set_vocab(256);
  return config;
}

Graph Logical(const proto::Model& config, const std::string& mesh) {
  Graph graph = *GraphFromProto(BuildModel(config), "gpt");
  graph.outputs.clear();
  graph.mesh = *ParseMesh(mesh);
  return graph;
}

struct BoxOptions {
  int64_t sequences = 4;  // of a micro-batch
  bool split_positions = false;
  bool split_products = false;
  proto::Cluster cluster = {};
  std::vector<std::string>* notes = nullptr;  // of the choice
};

// All passes of a train program with 4 micro-batches a step.
Graph Boxed(Graph graph, const BoxOptions& options = {}) {
  REQUIRE(BindBatch(&graph, options.sequences).ok());
  REQUIRE(CheckAndInferShapes(&graph).ok());
  REQUIRE(Decompose(&graph, 4).ok());
  REQUIRE(PlaceVariables(&graph).ok());
  const auto gradients = Differentiate(&graph, graph.loss).value();
  REQUIRE(AddOptimizer(&graph, gradients).ok());
  const auto choice = InferSbp(&graph, {.micro_batches = 4,
                                        .mirrors = gradients.mirrors,
                                        .cluster = options.cluster,
                                        .split_positions = options.split_positions,
                                        .split_products = options.split_products})
                          .value();
  if (options.notes != nullptr) *options.notes = choice.notes;
  REQUIRE(InsertBoxing(&graph, choice, options.cluster).ok());
  const absl::Status verified = VerifyGraph(graph);
  INFO(verified);
  REQUIRE(verified.ok());
  return graph;
}

using Count = std::map<std::string, int>;

// Boxing ops by kind, of those that fire every micro-batch (or once a step) and move a tensor of a
// block "h.<i>".
std::map<std::string, int> BlockBoxing(const Graph& graph, bool update) {
  std::map<std::string, int> count;
  for (const Op& op : graph.ops) {
    const bool once = op.phase == Phase::kUpdate;
    if (IsBoxing(op.kind) && once == update && op.name.rfind("h.", 0) == 0) ++count[op.kind];
  }
  return count;
}

Graph Boxed(const proto::Model& config, const std::string& mesh) {
  Graph graph = Logical(config, mesh);
  REQUIRE(AnnotateModel(&graph, graph.mesh).ok());
  return Boxed(std::move(graph));
}

// Of a name "h.12.mlp.fc": 12; -1 of any other.
int BlockOfName(const std::string& name) {
  return name.starts_with("h.") ? std::stoi(name.substr(2)) : -1;
}

TEST_CASE("what passes make of a block's ops belongs to the block") {
  Graph graph = Logical(Config(2), "pipe=2,data=2,tensor=2");
  REQUIRE(AnnotateModel(&graph, graph.mesh).ok());
  const Graph boxed = Boxed(std::move(graph));
  for (const Op& op : boxed.ops) {
    INFO(op.name);
    CHECK(op.block == BlockOfName(op.name));
  }
}

TEST_CASE("GPT on data: nothing is exchanged in a micro-batch, every gradient once a step") {
  const Graph graph = Boxed(Config(2), "data=2");
  CHECK(BlockBoxing(graph, false) == Count{});
  CHECK(BlockBoxing(graph, true) == Count{{"all_reduce", 2 * 12}});
}

int AllOf(const Count& count) {
  int all = 0;
  for (const auto& [kind, n] : count) all += n;
  return all;
}

const Tensor& NamedTensor(const Graph& graph, const char* name) {
  return graph.tensors[graph.FindTensor(name)];
}

// All-reduces among the boxing ops, in one step or in two; -1 if there is anything else.
int AllReduces(Count count) {
  const int pieces = count["reduce_scatter"], at_once = count["all_reduce"];
  if (count["all_gather"] != pieces) return -1;
  for (const auto& [kind, n] : count) {
    if (n > 0 && kind != "reduce_scatter" && kind != "all_gather" && kind != "all_reduce")
      return -1;
  }
  return pieces + at_once;
}

TEST_CASE("GPT on tensor: two all_reduces a block forward, two backward") {
  for (const std::string mesh : {"tensor=2", "data=2,tensor=2", "tensor=4"}) {
    INFO(mesh);
    CHECK(AllReduces(BlockBoxing(Boxed(Config(2), mesh), false)) == 2 * 4);
  }
}

// A GPT of which only the weights say how they lie.
Graph WithWeights(const std::string& mesh, int64_t hidden, int64_t sequence = 16) {
  proto::Model config = Config(2);
  config.set_heads(8);
  config.set_hidden(hidden);
  config.set_sequence(sequence);
  Graph graph = Logical(config, mesh);
  REQUIRE(AnnotateModel(&graph, graph.mesh).ok());
  for (const Op& op : graph.ops) {
    if (!IsVariable(op)) graph.tensors[op.outputs[0]].constraint.clear();
  }
  return graph;
}

TEST_CASE("GPT of which only the weights are annotated: Megatron's layout all the same") {
  for (const int64_t hidden : {32, 256}) {
    for (const std::string mesh : {"tensor=2", "tensor=4", "tensor=8"}) {
      INFO(mesh << ", hidden " << hidden);
      const Graph graph = Boxed(WithWeights(mesh, hidden), {.sequences = 1});
      CHECK(AllReduces(BlockBoxing(graph, false)) == 2 * 4);
    }
  }
}

TEST_CASE("GPT of real sizes, weights annotated: Megatron's layout") {
  for (const int64_t hidden : {768, 1600, 4096}) {
    for (const std::string mesh : {"tensor=2", "tensor=8", "data=2,tensor=4"}) {
      INFO(mesh << ", hidden " << hidden);
      const int64_t data = mesh[0] == 'd' ? 2 : 1;
      const Graph graph = Boxed(WithWeights(mesh, hidden, 1024), {.sequences = data});
      Count count = BlockBoxing(graph, false);
      count.erase("slice");  // local: it moves nothing
      CHECK(AllReduces(count) == 2 * 4);
    }
  }
}

TEST_CASE("GPT of real size on two axes: no layout of both together takes 0.2 % less") {
  for (const std::string mesh : {"data=2,tensor=2", "data=2,tensor=4"}) {
    std::vector<std::string> notes;
    Boxed(WithWeights(mesh, 768, 1024), {.sequences = 4, .notes = &notes});
    INFO(mesh << ": " << notes.back());
    REQUIRE_THAT(notes.back(), Catch::StartsWith("all axes together: "));
    const std::string text = "another could have, by at most ";
    const size_t at = notes.back().find(text);
    if (at == std::string::npos) {
      CHECK_THAT(notes.back(), Catch::Contains("none has a smaller sum"));
    } else {
      CHECK(std::stod(notes.back().substr(at + text.size())) < 0.2);
    }
  }
}

TEST_CASE("GPT on context: keys and values are gathered, and the choice is exact at any depth") {
  for (const int64_t layers : {2, 12}) {
    proto::Model config = Config(layers);
    config.set_hidden(1024), config.set_sequence(16384);
    Graph graph = Logical(config, "context=8");
    REQUIRE(AnnotateModel(&graph, graph.mesh).ok());
    REQUIRE(BindBatch(&graph, 1).ok());
    REQUIRE(CheckAndInferShapes(&graph).ok());
    std::vector<std::string> notes;
    REQUIRE(GivePositions(&graph, /*documents=*/false, &notes).ok());
    CHECK(notes.empty());
    const Graph boxed = Boxed(std::move(graph), {.sequences = 1, .notes = &notes});
    CHECK_THAT(notes.back(), Catch::Contains("none has a smaller sum"));
    const Count count = BlockBoxing(boxed, /*update=*/false);
    CHECK(count.at("all_gather") == 2 * layers);
    CHECK(count.at("reduce_scatter") == 2 * layers);
  }
}

// Each all_reduce is taken apart, and what stands between its halves works on a part. The last
// all_gather of the blocks belongs to ln_f.
void CheckHalves(Count count) {
  CHECK(count["reduce_scatter"] == 2 * 4);
  CHECK(count["all_gather"] == 2 * 4 - 1);
  CHECK(count["reduce_scatter"] + count["all_gather"] + count["slice"] + count["all_reduce"] ==
        AllOf(count));
}

TEST_CASE("GPT with the choice: between blocks sequences are split, or positions if they may be") {
  const Graph sequences = Boxed(WithWeights("tensor=4", 1024), {.sequences = 4});
  CheckHalves(BlockBoxing(sequences, false));
  CHECK(NamedTensor(sequences, "h.1.attn.add").sbp[0] == S(0));
  CheckHalves(BlockBoxing(Boxed(WithWeights("tensor=4", 4096, 1024), {.sequences = 4}), false));
  const Graph positions =
      Boxed(WithWeights("tensor=4", 1024), {.sequences = 1, .split_positions = true});
  CheckHalves(BlockBoxing(positions, false));
  for (const char* name : {"h.0.attn.add", "h.1.ln_2", "h.1.mlp.proj"}) {
    CHECK(NamedTensor(positions, name).sbp[0] == S(1));
  }
}

// The boxing of a micro-batch between a weight and what reads it, and of its gradient in the
// update.
int WeightBoxing(const Graph& graph) {
  return static_cast<int>(std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    if (!IsBoxing(op.kind) || op.block < 0 || op.name.find(".ln_") != op.name.npos) return false;
    const bool gradient = op.name.find(".dw") != op.name.npos;
    return gradient || IsVariable(graph.Producer(op.inputs[0]));
  }));
}

TEST_CASE("GPT of many tokens: weights are gathered on tensor, unless products must be split") {
  const Graph free = WithWeights("tensor=4", 64, 64);
  CHECK(WeightBoxing(Boxed(free, {.sequences = 256})) > 0);
  for (const bool positions : {false, true}) {
    const Graph split =
        Boxed(free, {.sequences = 256, .split_positions = positions, .split_products = true});
    CHECK(WeightBoxing(split) == 0);
    for (const Op& op : split.ops) {
      const bool block = op.block >= 0 && op.kind == "linear";
      if (!block) continue;
      INFO(op.name);
      CHECK(split.tensors[op.inputs[1]].sbp[0].split());
    }
  }
}

TEST_CASE("GPT on pipe: an activation goes down, a gradient comes back") {
  const Graph graph = Boxed(Config(4), "pipe=4");
  std::map<Phase, int> transfers;
  for (const Op& op : graph.ops) {
    if (!IsBoxing(op.kind)) continue;
    CHECK(op.kind == "transfer");
    ++transfers[op.phase];
  }
  CHECK(transfers[Phase::kForward] == 3);
  CHECK(transfers[Phase::kBackward] == 3);
}

TEST_CASE("GPT on pipe over slow links: what is whole on tensor crosses in parts") {
  proto::Cluster nodes;
  for (const double bandwidth : {1e11, 1e8}) {
    proto::Level* level = nodes.add_level();
    level->set_size(4);
    level->set_bandwidth(bandwidth);
  }
  Graph annotated = Logical(Config(2), "pipe=2,tensor=4");
  REQUIRE(AnnotateModel(&annotated, annotated.mesh).ok());
  const Graph graph = Boxed(std::move(annotated), {.cluster = nodes});
  int transfers = 0;
  for (const Op& op : graph.ops) {
    if (op.kind != "transfer" || graph.tensors[op.outputs[0]].shape.rank() == 0) continue;
    ++transfers;
    CHECK(graph.tensors[op.outputs[0]].sbp[1].split());
  }
  CHECK(transfers >= 2);
}

TEST_CASE("GPT without annotations, on axes of any name and factoring, is boxed and verified") {
  for (const std::string mesh : {"tensor=2", "x=4", "data=2x2", "a=2,b=2,c=2"}) {
    INFO(mesh);
    CHECK(Boxed(Logical(Config(1), mesh)).ops.size() > 40);
  }
  CHECK(Boxed(Config(1), "data=2x2,tensor=2").ops.size() > 40);
}

TEST_CASE("GPT with whatever constraints on its variables is boxed and verified") {
  std::mt19937 random(7);
  for (int round = 0; round < 16; ++round) {
    Graph graph = Logical(Config(1), "data=2,tensor=2");
    if (round % 2 == 0) {
      REQUIRE(AnnotateModel(&graph, graph.mesh).ok());
    }
    for (const Op& op : graph.ops) {
      if (op.kind != "variable") continue;
      Tensor& w = graph.tensors[op.outputs[0]];
      for (const std::string axis : {"data", "tensor"}) {
        const int choice = static_cast<int>(random() % (w.shape.rank() + 2));
        const Sbp sbp = choice == 0 ? B() : S(choice - 1);
        // Four elements of a dimension of three cannot be had: leave such ones free.
        if (choice > w.shape.rank() || (sbp.split() && w.shape.dims[sbp.dim] < 4)) continue;
        w.constraint[axis] = sbp;
      }
    }
    INFO("round " << round);
    CHECK(Boxed(std::move(graph)).ops.size() > 40);
  }
}

TEST_CASE("every layer of 96 is boxed as every layer of 8") {
  const auto boxing = [](int layers) {
    std::map<std::string, int> count;
    for (const Op& op : Boxed(Config(layers), "pipe=2,data=2,tensor=2").ops) {
      if (IsBoxing(op.kind)) ++count[op.kind];
    }
    return count;
  };
  const auto four = boxing(4), eight = boxing(8), many = boxing(96);
  CHECK(four.at("all_reduce") < eight.at("all_reduce"));
  CHECK(four.size() == many.size());
  for (const auto& [kind, count] : many) {
    INFO(kind);
    CHECK(count == eight.at(kind) + (96 - 8) / 4 * (eight.at(kind) - four.at(kind)));
  }
}

}  // namespace
}  // namespace oneflow
