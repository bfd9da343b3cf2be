#include "oneflow_core/model/annotate_model.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

Graph Gpt(int64_t layers) {
  const proto::Model config = MakeModel(
      absl::StrCat("family: 'gpt' layers: ", layers, " heads: 2 hidden: 8 sequence: 4 vocab: 17"));
  return *GraphFromProto(BuildModel(config), "gpt");
}

Graph Annotated(int64_t layers, const char* mesh, const std::string& flags = "") {
  Graph graph = Gpt(layers);
  REQUIRE(AnnotateModel(&graph, *ParseMesh(mesh), MakeRecipe(flags)).ok());
  return graph;
}

// "data:S(0) tensor:B", axes sorted.
std::string Want(const Graph& graph, const std::string& tensor) {
  std::string text;
  for (const auto& [axis, sbp] : graph.tensors[graph.FindTensor(tensor)].constraint) {
    text += (text.empty() ? "" : " ") + axis + ':' + ToString(sbp);
  }
  return text;
}

// "S(1) states data, gradients data, once data.0"; empty where nothing of it can be split.
std::string Split(const Graph& graph, const std::string& variable) {
  const Op& op = *graph.FindOp(variable);
  std::vector<std::string> parts;
  for (const auto& [attr, word] :
       {std::pair("states", "states "), std::pair("gradients", "gradients "),
        std::pair("reduced", "reduced "), std::pair("gather_once", "once ")}) {
    const std::string axes = AttrString(op, attr);
    if (!axes.empty()) parts.push_back(word + axes);
  }
  if (AttrBool(op, "gather_shared")) parts.push_back("shared");
  if (op.attrs.find("split_dim") == op.attrs.end()) return absl::StrJoin(parts, ", ");
  std::string text = ToString(S(static_cast<int>(AttrInt(op, "split_dim"))));
  if (parts.empty()) return text;
  const bool states = !AttrString(op, "states").empty();
  return text + (states ? " " : ", ") + absl::StrJoin(parts, ", ");
}

int FindStage(const Graph& graph, const char* op) { return graph.FindOp(op)->stage; }

std::string Error(Graph graph, const char* mesh) {
  return std::string(ToStd(AnnotateModel(&graph, *ParseMesh(mesh)).message()));
}

}  // namespace

TEST_CASE("tensor parallelism: by heads, columns, rows and words") {
  const Graph graph = Annotated(1, "data=2,tensor=2");
  CHECK(Want(graph, "tokens") == "data:S(0) tensor:B");
  CHECK(Want(graph, "labels") == "data:S(0) tensor:B");
  CHECK(Want(graph, "wte") == "data:B tensor:S(0)");
  CHECK(Want(graph, "wpe") == "data:B tensor:B");
  CHECK(Want(graph, "embed") == "data:S(0) tensor:B");
  CHECK(Want(graph, "h.0.ln_1.weight") == "data:B tensor:B");
  CHECK(Want(graph, "h.0.attn.qkv.weight") == "data:B tensor:S(2)");
  CHECK(Want(graph, "h.0.attn.qkv.bias") == "data:B tensor:S(1)");
  CHECK(Want(graph, "h.0.attn.proj.weight") == "data:B tensor:S(0)");
  CHECK(Want(graph, "h.0.attn.proj.bias") == "data:B tensor:B");
  CHECK(Want(graph, "h.0.attn.add") == "data:S(0) tensor:B");
  CHECK(Want(graph, "h.0.mlp.fc.weight") == "data:B tensor:S(1)");
  CHECK(Want(graph, "h.0.mlp.fc.bias") == "data:B tensor:S(0)");
  CHECK(Want(graph, "h.0.mlp.proj.weight") == "data:B tensor:S(0)");
  CHECK(Want(graph, "h.0.mlp.proj.bias") == "data:B tensor:B");
  CHECK(Want(graph, "h.0.mlp.add") == "data:S(0) tensor:B");
  CHECK(Want(graph, "h.0.attn.qkv") == "");
  CHECK(Want(graph, "logits") == "");
  CHECK(Want(graph, "loss") == "");
}

TEST_CASE("the factors of an axis are axes of its kind, other axes stay free") {
  const Graph graph = Annotated(1, "data=2x2,other=2");
  CHECK(Want(graph, "tokens") == "data.0:S(0) data.1:S(0)");
  CHECK(Want(graph, "h.0.mlp.fc.weight") == "data.0:B data.1:B");
}

TEST_CASE("stages take blocks in order, the first ones one more") {
  const Graph graph = Annotated(5, "pipe=2,data=2");
  CHECK(FindStage(graph, "tokens") == 0);
  CHECK(FindStage(graph, "wte") == 0);
  CHECK(FindStage(graph, "embed.tokens") == 0);
  CHECK(FindStage(graph, "h.2.mlp.add") == 0);
  CHECK(FindStage(graph, "h.2.mlp.proj.weight") == 0);
  CHECK(FindStage(graph, "h.3.ln_1.weight") == 1);
  CHECK(FindStage(graph, "h.3.ln_1") == 1);
  CHECK(FindStage(graph, "h.4.attn.core") == 1);
  CHECK(FindStage(graph, "ln_f") == 1);
  CHECK(FindStage(graph, "logits") == 1);
  CHECK(FindStage(graph, "labels") == 1);
  CHECK(FindStage(graph, "loss") == 1);
  CHECK(Want(graph, "tokens") == "data:S(0)");
}

TEST_CASE("a large vocabulary leaves the last stage fewer blocks") {
  // GPT-2 124M: its head has the flops of five blocks and a half.
  Graph graph = *GraphFromProto(BuildModel(MakeModel("family: 'gpt' preset: 'gpt2-124m'")), "gpt");
  REQUIRE(AnnotateModel(&graph, *ParseMesh("pipe=2")).ok());
  CHECK(FindStage(graph, "h.7.mlp.add") == 0);
  CHECK(FindStage(graph, "h.9.ln_1") == 1);
}

TEST_CASE("with positions split the residual stream is free on tensor axes, inputs are not") {
  Graph graph = Gpt(1);
  REQUIRE(
      AnnotateModel(&graph, *ParseMesh("data=2,tensor=2"), MakeRecipe("--sequence_parallel")).ok());
  CHECK(Want(graph, "h.0.attn.add") == "data:S(0)");
  CHECK(Want(graph, "embed") == "data:S(0)");
  CHECK(Want(graph, "tokens") == "data:S(0) tensor:B");
}

TEST_CASE("a stage may be one block; less is refused with the numbers") {
  CHECK(FindStage(Annotated(4, "pipe=4"), "h.3.ln_1") == 3);
  CHECK(Error(Gpt(2), "pipe=4") ==
        "pipe=4: is more stages than the 2 layers of \"gpt\"; use pipe=2 or less");
}

TEST_CASE("places take the layers that they are told, the ends none where they shall have none") {
  Graph graph = Gpt(2);
  const proto::Recipe recipe = MakeRecipe("--stage_layers=0,1,1,0");
  REQUIRE(AnnotateModel(&graph, *ParseMesh("pipe=2"), recipe, /*chunks=*/2).ok());
  CHECK(FindStage(graph, "embed") == 0);
  CHECK(FindStage(graph, "wte") == 0);
  CHECK(FindStage(graph, "h.0.ln_1.weight") == 1);
  CHECK(FindStage(graph, "h.1.mlp.add") == 2);
  CHECK(FindStage(graph, "ln_f.weight") == 3);
  CHECK(FindStage(graph, "labels") == 3);
  CHECK(FindStage(graph, "loss") == 3);
}

TEST_CASE("layers of places that do not fit the model are refused") {
  const auto error = [](Graph graph, const std::string& layers) {
    const proto::Recipe recipe = MakeRecipe("--stage_layers=" + layers);
    return std::string(ToStd(AnnotateModel(&graph, *ParseMesh("pipe=3"), recipe).message()));
  };
  CHECK(error(Gpt(4), "2,2") ==
        "--stage_layers=2,2: has 2 numbers; write one for each of the 3 places along the pipe: "
        "stages times chunks");
  CHECK(error(Gpt(4), "2,0,2") ==
        "--stage_layers=2,0,2: gives place 1 0 layers; use 1 or more; only the first place and the "
        "last may have none");
  CHECK(error(Gpt(4), "1,2,2") == "--stage_layers=1,2,2: adds up to 5 layers; the model has 4");
  Graph staged = Gpt(4);
  staged.ops.back().stage = 1;
  CHECK(error(std::move(staged), "1,2,1").find("has stages of its own") != std::string::npos);
  CHECK(error(*ParseGraphText(R"(op { name: "x" kind: "input" shape { dim { size: 8 } } })"), "1")
            .find("counts the layers of a model, and") != std::string::npos);
}

TEST_CASE("a family that there is not is refused") {
  Graph graph = Gpt(1);
  graph.family = "bert";
  CHECK(Error(graph, "data=2").starts_with("graph \"gpt\": is of family \"bert\"; the families"));
}

TEST_CASE("each part of a tensor axis gets a head") {
  CHECK(Error(Gpt(1), "tensor=2x2") ==
        "tensor=4: is more parts than the 2 of heads in \"h.0.attn.qkv.weight\" [8,3,2,4]; "
        "use tensor=2 or less");
}

// Two layers of four query heads in two groups.
Graph TinyLlama(bool grouped = true) {
  proto::Model config = MakeModel("family: 'llama' preset: 'llama-tiny'");
  config.set_qkv_bias(true), config.set_qk_norm(true);
  if (!grouped) config.set_groups(1);
  return *GraphFromProto(BuildModel(config), "llama");
}

TEST_CASE("tensor parallelism of Llama: by groups, columns, rows and words") {
  Graph graph = TinyLlama();
  REQUIRE(AnnotateModel(&graph, *ParseMesh("pipe=2,data=2,tensor=2")).ok());
  const std::pair<const char*, const char*> wants[] = {
      {"tokens", "data:S(0) tensor:B"},
      {"wte", "data:B tensor:S(0)"},
      {"embed", "data:S(0) tensor:B"},
      {"h.0.norm_1.weight", "data:B tensor:B"},
      {"h.0.attn.qkv.weight", "data:B tensor:S(1)"},
      {"h.0.attn.qkv.bias", "data:B tensor:S(0)"},
      {"h.0.attn.q_norm.weight", "data:B tensor:B"},
      {"h.0.attn.proj.weight", "data:B tensor:S(0)"},
      {"h.0.attn.add", "data:S(0) tensor:B"},
      {"h.1.mlp.gate.weight", "data:B tensor:S(1)"},
      {"h.1.mlp.up.weight", "data:B tensor:S(1)"},
      {"h.1.mlp.proj.weight", "data:B tensor:S(0)"},
      {"h.1.mlp.add", "data:S(0) tensor:B"},
      {"norm_f.weight", "data:B tensor:B"},
      {"h.0.attn.core", ""},
      {"norm_f", ""}};
  for (const auto& [tensor, want] : wants) {
    INFO(tensor);
    CHECK(Want(graph, tensor) == want);
  }
  CHECK(FindStage(graph, "embed") == 0);
  CHECK(FindStage(graph, "h.0.mlp.add") == 0);
  CHECK(FindStage(graph, "h.1.norm_1.weight") == 1);
  CHECK(FindStage(graph, "norm_f.weight") == 1);
}

TEST_CASE("factors beyond the groups split the query heads of a group, not its key and value") {
  Graph graph = TinyLlama();
  REQUIRE(AnnotateModel(&graph, *ParseMesh("tensor=2x2")).ok());
  CHECK(Want(graph, "h.0.attn.qkv.weight") == "tensor.0:S(1) tensor.1:B");
  CHECK(Want(graph, "h.0.attn.qkv.bias") == "tensor.0:S(0) tensor.1:B");
  CHECK(Want(graph, "h.0.attn.proj.weight") == "tensor.0:S(0) tensor.1:S(1)");
  CHECK(Want(graph, "h.0.mlp.gate.weight") == "tensor.0:S(1) tensor.1:S(1)");
  CHECK(Want(graph, "wte") == "tensor.0:S(0) tensor.1:S(0)");
  CHECK(Want(graph, "h.0.attn.add") == "tensor.0:B tensor.1:B");
  // With one group there is no group to split.
  graph = TinyLlama(/*grouped=*/false);
  REQUIRE(AnnotateModel(&graph, *ParseMesh("tensor=4")).ok());
  CHECK(Want(graph, "h.0.attn.qkv.weight") == "tensor:B");
  CHECK(Want(graph, "h.0.attn.proj.weight") == "tensor:S(1)");
}

TEST_CASE("more parts than groups are refused with the factors that work") {
  CHECK(
      Error(TinyLlama(), "tensor=4") ==
      "tensor=4: is more parts than the 2 of groups in \"h.0.attn.qkv.weight\" [32,2,4,8]; write "
      "--mesh=tensor=2x2: the first factor splits the groups, the second the query heads of each");
  const std::string none =
      "; use tensor=2 or less, or two factors, of the groups and of the 2 query heads of each";
  CHECK(Error(TinyLlama(), "tensor=8") ==
        "tensor=8: is more parts than the 2 of groups in \"h.0.attn.qkv.weight\" [32,2,4,8]" +
            none);
  CHECK(Error(TinyLlama(), "tensor=2x4") ==
        "tensor=8: is more parts than the 2 of groups in \"h.0.attn.qkv.weight\" [32,2,4,8]" +
            none);
}

TEST_CASE("what the user wrote wins") {
  Graph graph = Gpt(2);
  graph.tensors[graph.FindTensor("h.0.attn.add")].constraint = {{"tensor", S(1)}};
  graph.ops[graph.tensors[graph.FindTensor("loss")].producer].stage = 1;
  REQUIRE(AnnotateModel(&graph, *ParseMesh("pipe=2,data=2,tensor=2")).ok());
  CHECK(Want(graph, "h.0.attn.add") == "data:S(0) tensor:S(1)");
  CHECK(FindStage(graph, "h.1.ln_1") == 0);
  CHECK(FindStage(graph, "loss") == 1);
}

TEST_CASE("a constraint on an axis covers its factors") {
  Graph graph = Gpt(1);
  graph.tensors[graph.FindTensor("wte")].constraint = {{"data", S(1)}};
  graph.tensors[graph.FindTensor("wpe")].constraint = {{"data.1", S(1)}};
  REQUIRE(AnnotateModel(&graph, *ParseMesh("data=2x2")).ok());
  CHECK(Want(graph, "wte") == "data:S(1)");
  CHECK(Want(graph, "wpe") == "data.0:B data.1:S(1)");
}

TEST_CASE("a graph that is no GPT gets its batch split, and no more") {
  const char* text = R"(
    op { name: "x" kind: "input" shape { dim { name: "batch" } dim { size: 8 } } }
    op { name: "y" kind: "input" shape { dim { size: 8 } } }
    op { name: "w" kind: "variable" shape { dim { size: 8 } dim { size: 8 } } }
    op { name: "fc" kind: "linear" input: "x" input: "w" })";
  Graph graph = *ParseGraphText(text);
  REQUIRE(AnnotateModel(&graph, *ParseMesh("pipe=2,data=2,tensor=4")).ok());
  CHECK('\n' + ToText(graph) == R"(
graph mesh=1 ops=4 boxing=0
  x   f32[batch,8]  = input       want=data:S(0)
  y   f32[8]        = input
  w   f32[8,8]      = variable    split_dim=0
  fc  f32[]         = linear x w
)");
  // The states of variables are split where that was asked for; readers take them as before.
  REQUIRE(AnnotateModel(&graph, *ParseMesh("data=2,tensor=4"), MakeRecipe("--shard=states")).ok());
  CHECK(Want(graph, "w").empty());
  CHECK(Split(graph, "w") == "S(0) states data, once data");
}

TEST_CASE("what is split of variables is split where no tensor axis does, as evenly as can be") {
  // Of 17 words, 8 of hidden, 2 heads of 4, 4 positions and 32 inside.
  const Graph plain = Annotated(1, "data=4,tensor=2");
  for (const auto& [shard, rest] : {std::pair("states", " states data, once data"),
                                    std::pair("weights", " states data, gradients data")}) {
    const Graph graph = Annotated(1, "data=4,tensor=2", std::string("--shard=") + shard);
    for (const auto& [variable, split] :
         std::map<std::string, std::string>{{"wte", "S(1)"},
                                            {"wpe", "S(0)"},
                                            {"h.0.ln_1.weight", "S(0)"},
                                            {"h.0.attn.qkv.weight", "S(0)"},
                                            {"h.0.attn.qkv.bias", "S(2)"},  // [3,2,4]
                                            {"h.0.mlp.fc.weight", "S(0)"},
                                            {"h.0.mlp.proj.weight", "S(1)"},
                                            {"h.0.mlp.proj.bias", "S(0)"}}) {
      INFO(variable);
      CHECK(Split(graph, variable) == split + rest);
      CHECK(Split(plain, variable) == split);  // the dimension is known without a split
    }
    // No layout in which the model computes is another.
    for (const Tensor& tensor : plain.tensors) {
      INFO(tensor.name);
      CHECK(Want(graph, tensor.name) == Want(plain, tensor.name));
    }
  }
}

TEST_CASE("of dimensions that cannot be split evenly the one with the smallest largest part") {
  // 17 words on 5 devices: 4 of 17; 8 of hidden: 2 of 8; 4 positions: too few.
  const Graph graph = Annotated(1, "data=5");
  CHECK(Split(graph, "wte") == "S(0)");
  CHECK(Split(graph, "wpe") == "S(1)");
  CHECK(Split(graph, "h.0.mlp.fc.weight") == "S(1)");    // [8,32]
  CHECK(Split(graph, "h.0.mlp.proj.weight") == "S(0)");  // [32,8]
}

TEST_CASE("variables that no dimension allows to be split stay whole") {
  const Graph graph = Annotated(1, "data=10,tensor=2", "--shard=weights");
  CHECK(Split(graph, "wte") == "reduced data");
  // Its gradient is reduced when those of others are.
  CHECK(Split(graph, "h.0.mlp.fc.bias") == "reduced data");
  CHECK(Want(graph, "wte") == "data:B tensor:S(0)");
}

TEST_CASE("each layout has its axes, and weights at rest are gathered once over the others") {
  const auto split = [](const char* mesh, const char* flags) {
    return Split(Annotated(1, mesh, flags), "h.0.mlp.fc.weight");
  };
  CHECK(split("data=2x2,tensor=2", "--shard=states") ==
        "S(0) states data.0,data.1, once data.0,data.1");
  CHECK(split("data=2x2", "--shard=states:data,gradients:data,weights:data.1") ==
        "S(0) states data.0,data.1, gradients data.0,data.1, once data.0");
  CHECK(split("data=4", "--shard=gradients") == "S(0) states data, gradients data, once data");
  CHECK(split("tensor=2", "--shard=weights").empty());
  CHECK(split("data=4", "--shard=weights --gather=once") ==
        "S(0) states data, gradients data, once data");
  CHECK(split("data=4", "--shard=weights --gather=each_micro_batch") ==
        "S(0) states data, gradients data, shared");
  CHECK(split("data=2x2", "--reduce=each_micro_batch:data.1") == "S(0), reduced data.1");
}

TEST_CASE("what the user wrote of variables wins, and is gathered once a step where it is split") {
  Graph graph = Gpt(1);
  const auto ask = [&](const char* variable, std::map<std::string, Sbp> constraint) {
    graph.tensors[graph.FindTensor(variable)].constraint = std::move(constraint);
  };
  ask("wte", {{"data", B()}});
  ask("wpe", {{"data", S(1)}});
  ask("h.0.mlp.fc.weight", {{"data.1", B()}});
  ask("h.0.mlp.proj.weight", {{"other", S(0)}});
  ask("h.0.mlp.proj.bias", {{"data.0", S(0)}, {"data.1", B()}});
  graph.ops[graph.tensors[graph.FindTensor("h.0.ln_1.weight")].producer].attrs["gather_once"] =
      std::string("data.1");
  REQUIRE(AnnotateModel(&graph, *ParseMesh("data=2x2,other=2"), MakeRecipe("--shard=states")).ok());
  CHECK(Want(graph, "wte") == "data:B");
  CHECK(Split(graph, "wte") == "S(1)");
  CHECK(Want(graph, "wpe") == "data:S(1)");
  CHECK(Split(graph, "wpe") == "S(0), once data.0,data.1");
  CHECK(Want(graph, "h.0.mlp.fc.weight") == "data.0:B data.1:B");
  CHECK(Split(graph, "h.0.mlp.fc.weight") == "S(0) states data.0, once data.0");
  CHECK(Split(graph, "h.0.mlp.proj.weight") == "S(1) states data.0,data.1, once data.0,data.1");
  CHECK(Split(graph, "h.0.mlp.proj.bias") == "S(0), once data.0");
  CHECK(Split(graph, "h.0.ln_1.weight") == "S(0) states data.0,data.1, once data.1");
}

namespace {

Graph Mixture(double slots = 0, int64_t slot_groups = 8) {
  proto::Model config = MakeModel("family: 'llama' preset: 'llama-tiny'");
  config.set_experts(8), config.set_expert_bias(true);
  if (slots > 0) config.set_slots(slots), config.set_slot_groups(slot_groups);
  return *GraphFromProto(BuildModel(config), "llama");
}

proto::Recipe ExpertsOn(const std::string& axis) {
  return MakeRecipe(axis.empty() ? "" : "--experts=" + axis);
}

std::string Refused(Graph graph, const char* mesh, const std::string& experts = "") {
  const absl::Status status = AnnotateModel(&graph, *ParseMesh(mesh), ExpertsOn(experts));
  return std::string(ToStd(status.message()));
}

}  // namespace

TEST_CASE("experts lie on their axis, in as many groups, and are computed there") {
  struct Case {
    const char* mesh;
    const char* experts;
    const char* gate;  // of a weight, and what its product gives
    int64_t groups;
  };
  for (const Case& c : {Case{"data=2,expert=4", "", "data:B expert:S(0)", 4},
                        Case{"data=2x2", "data.1", "data.0:B data.1:S(0)", 2},
                        Case{"data=2,tensor=2", "", "data:B tensor:S(2)", 1},
                        Case{"expert=2,tensor=2", "", "expert:S(0) tensor:S(2)", 2}}) {
    INFO(c.mesh);
    Graph graph = Mixture();
    REQUIRE(AnnotateModel(&graph, *ParseMesh(c.mesh), ExpertsOn(c.experts)).ok());
    CHECK(Want(graph, "h.0.mlp.experts.gate.weight") == c.gate);
    CHECK(Want(graph, "h.0.mlp.experts.gate") ==
          (c.groups == 1 ? "" : std::string(c.experts[0] != 0 ? c.experts : "expert") + ":S(0)"));
    for (const char* op : {"h.1.mlp.route", "h.1.mlp.dispatch", "h.1.mlp.combine"}) {
      CHECK(AttrInt(*graph.FindOp(op), "groups", 1) == c.groups);
    }
  }
  // The last product of an expert is partial where devices split its width.
  Graph biased = Mixture();
  REQUIRE(AnnotateModel(&biased, *ParseMesh("expert=2,tensor=2"), {}).ok());
  CHECK(Want(biased, "h.1.mlp.experts.up.bias") == "expert:S(0) tensor:S(1)");
  CHECK(Want(biased, "h.1.mlp.experts.proj.bias") == "expert:S(0) tensor:B");
  // An axis of experts splits the batch, and what full queues drop is the model's.
  Graph graph = Mixture(1.25);
  REQUIRE(AnnotateModel(&graph, *ParseMesh("expert=4"), {}).ok());
  CHECK(Want(graph, "tokens") == "expert:S(0)");
  CHECK(AttrInt(*graph.FindOp("h.0.mlp.dispatch"), "groups") == 8);
  CHECK(AttrInt(*graph.FindOp("h.0.mlp.dispatch"), "parts") == 4);
}

TEST_CASE("experts are split where some blocks have none") {
  proto::Model config = MakeModel(
      "family: 'llama' preset: 'llama-tiny' layers: 3 experts: 8 blocks { classes { name: 'dense' "
      "numbers { experts: 0 } } classes { name: 'mixture' } run { count: 1 } run { index: 1 } }");
  Graph graph = *GraphFromProto(BuildModel(config), "llama");
  REQUIRE(AnnotateModel(&graph, *ParseMesh("expert=4,tensor=2"), {}).ok());
  CHECK(Want(graph, "tokens") == "expert:S(0) tensor:B");
  CHECK(Want(graph, "h.0.mlp.gate.weight") == "expert:B tensor:S(1)");
  CHECK(Want(graph, "h.2.mlp.experts.gate.weight") == "expert:S(0) tensor:S(2)");
  CHECK(AttrInt(*graph.FindOp("h.2.mlp.dispatch"), "groups") == 4);
  PriceQueues(2, &graph);
  CHECK(AttrDouble(*graph.FindOp("h.1.mlp.dispatch"), "imbalance") == 2);
}

TEST_CASE("queues are priced where devices split experts of a mixture that drops nothing") {
  const auto price = [](Graph graph, const char* mesh) {
    REQUIRE(AnnotateModel(&graph, *ParseMesh(mesh), {}).ok());
    PriceQueues(2.5, &graph);
    return absl::StrCat(AttrDouble(*graph.FindOp("h.1.mlp.route"), "imbalance"), " ",
                        AttrDouble(*graph.FindOp("h.0.mlp.combine"), "imbalance"), " ",
                        AttrDouble(*graph.FindOp("h.0.mlp.experts.up"), "load"));
  };
  CHECK(price(Mixture(), "data=2,expert=2") == "2.5 2.5 2");
  CHECK(price(Mixture(), "data=2") == "0 0 0");
  CHECK(price(Mixture(1.25), "expert=2") == "0 0 0");
  CHECK(BusiestLoad(1) == 1);
  CHECK(BusiestLoad(kUsualImbalance) == 1);
}

TEST_CASE("states of experts are split over the axes that do not split the experts") {
  Graph graph = Mixture();
  REQUIRE(AnnotateModel(&graph, *ParseMesh("data=2,expert=2"), MakeRecipe("--shard=states")).ok());
  CHECK(Split(graph, "h.0.mlp.experts.up.weight") == "S(1) states data, once data");
  CHECK(Split(graph, "h.0.mlp.router.weight") == "S(0) states data,expert, once data,expert");
}

TEST_CASE("a split of experts that cannot be is refused") {
  CHECK(Refused(Mixture(), "expert=3") ==
        "mesh axis expert of 3 parts: does not divide the 8 experts of \"h.0.mlp.route\"; use a "
        "divisor");
  CHECK(Refused(Mixture(1.25, 2), "expert=4") ==
        "mesh axis expert of 4 parts: does not divide the 2 groups of experts of "
        "\"h.0.mlp.route\"; use a divisor, or a model with --slot_groups=4");
  CHECK(Refused(Mixture(1.25, 2), "expert=3") ==
        "mesh axis expert of 3 parts: does not divide the 2 groups of experts of "
        "\"h.0.mlp.route\"; use a divisor");
  CHECK(Refused(Mixture(), "data=2", "data.1") ==
        "--experts=data.1: is no axis of the mesh data=2; use expert, data, or a factor of it: "
        "data.1 of --mesh=data=2x4");
  CHECK(Refused(Gpt(1), "data=2", "data") ==
        "--experts=data: splits experts, and \"gpt\" has none; leave it out");
}

}  // namespace oneflow
