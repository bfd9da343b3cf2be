#include "oneflow_core/model/add_adapters.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/model/adapters.h"
#include "oneflow_core/model/annotate_model.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/forms.h"

namespace oneflow {
namespace {

constexpr char kSmallGpt[] = "family: 'gpt' layers: 2 heads: 2 hidden: 8 sequence: 4 vocab: 16";
constexpr char kSmallLlama[] =
    "family: 'llama' layers: 2 heads: 4 groups: 2 hidden: 8 inner: 12 head_dim: 2 sequence: 4 "
    "vocab: 16 tied: false";
constexpr char kMixture[] =
    "family: 'llama' layers: 1 heads: 4 groups: 2 hidden: 8 inner: 12 head_dim: 2 sequence: 4 "
    "vocab: 16 experts: 4 shared_inner: 8";

proto::Graph Make(const std::string& model) { return BuildModel(MakeModel(model)); }

proto::Lora ParsedLora(const std::string& text) {
  proto::Lora lora;
  REQUIRE(kLoraForm.parse("--lora", text, &lora).ok());
  return lora;
}

absl::StatusOr<proto::Graph> Add(const std::string& model, const std::string& lora) {
  return AddAdapters(Make(model), ParsedLora(lora));
}

std::string AddError(const std::string& model, const std::string& lora) {
  return std::string(ToStd(Add(model, lora).status().message()));
}

// The variables that are trained, in blocks the first's alone.
std::set<std::string> ListTrained(const proto::Graph& graph) {
  std::set<std::string> names;
  for (const proto::Op& op : graph.op()) {
    const bool frozen = op.attr().contains("frozen") && op.attr().at("frozen").b();
    if (op.kind() == "variable" && !frozen && op.block() == 0) names.insert(op.name());
  }
  return names;
}

std::set<std::string> ListAt(const proto::Graph& graph) {
  std::set<std::string> names;
  for (const Adapter& adapter : ListAdapters(graph)) {
    if (adapter.at.starts_with("h.0.")) names.insert(adapter.at.substr(4));
  }
  return names;
}

using Names = std::set<std::string>;

// Columns are aligned by the names of all ops.
std::string OneBlank(std::string text) {
  text.erase(
      std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      text.end());
  return text;
}

}  // namespace

TEST_CASE("an adapter stands beside its product, and readers read the sum") {
  const proto::Graph graph =
      *Add("family: 'gpt' layers: 1 heads: 2 hidden: 8 sequence: 4 vocab: 16 bias: false",
           "rank:2,alpha:3,targets:fc,dropout:0.25");
  const std::string text = ToText(*GraphFromProto(graph, "one"));
  const size_t begin = text.find("  h.0.mlp.fc.weight"), end = text.find("  h.0.mlp.proj.weight");
  CHECK('\n' + OneBlank(text.substr(begin, end - begin)) == R"(
 h.0.mlp.fc.weight f32[8,32] = variable block=0 frozen=true init=normal init_value=0.02
 h.0.mlp.fc f32[] = linear h.0.ln_2 h.0.mlp.fc.weight block=0
 h.0.mlp.fc.lora_a f32[8,2] = variable block=0 init=uniform init_value=0.35355339059327373
 h.0.mlp.fc.lora_b f32[2,32] = variable block=0 init=zeros
 h.0.mlp.fc.lora_drop f32[] = dropout h.0.ln_2 block=0 rate=0.25
 h.0.mlp.fc.lora_down f32[] = linear h.0.mlp.fc.lora_drop h.0.mlp.fc.lora_a block=0
 h.0.mlp.fc.lora_scale f32[] = multiply h.0.mlp.fc.lora_down block=0 factor=1.5
 h.0.mlp.fc.lora_up f32[] = linear h.0.mlp.fc.lora_scale h.0.mlp.fc.lora_b block=0
 h.0.mlp.fc.lora_sum f32[] = add_delta h.0.mlp.fc h.0.mlp.fc.lora_up block=0
 h.0.mlp.gelu f32[] = gelu h.0.mlp.fc.lora_sum block=0
)");

  CHECK(ListTrained(graph) == Names{"h.0.mlp.fc.lora_a", "h.0.mlp.fc.lora_b"});
  CHECK(CountTrained(graph) == 8 * 2 + 2 * 32);
}

TEST_CASE("targets are names of products, ours and those of files") {
  const auto at = [](const char* model, const char* lora) { return ListAt(*Add(model, lora)); };
  const Names all = {"attn.qkv.q", "attn.qkv.k", "attn.qkv.v", "attn.proj",
                     "mlp.gate",   "mlp.up",     "mlp.proj"};
  CHECK(at(kSmallLlama, "rank:2") == all);
  for (const char* same : {"rank:2,targets:all", "rank:2,targets:all-linear",
                           "rank:2,targets:attn+mlp", "rank:2,targets:self_attn+mlp"}) {
    INFO(same);
    CHECK(at(kSmallLlama, same) == all);
  }
  CHECK(at(kSmallLlama, "rank:2,targets:q_proj+v_proj") == Names{"attn.qkv.q", "attn.qkv.v"});
  CHECK(at(kSmallLlama, "rank:2,targets:q+v+gate") ==
        Names{"attn.qkv.q", "attn.qkv.v", "mlp.gate"});
  CHECK(at(kSmallLlama, "rank:2,targets:o+down") == Names{"attn.proj", "mlp.proj"});
  CHECK(at(kSmallLlama, "rank:2,targets:qkv") == Names{"attn.qkv.q", "attn.qkv.k", "attn.qkv.v"});
  CHECK(at(kSmallGpt, "rank:2") == Names{"attn.qkv", "attn.proj", "mlp.fc", "mlp.proj"});
  CHECK(at(kSmallGpt, "rank:2,targets:c_attn") == Names{"attn.qkv"});
  CHECK(at(kSmallGpt, "rank:2,targets:c_proj") == Names{"attn.proj", "mlp.proj"});
  CHECK(at(kSmallGpt, "rank:2,targets:mlp.proj") == Names{"mlp.proj"});
  CHECK(at(kMixture, "rank:2,targets:shared") ==
        Names{"mlp.shared.gate", "mlp.shared.up", "mlp.shared.proj"});
  CHECK(at(kMixture, "rank:2").size() == 7);
}

TEST_CASE("a weight that packs queries, keys and values has an adapter for each") {
  const proto::Graph message = *Add(kSmallLlama, "rank:2,targets:attn");
  Graph graph = *GraphFromProto(message, "llama");
  REQUIRE(CheckGraph(graph).ok());
  for (Tensor& tensor : graph.tensors) {
    for (int64_t& size : tensor.shape.dims) size = std::max<int64_t>(size, 1);
  }
  REQUIRE(InferShapes(&graph).ok());
  const auto dims = [&](const std::string& name) {
    return graph.tensors[graph.FindTensor("h.1.attn." + name)].shape.dims;
  };
  CHECK(dims("qkv.q.lora_a") == Dims{8, 2});
  CHECK(dims("qkv.q.lora_b") == Dims{2, 2, 2, 2});
  CHECK(dims("qkv.k.lora_b") == Dims{2, 2, 2});
  CHECK(dims("qkv.v.lora_sum") == Dims{1, 4, 2, 2});
  CHECK(dims("proj.lora_a") == Dims{2, 2, 2, 2});
  const std::vector<Adapter> adapters = ListAdapters(message);
  CHECK(adapters[1].weight == "h.0.attn.qkv.weight");
  CHECK(adapters[1].part == 1);
  CHECK(adapters[1].factor == 2);
  CHECK(adapters[3].part == -1);
}

TEST_CASE("the graph of the model comes back") {
  for (const char* model : {kSmallGpt, kSmallLlama, kMixture}) {
    proto::Graph graph = *Add(model, "rank:2,dropout:0.1");
    graph = *TrainOnly(graph, "h.*.attn.proj,wte");
    graph.mutable_base()->set_path("/models/a");
    proto::Graph plain = Make(model);
    FillBlocks(&plain);
    CHECK(GraphFileText(RemoveAdapters(graph)) == GraphFileText(plain));
    CHECK(GraphFileText(*AdaptLike(graph, plain)) == GraphFileText(graph));
  }
}

TEST_CASE("adapters are split over tensor axes as what they adapt is") {
  const auto layouts = [](const proto::Graph& message, const char* mesh) {
    Graph graph = *GraphFromProto(message, "split");
    graph.mesh = *ParseMesh(mesh);
    REQUIRE(AnnotateModel(&graph, graph.mesh, MakeRecipe("")).ok());
    std::map<std::string, std::string> found;
    for (const Tensor& tensor : graph.tensors) {
      if (!tensor.name.starts_with("h.1.") || !IsAdapterName(tensor.name)) continue;
      std::string& text = found[tensor.name.substr(4)];
      for (const Mesh::Axis& axis : graph.mesh.axes) {
        text += ToString(tensor.constraint.at(axis.name));
      }
    }
    return found;
  };
  using Found = std::map<std::string, std::string>;
  CHECK(layouts(*Add(kSmallGpt, "rank:2"), "tensor=2") == Found{{"attn.qkv.lora_a", "B"},
                                                                {"attn.qkv.lora_b", "S(2)"},
                                                                {"attn.proj.lora_a", "S(0)"},
                                                                {"attn.proj.lora_b", "B"},
                                                                {"mlp.fc.lora_a", "B"},
                                                                {"mlp.fc.lora_b", "S(1)"},
                                                                {"mlp.proj.lora_a", "S(0)"},
                                                                {"mlp.proj.lora_b", "B"}});
  CHECK(layouts(*Add(kSmallLlama, "rank:2,targets:attn+up"), "tensor=2x2") ==
        Found{{"attn.qkv.q.lora_a", "BB"},
              {"attn.qkv.q.lora_b", "S(1)B"},
              {"attn.qkv.k.lora_a", "BB"},
              {"attn.qkv.k.lora_b", "S(1)B"},
              {"attn.qkv.v.lora_a", "BB"},
              {"attn.qkv.v.lora_b", "S(1)B"},
              {"attn.proj.lora_a", "S(0)S(1)"},
              {"attn.proj.lora_b", "BB"},
              {"mlp.up.lora_a", "BB"},
              {"mlp.up.lora_b", "S(1)S(1)"}});
}

TEST_CASE("targets without adapters are refused") {
  CHECK(AddError(kSmallLlama, "rank:2,targets:gat") ==
        "--lora: target \"gat\": names no product of the model's blocks; did you mean gate? use "
        "all, attn, mlp, or parts of attn.qkv.q, attn.qkv.k, attn.qkv.v, attn.proj, mlp.gate, "
        "mlp.up, mlp.proj");
  CHECK(AddError(kSmallGpt, "rank:2,targets:attn+lm_head") ==
        "--lora: target \"lm_head\": is an embedding or the head, which have no adapters here; "
        "train it as it is: --train_only=wte or --train_only=head");
  CHECK(AddError(kMixture, "rank:2,targets:mlp") ==
        "--lora: target \"mlp\": names \"mlp.router\": experts of a mixture and their routers have "
        "no adapters; use attn, or parts of attn.qkv.q, attn.qkv.k, attn.qkv.v, attn.proj, "
        "mlp.shared.gate, mlp.shared.up, mlp.shared.proj");
  CHECK(AddError(kMixture, "rank:2,targets:experts").find("experts of a mixture") !=
        std::string::npos);
  const proto::Graph graph = *Add(kSmallGpt, "rank:2");
  CHECK(ToStd(AddAdapters(graph, ParsedLora("rank:2")).status().message()) ==
        "graph \"gpt\": has adapters already; leave --lora out, or give the model itself");
  proto::Graph other = Make(kSmallGpt);
  other.clear_family();
  other.mutable_op(2)->set_name("table");
  CHECK_FALSE(AddAdapters(other, ParsedLora("rank:2")).ok());
  other = Make(kSmallGpt);
  other.add_layout();
  CHECK(ToStd(AddAdapters(other, ParsedLora("rank:2")).status().message()).find("layouts") !=
        std::string_view::npos);
}

TEST_CASE("patterns name the variables that are trained") {
  const auto trained = [](const char* model, const char* patterns) {
    return ListTrained(*TrainOnly(Make(model), patterns));
  };
  CHECK(trained(kSmallGpt, "h.*.ln_*") ==
        Names{"h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.ln_2.weight", "h.0.ln_2.bias"});
  CHECK(trained(kSmallGpt, "h.*.ln_2, *.fc.bias") ==
        Names{"h.0.ln_2.weight", "h.0.ln_2.bias", "h.0.mlp.fc.bias"});
  CHECK(trained(kSmallGpt, "h.1").empty());
  CHECK(trained(kSmallLlama, "model.layers.*.input_layernorm.weight") ==
        Names{"h.0.norm_1.weight"});
  CHECK(trained(kSmallLlama, "model.layers.*.self_attn") ==
        Names{"h.0.attn.qkv.weight", "h.0.attn.proj.weight"});
  CHECK(CountTrained(*TrainOnly(Make(kSmallLlama), "head")) == 16 * 8);
  CHECK(CountTrained(*TrainOnly(Make(kSmallLlama), "lm_head.weight")) == 16 * 8);
  CHECK(CountTrained(*TrainOnly(*Add(kSmallLlama, "rank:2,targets:up"), "norm_f")) ==
        2 * 2 * (8 + 12) + 8);
  const auto error = [](const char* model, const char* patterns) {
    return std::string(ToStd(TrainOnly(Make(model), patterns).status().message()));
  };
  CHECK(error(kSmallLlama, "h.*.norm_3.weight") ==
        "--train_only: pattern \"h.*.norm_3.weight\": names no variable of the model; did you mean "
        "h.*.norm_1.weight? the variables are wte, h.*.norm_1.weight, h.*.attn.qkv.weight, "
        "h.*.attn.proj.weight, h.*.norm_2.weight, h.*.mlp.gate.weight, h.*.mlp.up.weight, "
        "h.*.mlp.proj.weight, norm_f.weight, head.weight");
  CHECK(error(kSmallLlama, "*.q_proj.weight") ==
        "--train_only: pattern \"*.q_proj.weight\": names a part of the variable "
        "\"h.0.attn.qkv.weight\"; a variable is trained as one: write h.0.attn.qkv.weight");
  CHECK(
      error(kSmallGpt, "head.*") ==
      "--train_only: pattern \"head.*\": names no variable of the model; the head of this model is "
      "its embedding: write wte");
  CHECK(error(kSmallGpt, "wte,,wpe") ==
        "--train_only=wte,,wpe: has an empty pattern; write names of variables with commas "
        "between, as in head.*,h.*.ln_*");
}

TEST_CASE("the text of --lora is parsed and printed") {
  for (const char* text : {"rank:16", "rank:16,alpha:32,targets:attn+mlp,dropout:0.05,rslora",
                           "rank:8,alpha:0.5", "rank:1,targets:q"}) {
    CHECK(kLoraForm.print(ParsedLora(text)) == text);
  }
  CHECK(kLoraForm.print(ParsedLora("r:4,target:q,rslora:true,dropout:0")) ==
        "rank:4,targets:q,rslora");
  CHECK(AdapterFactor(ParsedLora("rank:4")) == 2);
  CHECK(AdapterFactor(ParsedLora("rank:4,alpha:6,rslora")) == 3);
  const auto error = [](const char* text) {
    proto::Lora lora;
    return std::string(
        ToStd(kLoraForm.parse(absl::StrCat("--lora=", text), text, &lora).message()));
  };
  const std::string hint =
      "write rank:N, and if wanted alpha:N, targets:attn+mlp, dropout:RATE and rslora, as in "
      "--lora=rank:16,alpha:32,targets:attn+mlp";
  CHECK(error("alpha:3") == "--lora=alpha:3: has no rank; write --lora=rank:16");
  CHECK(error("rank:0") ==
        "--lora=rank:0: has the word rank:0, which is no rank of 1 to 65536; " + hint);
  CHECK(error("rank:4,alpha:-1").find("is no number above 0") != std::string::npos);
  CHECK(error("rank:4,dropout:1").find("is no rate of 0 to 0.999") != std::string::npos);
  CHECK(error("rank:4,targets:").find("names no target") != std::string::npos);
  CHECK(error("rank:4,rslora:2").find("neither true nor false") != std::string::npos);
  CHECK(error("rank:4,r:8") == "--lora=rank:4,r:8: says rank twice; leave one of the two out");
  CHECK(error("rank:4,targets:q,target:v") ==
        "--lora=rank:4,targets:q,target:v: says targets twice; write one, with + between names: "
        "targets:attn+mlp");
  CHECK(error("rank:4,alfa:2") ==
        "--lora=rank:4,alfa:2: has the word alfa:2, which is not known; did you mean alpha? " +
            hint);
}

}  // namespace oneflow
