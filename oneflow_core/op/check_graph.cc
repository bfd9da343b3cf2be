#include "oneflow_core/op/check_graph.h"

#include <set>
#include <string>
#include <vector>

#include <glog/logging.h>

#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

std::string Quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string DidYouMean(std::string_view name, const std::vector<std::string>& known,
                       std::string_view otherwise) {
  const std::string nearest = Nearest(name, known);
  return nearest.empty() ? std::string(otherwise) : "did you mean " + Quoted(nearest) + "?";
}

std::string_view TypeName(AttrType type) {
  switch (type) {
    case AttrType::kInt: return "an int (i)";
    case AttrType::kDouble: return "a number (f)";
    case AttrType::kBool: return "a bool (b)";
    case AttrType::kString: return "a string (s)";
    case AttrType::kInts: return "a list of ints (ints)";
  }
  return "?";
}

// The order of the variant Attr.
AttrType FindType(const Attr& attr) {
  constexpr AttrType kTypes[] = {AttrType::kInt, AttrType::kDouble, AttrType::kBool,
                                 AttrType::kString, AttrType::kInts};
  return kTypes[attr.index()];
}

bool Fits(AttrType given, AttrType wanted) {
  return given == wanted || (given == AttrType::kInt && wanted == AttrType::kDouble);
}

absl::Status CheckAttrs(const Op& op, const OpDef& def, const std::string& where) {
  std::vector<std::string> names;
  for (const AttrDef& attr : def.attrs) {
    names.push_back(attr.name);
    const auto it = op.attrs.find(attr.name);
    if (it == op.attrs.end()) {
      if (!attr.required) continue;
      return InputError(
          where, "has no attribute " + Quoted(attr.name),
          "kind " + Quoted(def.kind) + " needs it: " + std::string(TypeName(attr.type)));
    }
    if (!Fits(FindType(it->second), attr.type)) {
      return InputError(
          where,
          "attribute " + Quoted(attr.name) + " is " + std::string(TypeName(FindType(it->second))),
          "kind " + Quoted(def.kind) + " wants " + std::string(TypeName(attr.type)));
    }
  }
  for (const auto& [name, value] : op.attrs) {
    bool known = false;
    for (const std::string& k : names) known |= k == name;
    if (known) continue;
    std::string list;
    for (const std::string& k : names) list += (list.empty() ? "" : ", ") + Quoted(k);
    return InputError(where,
                      "attribute " + Quoted(name) + " is not one of kind " + Quoted(def.kind),
                      DidYouMean(name, names, list.empty() ? "it has none" : "use " + list));
  }
  return absl::OkStatus();
}

std::string InputRange(const OpDef& def) {
  const auto [least, most] = def.inputs;
  const std::string from = std::to_string(least);
  if (most == kAnyNumber) return "at least " + from + " input(s)";
  return most == least ? from + " input(s)" : from + " to " + std::to_string(most) + " inputs";
}

// The kind is known, and its attribute `then` is none of its forms'.
absl::Status UnknownForm(const Op& op) {
  std::string forms;
  for (const OpDef& def : OpDefs()) {
    if (def.kind != op.kind || def.then.empty()) continue;
    forms += (forms.empty() ? "use " : ", ") + Quoted(def.then);
  }
  return InputError(
      Where(op), "attribute \"then\" is " + Quoted(AttrString(op, "then")),
      forms.empty() ? "kind " + Quoted(op.kind) + " has no such attribute" : std::move(forms));
}

absl::Status CheckOp(const Op& op) {
  const OpDef* def = FindOpDef(op.kind);
  if (def == nullptr) {
    return InputError(Where(op), "kind " + Quoted(op.kind) + " is not known",
                      DidYouMean(op.kind, OpKinds(), "docs/ops.md lists all kinds"));
  }
  const OpDef* form = FindOpDef(op);
  if (form == nullptr) return UnknownForm(op);
  return CheckOpAgainst(op, *form);
}

// "op fc (linear): <what>; inputs: x f32[4,5], w f32[6,8]".
absl::Status InContext(const absl::Status& status, const OpView& v) {
  std::string message =
      Where(v.op) + " (" + v.op.kind + "): " + std::string(ToStd(status.message()));
  for (int i = 0; i < v.n_inputs(); ++i) {
    message += (i == 0 ? "; inputs: " : ", ") + Describe(v.in(i).name, v.in(i));
  }
  return absl::Status(status.code(), message);
}

// Counts of elements and bytes stay far from overflow: the bound of shapes read from files.
absl::Status ExpectCountable(const Shape& shape) {
  if (Countable(shape.dims)) return absl::OkStatus();
  return Mismatch("the result " + ToString(shape) + " has more than 2^48 elements",
                  "use smaller sizes");
}

}  // namespace

absl::Status CheckOpAgainst(const Op& op, const OpDef& def) {
  const std::string where = Where(op);
  const int inputs = static_cast<int>(op.inputs.size());
  const auto [least, most] = def.inputs;
  if (inputs < least || (most != kAnyNumber && inputs > most)) {
    return InputError(
        where,
        "kind " + Quoted(op.kind) + " takes " + InputRange(def) + ", not " + std::to_string(inputs),
        op.kind + ": " + def.usage);
  }
  if (static_cast<int>(op.outputs.size()) > def.outputs) {
    return InputError(where,
                      "kind " + Quoted(op.kind) + " has " + std::to_string(def.outputs) +
                          " output(s), but its output " + std::to_string(op.outputs.size() - 1) +
                          " is used",
                      op.kind + ": " + def.usage);
  }
  return CheckAttrs(op, def, where);
}

absl::Status CheckGraph(const Graph& graph) {
  for (const Op& op : graph.ops) RETURN_IF_ERROR(CheckOp(op));
  return absl::OkStatus();
}

absl::Status CheckLogicalGraph(const Graph& graph) {
  std::set<std::string> variables;
  for (const Op& op : graph.ops) {
    if (op.kind == "variable") variables.insert(op.name);
  }
  for (const Op& op : graph.ops) {
    const std::string where = Where(op);
    const OpDef* def = FindOpDef(op.kind);
    if (def == nullptr) continue;  // CheckGraph's
    if (!def->instead.empty()) {
      return InputError(where, "kind " + Quoted(op.kind) + " is the compiler's own", def->instead);
    }
    for (const AttrDef& attr : def->attrs) {
      if (!attr.own || !op.attrs.contains(attr.name)) continue;
      return InputError(where, "attribute " + Quoted(attr.name) + " is the compiler's own",
                        "leave it out");
    }
    if (op.kind != "variable" || !(op.name.ends_with("/m") || op.name.ends_with("/v"))) continue;
    const std::string owner = op.name.substr(0, op.name.size() - 2);
    if (variables.contains(owner)) {
      return InputError(where, "has the name of a state of the optimizer of " + Quoted(owner),
                        "rename it");
    }
  }
  return absl::OkStatus();
}

absl::Status InferOpShapes(Graph* graph, OpId id) {
  const OpDef* def = FindOpDef(graph->ops[id]);
  CHECK(def != nullptr) << graph->ops[id].name << ": " << graph->ops[id].kind;
  while (static_cast<int>(graph->ops[id].outputs.size()) < def->outputs) graph->AddOutput(id);
  const OpView view{*graph, graph->ops[id]};
  absl::StatusOr<std::vector<OutputSpec>> specs = def->infer(view);
  if (!specs.ok()) return InContext(specs.status(), view);
  CHECK_EQ(specs->size(), view.op.outputs.size()) << view.op.name;
  for (size_t i = 0; i < specs->size(); ++i) {
    if (const absl::Status status = ExpectCountable((*specs)[i].shape); !status.ok()) {
      return InContext(status, view);
    }
    Tensor& tensor = graph->tensors[view.op.outputs[i]];
    tensor.shape = (*specs)[i].shape;
    tensor.dtype = (*specs)[i].dtype;
  }
  return absl::OkStatus();
}

absl::Status InferShapes(Graph* graph) {
  for (size_t id = 0; id < graph->ops.size(); ++id) {
    RETURN_IF_ERROR(InferOpShapes(graph, static_cast<OpId>(id)));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
