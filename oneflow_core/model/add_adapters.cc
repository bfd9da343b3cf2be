#include "oneflow_core/model/add_adapters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_builder.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/adapters.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

using Ops = std::map<std::string, const proto::Op*>;

constexpr char kWeightEnd[] = ".weight";
// Every product of the blocks that can have an adapter.
constexpr std::string_view kAllProducts[] = {"all", "all-linear"};
// Words of targets that name an embedding or a head.
constexpr std::string_view kNoProducts[] = {"wte",  "wpe",     "embed", "embed_tokens",
                                            "head", "lm_head", "logits"};

// A product that an adapter may be added to: one of a weight, or of a part of it.
struct Site {
  const proto::Op* product = nullptr;
  std::string at;                  // "h.3.attn.qkv.q"
  std::string output;              // the tensor that the adapter adds to
  std::vector<NamedDim> in, out;   // dimensions of the product
  std::vector<std::string> names;  // within the block, ours and that of files: "mlp.gate"
  bool refused = false;            // of an expert, or a router
};

bool Flag(const proto::Op& op, const char* attr) {
  const auto it = op.attr().find(attr);
  return it != op.attr().end() && it->second.b();
}

// "mlp.gate_proj" of "layers.*.mlp.gate_proj.weight".
std::string NameInBlock(std::string_view tensor) {
  const size_t star = tensor.find("*.");
  std::string name(star == tensor.npos ? tensor : tensor.substr(star + 2));
  if (name.ends_with(kWeightEnd)) name.resize(name.size() - std::string_view(kWeightEnd).size());
  return name;
}

// True if the words of `target`, between dots, stand one behind the other in `name`: "q" in
// "attn.qkv.q". "q" is also short for "q_proj".
bool NamesProduct(const std::string& target, const std::string& name) {
  const std::vector<std::string> asked = absl::StrSplit(target, '.');
  const std::vector<std::string> words = absl::StrSplit(name, '.');
  return std::search(words.begin(), words.end(), asked.begin(), asked.end(),
                     [](const std::string& word, const std::string& a) {
                       return word == a || word == a + "_proj";
                     }) != words.end();
}

bool IsNamed(const Site& site, const std::string& target) {
  return std::any_of(site.names.begin(), site.names.end(),
                     [&](const std::string& name) { return NamesProduct(target, name); });
}

NamedDims ListDims(const proto::Op& variable) {
  NamedDims dims;
  for (const auto& dim : variable.shape().dim()) dims.emplace_back(dim.name(), dim.size());
  return dims;
}

// The products of a family's blocks.
class Sites {
 public:
  Sites(const proto::Graph& graph, const Family& family) : family_(family) {
    for (const proto::Op& op : graph.op()) ops_.emplace(op.name(), &op);
    for (const proto::Op& op : graph.op()) {
      const OpDef* def = FindOpDef(op.kind());
      const bool parts = def != nullptr && def->outputs == std::size(kAdapterParts);
      if (parts && op.input_size() == 1) splits_.emplace(op.input(0), &op);
    }
    for (const proto::Op& op : graph.op()) Take(op);
  }

  const std::vector<Site>& list() const { return list_; }

 private:
  void Take(const proto::Op& op) {
    const auto weight = op.input_size() < 2 ? ops_.end() : ops_.find(op.input(1));
    if (!op.has_block() || weight == ops_.end() || weight->second->kind() != "variable") return;
    const std::string begin = absl::StrCat("h.", op.block(), "."), &name = weight->first;
    const bool product = op.kind() == "linear" || op.kind() == "expert_linear";
    if (!product || !name.starts_with(begin) || !name.ends_with(kWeightEnd) ||
        Flag(op, "transpose_w")) {
      return;
    }
    Site site{.product = &op, .output = op.name()};
    site.at = name.substr(0, name.size() - std::string_view(kWeightEnd).size());
    site.names = {site.at.substr(begin.size())};
    // A weight of experts, and a router, which computes in f32 (`wide`).
    site.refused = op.kind() != "linear" || Flag(op, "wide");
    int64_t block = -1;
    const VariableParts* row = FindParts(*family_.files, name, &block);
    const auto contract = op.attr().find("contract");
    const int64_t in = contract == op.attr().end() ? 1 : contract->second.i();
    const NamedDims dims = ListDims(*weight->second);
    site.in.assign(dims.begin(), dims.begin() + in);
    site.out.assign(dims.begin() + in, dims.end());
    const auto split = splits_.find(op.name());
    if (row != nullptr && row->parts.size() == std::size(kAdapterParts) && split != splits_.end()) {
      return TakeParts(*row, site, split->second->name());
    }
    if (row != nullptr) site.names.push_back(NameInBlock(row->parts[0].tensor));
    list_.push_back(std::move(site));
  }

  // Queries, keys and values, which are outputs of `split`.
  void TakeParts(const VariableParts& row, const Site& packed, const std::string& split) {
    Dims sizes;
    for (const NamedDim& dim : packed.in) sizes.push_back(dim.size);
    for (const NamedDim& dim : packed.out) sizes.push_back(dim.size);
    for (size_t i = 0; i < row.parts.size(); ++i) {
      const FilePart& part = row.parts[i];
      const auto along = static_cast<size_t>(part.axis) - packed.in.size();
      Site site = packed;
      const int64_t size = PartBox(part, sizes, 0).size[part.axis];
      // Keys and values have one head in a group, and no dimension for it.
      if (i == 0) site.out[along] = {"heads", size};
      if (i > 0) site.out.erase(site.out.begin() + static_cast<int64_t>(along));
      site.at += kAdapterParts[i];
      site.output = i == 0 ? split : absl::StrCat(split, ":", i);
      site.names = {packed.names[0] + std::string(kAdapterParts[i]), NameInBlock(part.tensor)};
      list_.push_back(std::move(site));
    }
  }

  const Family& family_;
  Ops ops_;
  std::map<std::string, const proto::Op*> splits_;  // into queries, keys and values; by their input
  std::vector<Site> list_;
};

// The names within a block of what can have an adapter, each once.
std::vector<std::string> ListNames(const std::vector<Site>& sites, bool of_files) {
  std::vector<std::string> names;
  for (const Site& site : sites) {
    if (site.refused || site.names.size() <= (of_files ? 1 : 0)) continue;
    const std::string& name = site.names[of_files ? 1 : 0];
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

absl::Status UnknownTarget(const std::string& target, const std::vector<Site>& sites) {
  std::vector<std::string> known = ListNames(sites, false);
  std::vector<std::string> words = {"attn", "mlp", "all"};
  for (const bool of_files : {false, true}) {
    for (const std::string& name : ListNames(sites, of_files)) {
      const std::vector<std::string> of_name = absl::StrSplit(name, '.');
      words.insert(words.end(), of_name.begin(), of_name.end());
    }
  }
  const std::string nearest = Nearest(target, words);
  return InputError(
      absl::StrCat("--lora: target \"", target, "\""), "names no product of the model's blocks",
      absl::StrCat(nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "? "),
                   "use all, attn, mlp, or parts of ", absl::StrJoin(known, ", ")));
}

// The sites that the targets name, in the order of the graph.
absl::StatusOr<std::vector<Site>> ChooseSites(const std::vector<Site>& sites,
                                              const proto::Lora& lora) {
  std::set<std::string> chosen;
  const auto choose = [&](const auto& wanted) {
    for (const Site& site : sites) {
      if (!site.refused && wanted(site)) chosen.insert(site.at);
    }
  };
  if (lora.target().empty()) choose([](const Site&) { return true; });
  for (const std::string& target : lora.target()) {
    const std::string where = absl::StrCat("--lora: target \"", target, "\"");
    if (std::find(std::begin(kNoProducts), std::end(kNoProducts), target) !=
        std::end(kNoProducts)) {
      return InputError(where, "is an embedding or the head, which have no adapters here",
                        "train it as it is: --train_only=wte or --train_only=head");
    }
    const bool all = std::find(std::begin(kAllProducts), std::end(kAllProducts), target) !=
                     std::end(kAllProducts);
    const auto wanted = [&](const Site& site) { return all || IsNamed(site, target); };
    const auto refused = std::find_if(
        sites.begin(), sites.end(), [&](const Site& site) { return site.refused && wanted(site); });
    if (refused != sites.end()) {
      return InputError(
          where,
          absl::StrCat("names \"", refused->names[0],
                       "\": experts of a mixture and their routers have no adapters"),
          absl::StrCat("use attn, or parts of ", absl::StrJoin(ListNames(sites, false), ", ")));
    }
    const size_t before = chosen.size();
    choose(wanted);
    if (chosen.size() == before && std::none_of(sites.begin(), sites.end(), wanted)) {
      return UnknownTarget(target, sites);
    }
  }
  std::vector<Site> result;
  std::copy_if(sites.begin(), sites.end(), std::back_inserter(result),
               [&](const Site& site) { return chosen.contains(site.at); });
  return result;
}

// The ops of one adapter, as if they stood where its product does.
std::vector<proto::Op> MakeAdapter(const Site& site, const proto::Lora& lora) {
  using Value = GraphBuilder::Value;
  GraphBuilder g("adapter");
  const proto::Op& product = *site.product;
  const auto name = [&](std::string_view end) { return site.at + std::string(end); };
  const NamedDim rank("rank", lora.rank());
  g.Stage(product.stage());
  if (product.has_block()) g.Block(product.block());
  NamedDims a_dims = site.in, b_dims = {rank};
  a_dims.push_back(rank);
  b_dims.insert(b_dims.end(), site.out.begin(), site.out.end());
  double width = 1;
  for (const NamedDim& dim : site.in) width *= static_cast<double>(dim.size);
  const Value a = g.Variable(name(kAdapterA), a_dims, Uniform(1 / std::sqrt(width)));
  const Value b = g.Variable(name(kAdapterB), b_dims, Zeros());
  Value x{product.input(0)};
  if (lora.dropout() > 0) x = g.Dropout(name(kAdapterDrop), x, lora.dropout());
  x = g.Linear(name(kAdapterDown), x, a, {}, {.contract = static_cast<int>(site.in.size())});
  const double factor = AdapterFactor(lora);
  if (factor != 1) x = g.Op("multiply", name(kAdapterScale), {x}, {{"factor", factor}});
  x = g.Linear(name(kAdapterUp), x, b);
  g.Op("add_delta", name(kAdapterSum), {Value{site.output}, x});
  std::vector<proto::Op> ops(g.proto().op().begin(), g.proto().op().end());
  for (proto::Op& op : ops) {
    if (op.kind() != "variable") op.set_recompute(product.recompute());
  }
  return ops;
}

// The op whose output `tensor` is.
std::string ProducerName(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

absl::Status CheckAdaptable(const proto::Graph& graph) {
  const std::string where = absl::StrCat("graph \"", graph.name(), "\"");
  if (graph.has_lora() || !ListAdapters(graph).empty()) {
    return InputError(where, "has adapters already", "leave --lora out, or give the model itself");
  }
  if (graph.layout().empty()) return absl::OkStatus();
  return InputError(where, "states the layouts of its ops, which those of adapters lack",
                    "add adapters to the graph that --layouts_out was made of");
}

}  // namespace

absl::StatusOr<proto::Graph> AddAdapters(proto::Graph graph, const proto::Lora& lora) {
  RETURN_IF_ERROR(CheckAdaptable(graph));
  FillBlocks(&graph);
  ASSIGN_OR_RETURN(const Graph checked, GraphFromProto(graph, graph.name()));
  ASSIGN_OR_RETURN(const Family* const family, FindFamily(checked));
  if (family == nullptr) {
    return InputError("graph \"" + graph.name() + "\"", "is of no family of models",
                      "adapters are added to graphs of `oneflow model`");
  }
  const Sites sites(graph, *family);
  ASSIGN_OR_RETURN(const std::vector<Site> chosen, ChooseSites(sites.list(), lora));
  std::map<std::string, std::vector<const Site*>> behind;  // by the op that makes what is added to
  std::map<std::string, std::string> read_instead;
  for (const Site& site : chosen) {
    behind[ProducerName(site.output)].push_back(&site);
    read_instead[site.output] = site.at + std::string(kAdapterSum);
  }
  google::protobuf::RepeatedPtrField<proto::Op> ops;
  for (const proto::Op& op : graph.op()) {
    proto::Op* copy = ops.Add();
    *copy = op;
    if (op.kind() == "variable") (*copy->mutable_attr())["frozen"].set_b(true);
    for (std::string& input : *copy->mutable_input()) {
      if (const auto sum = read_instead.find(input); sum != read_instead.end()) input = sum->second;
    }
    for (const Site* site : behind[op.name()]) {
      for (proto::Op& added : MakeAdapter(*site, lora)) {
        for (std::string& input : *added.mutable_input()) {
          const auto sum = read_instead.find(input);
          if (sum != read_instead.end() && input != site->output) input = sum->second;
        }
        *ops.Add() = std::move(added);
      }
    }
  }
  for (std::string& output : *graph.mutable_output()) {
    if (const auto sum = read_instead.find(output); sum != read_instead.end()) output = sum->second;
  }
  *graph.mutable_op() = std::move(ops);
  *graph.mutable_lora() = lora;
  return graph;
}

absl::StatusOr<proto::Graph> AdaptGraph(proto::Graph graph, const proto::Model& said) {
  if (said.has_lora()) {
    ASSIGN_OR_RETURN(graph, AddAdapters(std::move(graph), said.lora()));
  }
  if (said.has_train_only()) return TrainOnly(std::move(graph), said.train_only());
  return graph;
}

absl::StatusOr<proto::Graph> AdaptLike(const proto::Graph& other, proto::Graph graph) {
  proto::Model said;
  if (other.has_lora()) *said.mutable_lora() = other.lora();
  if (!other.train_only().empty()) said.set_train_only(other.train_only());
  ASSIGN_OR_RETURN(graph, AdaptGraph(std::move(graph), said));
  if (other.has_base()) *graph.mutable_base() = other.base();
  return graph;
}

int64_t CountTrained(const proto::Graph& graph) {
  const std::set<std::string> moved = ListMovedBiases(graph);
  int64_t count = 0;
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable" || IsFrozen(op) || moved.contains(op.name())) continue;
    int64_t elements = 1;
    for (const auto& dim : op.shape().dim()) elements *= dim.size();
    count += elements;
  }
  return count;
}

}  // namespace oneflow
