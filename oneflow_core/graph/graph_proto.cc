#include "oneflow_core/graph/graph_proto.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// Those of which a graph may state layouts.
constexpr std::string_view kPrograms[] = {"train",   "eval",       "generate",   "run",
                                          "prefill", "prefill_64", "prefill_16", "decode"};

std::string Quoted(std::string_view name) { return '"' + std::string(name) + '"'; }

// "op:2" -> {op, 2}.
struct Reference {
  std::string op;
  int output = 0;
};

bool ParseReference(std::string_view text, Reference* reference) {
  const size_t colon = text.find(':');
  reference->op = std::string(text.substr(0, colon));
  reference->output = 0;
  if (colon == std::string_view::npos) return true;
  const std::string_view digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 2) return false;
  for (const char c : digits) {
    if (c < '0' || c > '9') return false;
    reference->output = reference->output * 10 + (c - '0');
  }
  return true;
}

bool IsOpName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '/';
  });
}

// Turns one message into the IR. Steps are called in the order they stand in.
class Importer {
 public:
  explicit Importer(const GraphSource& source) : source_(source), proto_(source.graph) {}

  absl::StatusOr<Graph> Import() {
    graph_.name = proto_.name();
    graph_.family = proto_.family();
    ASSIGN_OR_RETURN(graph_.mesh, MeshFromProto(proto_.mesh(), source_.file + ": mesh"));
    RETURN_IF_ERROR(IndexNames());
    RETURN_IF_ERROR(ResolveInputs());
    RETURN_IF_ERROR(ResolveLossAndOutputs());
    RETURN_IF_ERROR(CheckLayouts());
    RETURN_IF_ERROR(Sort());
    for (const int i : order_) RETURN_IF_ERROR(AddOp(i));
    if (!proto_.loss().empty()) graph_.loss = Resolve(loss_);
    for (const Reference& output : outputs_) graph_.outputs.push_back(Resolve(output));
    return std::move(graph_);
  }

 private:
  // "gpt.textproto:12", or the file alone.
  std::string FileLine(int i) const {
    const bool known = !source_.op_lines.empty();
    return source_.file + (known ? ':' + std::to_string(source_.op_lines[i]) : "");
  }
  std::string Where(int i) const { return FileLine(i) + ": op " + Quoted(proto_.op(i).name()); }

  absl::Status IndexNames() {
    if (proto_.op_size() == 0) {
      return InputError(source_.file, "has no op", "docs/ops.md lists them");
    }
    n_outputs_.resize(proto_.op_size());
    for (int i = 0; i < proto_.op_size(); ++i) {
      const proto::Op& op = proto_.op(i);
      if (!IsOpName(op.name())) {
        return InputError(Where(i), "is no valid name", "use letters, digits and _ . - /");
      }
      const auto [it, added] = index_.emplace(op.name(), i);
      if (!added) return InputError(Where(i), "is defined twice", "rename one: names are unique");
      if (op.kind().empty()) return InputError(Where(i), "has no kind", "docs/ops.md lists them");
      n_outputs_[i] = std::max(1, op.sbp_size());
    }
    return absl::OkStatus();
  }

  // Finds the op a name refers to, and notes that it has such an output.
  absl::StatusOr<Reference> Resolve(const std::string& name, const std::string& where,
                                    const std::string& verb) {
    Reference reference;
    if (!ParseReference(name, &reference)) {
      return InputError(where, verb + ' ' + Quoted(name) + ", which is no tensor name",
                        "write \"op\", or \"op:2\" for its output 2");
    }
    const auto it = index_.find(reference.op);
    if (it == index_.end()) {
      std::vector<std::string> names;
      for (const proto::Op& op : proto_.op()) names.push_back(op.name());
      const std::string nearest = Nearest(reference.op, names);
      return InputError(where, verb + ' ' + Quoted(name) + ", which is no tensor of the graph",
                        nearest.empty() ? "" : "did you mean " + Quoted(nearest) + "?");
    }
    const std::string& kind = proto_.op(it->second).kind();
    if (reference.output > 0 && HasOwnShape(kind)) {
      return InputError(where, verb + ' ' + Quoted(name) + ", but an op of kind " + Quoted(kind) +
                                   " has one output");
    }
    n_outputs_[it->second] = std::max(n_outputs_[it->second], reference.output + 1);
    return reference;
  }

  absl::Status ResolveInputs() {
    inputs_.resize(proto_.op_size());
    for (int i = 0; i < proto_.op_size(); ++i) {
      for (const std::string& name : proto_.op(i).input()) {
        ASSIGN_OR_RETURN(Reference reference, Resolve(name, Where(i), "reads"));
        inputs_[i].push_back(std::move(reference));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ResolveLossAndOutputs() {
    if (!proto_.loss().empty()) {
      ASSIGN_OR_RETURN(loss_, Resolve(proto_.loss(), source_.file, "loss is"));
    }
    for (const std::string& name : proto_.output()) {
      ASSIGN_OR_RETURN(Reference reference, Resolve(name, source_.file, "output is"));
      outputs_.push_back(std::move(reference));
    }
    return absl::OkStatus();
  }

  // Errors that can be found without the passes, which name most of the ops.
  absl::Status CheckLayouts() const {
    std::set<std::tuple<std::string, std::string, std::string>> named;
    for (const proto::OpLayout& layout : proto_.layout()) {
      const std::string where = source_.file + ": layout of program " + Quoted(layout.program()) +
                                " on axis " + Quoted(layout.axis());
      if (std::find(std::begin(kPrograms), std::end(kPrograms), layout.program()) ==
          std::end(kPrograms)) {
        const std::vector<std::string> all(std::begin(kPrograms), std::end(kPrograms));
        return InputError(where, "is of a program that no plan has",
                          "plans have " + absl::StrJoin(all, ", "));
      }
      for (const absl::string_view op : absl::StrSplit(layout.ops(), ' ', absl::SkipEmpty())) {
        std::string name(op);
        if (named.emplace(layout.program(), layout.axis(), name).second) continue;
        return InputError(where, "names op " + Quoted(name) + " twice", "name it once");
      }
    }
    return absl::OkStatus();
  }

  // Among the ops that are ready, the one given first comes first.
  absl::Status Sort() {
    std::vector<int> waits(proto_.op_size());
    std::vector<std::vector<int>> readers(proto_.op_size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < proto_.op_size(); ++i) {
      waits[i] = static_cast<int>(inputs_[i].size());
      for (const Reference& input : inputs_[i]) readers[index_.at(input.op)].push_back(i);
      if (waits[i] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const int i = ready.top();
      ready.pop();
      order_.push_back(i);
      for (const int reader : readers[i]) {
        if (--waits[reader] == 0) ready.push(reader);
      }
    }
    if (static_cast<int>(order_.size()) == proto_.op_size()) return absl::OkStatus();
    return CycleError(waits);
  }

  // Among the ops that still wait, goes from reader to producer until one comes again.
  absl::Status CycleError(const std::vector<int>& waits) const {
    int at = 0;
    while (waits[at] == 0) ++at;
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      for (const Reference& input : inputs_[at]) {
        const int producer = index_.at(input.op);
        if (waits[producer] > 0) {
          at = producer;
          break;
        }
      }
    }
    std::vector<int> cycle(std::find(path.begin(), path.end(), at), path.end());
    std::reverse(cycle.begin(), cycle.end());
    std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
    std::string text;
    for (const int i : cycle) text += proto_.op(i).name() + " -> ";
    return InputError(Where(cycle.front()),
                      "is on a cycle: " + text + proto_.op(cycle.front()).name(),
                      "an op cannot depend on its own output");
  }

  TensorId Resolve(const Reference& reference) const {
    return graph_.ops[op_ids_.at(reference.op)].outputs[reference.output];
  }

  absl::Status AddOp(int i) {
    const proto::Op& op = proto_.op(i);
    if (op.stage() < 0) {
      return InputError(Where(i), "stage is " + std::to_string(op.stage()), "stages count from 0");
    }
    if (op.has_block() && op.block() < 0) {
      return InputError(Where(i), "block is " + std::to_string(op.block()), "blocks count from 0");
    }
    ASSIGN_OR_RETURN(AttrMap attrs, AttrsFromProto(op.attr(), Where(i)));
    std::vector<TensorId> inputs;
    for (const Reference& input : inputs_[i]) inputs.push_back(Resolve(input));
    const OpId id =
        graph_.AddOp(op.kind(), op.name(), std::move(inputs), std::move(attrs), n_outputs_[i]);
    op_ids_[op.name()] = id;
    if (!source_.op_lines.empty()) graph_.ops[id].written_at = FileLine(i);
    graph_.ops[id].stage = op.stage();
    if (op.has_block()) graph_.ops[id].block = op.block();
    graph_.ops[id].recompute = op.recompute();
    for (int k = 0; k < op.sbp_size(); ++k) {
      Tensor& tensor = graph_.tensors[graph_.ops[id].outputs[k]];
      ASSIGN_OR_RETURN(tensor.constraint, ConstraintFromProto(op.sbp(k), Where(i)));
    }
    return SetOwnShape(i, &graph_.tensors[graph_.ops[id].outputs[0]]);
  }

  absl::Status SetOwnShape(int i, Tensor* tensor) const {
    const proto::Op& op = proto_.op(i);
    if (!HasOwnShape(op.kind())) {
      if (!op.has_shape() && op.dtype() == proto::DATA_TYPE_UNSPECIFIED) return absl::OkStatus();
      return InputError(Where(i), "has a shape or dtype, but its kind is " + Quoted(op.kind()),
                        "give them only to inputs and variables; all others are inferred");
    }
    if (!op.has_shape()) {
      return InputError(Where(i), "has no shape", "give every " + op.kind() + " one");
    }
    if (n_outputs_[i] > 1) return InputError(Where(i), "has SBP for more than its one output");
    ASSIGN_OR_RETURN(tensor->shape, ShapeFromProto(op.shape(), Where(i)));
    const Dims& dims = tensor->shape.dims;
    if (op.kind() == "variable" && std::find(dims.begin(), dims.end(), 0) != dims.end()) {
      return InputError(Where(i), "is a variable with a dimension of the batch's size",
                        "give the dimension a size: a variable outlives its batch");
    }
    ASSIGN_OR_RETURN(tensor->dtype, DTypeFromProto(op.dtype(), Where(i)));
    return absl::OkStatus();
  }

  const GraphSource& source_;
  const proto::Graph& proto_;
  // By position in the message.
  std::map<std::string, int> index_;
  std::vector<std::vector<Reference>> inputs_;
  std::vector<int> n_outputs_;
  std::vector<int> order_;
  Reference loss_;
  std::vector<Reference> outputs_;
  // The result, and its op ids by name.
  Graph graph_;
  std::map<std::string, OpId> op_ids_;
};

}  // namespace

absl::StatusOr<Graph> GraphFromSource(const GraphSource& source) {
  return Importer(source).Import();
}

absl::StatusOr<Graph> GraphFromProto(const proto::Graph& graph, std::string_view file) {
  return GraphFromSource({graph, std::string(file), {}});
}

bool IsFrozen(const proto::Op& op) {
  const auto frozen = op.attr().find("frozen");
  return op.kind() == "variable" && frozen != op.attr().end() && frozen->second.b();
}

bool HasFrozen(const proto::Graph& graph) {
  return std::any_of(graph.op().begin(), graph.op().end(),
                     [](const proto::Op& op) { return IsFrozen(op); });
}

}  // namespace oneflow
