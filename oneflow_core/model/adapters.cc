#include "oneflow_core/model/adapters.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

namespace oneflow {
namespace {

// "h.3.attn.qkv.q" of "h.3.attn.qkv.q.lora_a"; empty if the name does not end so.
std::string_view FindStem(std::string_view name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string_view();
}

// The part that "h.3.attn.qkv.q" is of a weight; -1: it is one tensor.
int FindPart(std::string_view at) {
  const auto* const part = std::find_if(std::begin(kAdapterParts), std::end(kAdapterParts),
                                        [&](std::string_view p) { return at.ends_with(p); });
  return part == std::end(kAdapterParts) ? -1 : static_cast<int>(part - kAdapterParts);
}

std::string WeightName(std::string_view at, int part) {
  if (part >= 0) at.remove_suffix(kAdapterParts[part].size());
  return std::string(at) + ".weight";
}

// Dimension `dim` of the weight, of which an adapter's variable has the first `contract` and the
// rank (A), or the rank and the others (B). The keys and the values of a weight that packs them
// lack the dimension along which it does.
Sbp SplitShared(Sbp sbp, bool is_a, int contract, int packed_along) {
  if (!sbp.split()) return sbp;
  if (is_a) return sbp.dim < contract ? sbp : B();
  if (sbp.dim < contract || sbp.dim == packed_along) return B();
  return S(1 + sbp.dim - contract - (packed_along >= 0 && sbp.dim > packed_along ? 1 : 0));
}

}  // namespace

double AdapterFactor(const proto::Lora& lora) {
  const auto rank = static_cast<double>(lora.rank());
  const double alpha = lora.has_alpha() ? lora.alpha() : 2 * rank;
  return alpha / (lora.rslora() ? std::sqrt(rank) : rank);
}

bool IsAdapterName(std::string_view variable) {
  return variable.ends_with(kAdapterA) || variable.ends_with(kAdapterB);
}

std::vector<Adapter> ListAdapters(const proto::Graph& graph) {
  std::map<std::string_view, const proto::Op*> ops;
  for (const proto::Op& op : graph.op()) ops.emplace(op.name(), &op);
  std::vector<Adapter> adapters;
  for (const proto::Op& op : graph.op()) {
    const std::string_view at = FindStem(op.name(), kAdapterA);
    if (op.kind() != "variable" || at.empty()) continue;
    Adapter adapter{.at = std::string(at)};
    adapter.a = op.name();
    adapter.b = adapter.at + std::string(kAdapterB);
    if (!ops.contains(WeightName(at, -1))) adapter.part = FindPart(at);
    adapter.weight = WeightName(at, adapter.part);
    const auto scale = ops.find(adapter.at + std::string(kAdapterScale));
    if (scale != ops.end() && scale->second->attr().contains("factor")) {
      adapter.factor = scale->second->attr().at("factor").f();
    }
    if (ops.contains(adapter.weight) && ops.contains(adapter.b)) adapters.push_back(adapter);
  }
  return adapters;
}

std::optional<TensorSplit> FindAdapterSplit(const Family& family, const Graph& graph,
                                            const Op& variable) {
  const bool is_a = variable.name.ends_with(kAdapterA);
  const std::string_view at = FindStem(variable.name, is_a ? kAdapterA : kAdapterB);
  if (at.empty()) return std::nullopt;
  const Op* a = is_a ? &variable : graph.FindOp(std::string(at) + std::string(kAdapterA));
  if (a == nullptr) return std::nullopt;
  const int contract = graph.tensors[a->outputs[0]].shape.rank() - 1;
  int part = -1;
  const auto named = [&](const TensorSplit& split) {
    return VariableName(split.variable, variable.block) == WeightName(at, part);
  };
  auto split = std::find_if(family.splits.begin(), family.splits.end(), named);
  if (split == family.splits.end()) {
    part = FindPart(at);
    split = std::find_if(family.splits.begin(), family.splits.end(), named);
  }
  if (split == family.splits.end()) return std::nullopt;
  int packed_along = -1;
  int64_t block = -1;
  const VariableParts* row =
      part > 0 ? FindParts(*family.files, WeightName(at, part), &block) : nullptr;
  if (row != nullptr) packed_along = row->parts[0].axis;
  TensorSplit shared = *split;
  shared.sbp = SplitShared(split->sbp, is_a, contract, packed_along);
  if (split->within_group) {
    shared.within_group = SplitShared(*split->within_group, is_a, contract, packed_along);
  }
  return shared;
}

proto::Graph RemoveAdapters(proto::Graph graph) {
  std::set<std::string> gone;
  std::map<std::string, std::string> read_instead;  // the sum's name: that of what it adds to
  for (const Adapter& adapter : ListAdapters(graph)) {
    for (const std::string_view end : {kAdapterA, kAdapterB, kAdapterDrop, kAdapterDown,
                                       kAdapterScale, kAdapterUp, kAdapterSum}) {
      gone.insert(adapter.at + std::string(end));
    }
  }
  google::protobuf::RepeatedPtrField<proto::Op> kept;
  for (proto::Op& op : *graph.mutable_op()) {
    if (gone.contains(op.name())) {
      if (op.name().ends_with(kAdapterSum)) read_instead[op.name()] = op.input(0);
      continue;
    }
    op.mutable_attr()->erase("frozen");
    for (std::string& input : *op.mutable_input()) {
      if (const auto sum = read_instead.find(input); sum != read_instead.end()) input = sum->second;
    }
    *kept.Add() = std::move(op);
  }
  *graph.mutable_op() = std::move(kept);
  for (std::string& output : *graph.mutable_output()) {
    if (const auto sum = read_instead.find(output); sum != read_instead.end()) {
      output = sum->second;
    }
  }
  graph.clear_base();
  graph.clear_lora();
  graph.clear_train_only();
  return graph;
}

}  // namespace oneflow
