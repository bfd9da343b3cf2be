#include "oneflow_core/graph/graph.h"

#include <utility>

#include <glog/logging.h>

namespace oneflow {
namespace {

const Attr* FindAttr(const Op& op, std::string_view key) {
  const auto it = op.attrs.find(key);
  return it == op.attrs.end() ? nullptr : &it->second;
}

template <typename T>
T AttrAs(const Op& op, std::string_view key, T fallback) {
  const Attr* attr = FindAttr(op, key);
  if (attr == nullptr) return fallback;
  const T* value = std::get_if<T>(attr);
  CHECK(value != nullptr) << "op " << op.name << ": attribute " << key << " has another type";
  return *value;
}

}  // namespace

OpId Graph::AddOp(std::string kind, std::string name, std::vector<TensorId> inputs, AttrMap attrs,
                  int n_outputs) {
  const OpId id = static_cast<OpId>(ops.size());
  Op& op = ops.emplace_back();
  op.scope = name;
  op.name = std::move(name);
  op.kind = std::move(kind);
  op.inputs = std::move(inputs);
  op.attrs = std::move(attrs);
  for (int i = 0; i < n_outputs; ++i) AddOutput(id);
  return id;
}

TensorId Graph::AddOutput(OpId op) {
  const TensorId id = static_cast<TensorId>(tensors.size());
  Tensor& tensor = tensors.emplace_back();
  tensor.producer = op;
  tensor.output = static_cast<int>(ops[op].outputs.size());
  tensor.name = ops[op].name;
  if (tensor.output > 0) tensor.name += ':' + std::to_string(tensor.output);
  ops[op].outputs.push_back(id);
  return id;
}

const Op* Graph::FindOp(std::string_view op_name) const {
  for (const Op& op : ops) {
    if (op.name == op_name) return &op;
  }
  return nullptr;
}

std::string Where(const Op& op) {
  return (op.written_at.empty() ? "op " : op.written_at + ": op ") + op.name;
}

TensorId Graph::FindTensor(std::string_view name) const {
  if (name.ends_with(":0")) name.remove_suffix(2);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return static_cast<TensorId>(i);
  }
  return -1;
}

int64_t AttrInt(const Op& op, std::string_view key, int64_t fallback) {
  return AttrAs<int64_t>(op, key, fallback);
}

double AttrDouble(const Op& op, std::string_view key, double fallback) {
  const Attr* attr = FindAttr(op, key);
  if (attr != nullptr && std::holds_alternative<int64_t>(*attr)) {
    return static_cast<double>(std::get<int64_t>(*attr));  // "init_value { i: 1 }" is a number too
  }
  return AttrAs<double>(op, key, fallback);
}

bool AttrBool(const Op& op, std::string_view key, bool fallback) {
  return AttrAs<bool>(op, key, fallback);
}

std::string AttrString(const Op& op, std::string_view key, std::string_view fallback) {
  return AttrAs<std::string>(op, key, std::string(fallback));
}

std::vector<std::vector<Use>> FindUses(const Graph& graph) {
  std::vector<std::vector<Use>> uses(graph.tensors.size());
  for (size_t op = 0; op < graph.ops.size(); ++op) {
    const std::vector<TensorId>& inputs = graph.ops[op].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      uses[inputs[i]].push_back({static_cast<OpId>(op), static_cast<int>(i)});
    }
  }
  return uses;
}

bool HasOwnShape(std::string_view kind) { return kind == "input" || kind == "variable"; }

bool IsFrozen(const Op& op) { return op.kind == "variable" && AttrBool(op, "frozen"); }

}  // namespace oneflow
