#include "training/hugging_face/compare_graphs.h"

#include <map>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

// Attributes of a variable that do not change what the model computes: how it begins, and what the
// optimizer and the layout do with it.
const std::set<std::string_view>& OthersAttributes() {
  static const auto* const names =
      new std::set<std::string_view>{"init", "init_value", "decay", "gather_once"};
  return *names;
}

// Name and value of each property that determines what an op computes.
std::map<std::string, std::string> ListFacts(const proto::Op& op) {
  std::map<std::string, std::string> facts;
  facts["kind"] = op.kind();
  facts["inputs"] = absl::StrJoin(op.input(), " ");
  for (const auto& [name, value] : op.attr()) {
    if (op.kind() == "variable" && OthersAttributes().contains(name)) continue;
    facts["attribute " + name] = value.ShortDebugString();
  }
  for (const auto& dim : op.shape().dim()) absl::StrAppend(&facts["shape"], dim.size(), " ");
  // An element type that is not given is f32.
  facts["type"] = op.dtype() == proto::DATA_TYPE_UNSPECIFIED ? proto::DataType_Name(proto::F32)
                                                             : proto::DataType_Name(op.dtype());
  return facts;
}

std::string Value(const std::map<std::string, std::string>& facts, const std::string& name) {
  const auto it = facts.find(name);
  return it == facts.end() || it->second.empty() ? "none" : it->second;
}

}  // namespace

std::string FindDifference(const proto::Graph& there, const proto::Graph& here) {
  std::map<std::string, const proto::Op*> ops;
  for (const proto::Op& op : here.op()) ops[op.name()] = &op;
  for (const proto::Op& op : there.op()) {
    const auto it = ops.find(op.name());
    if (it == ops.end()) return absl::StrCat(op.name(), ": it is a ", op.kind(), " there only");
    const auto a = ListFacts(op), b = ListFacts(*it->second);
    ops.erase(it);
    if (a == b) continue;
    if (a.at("kind") != b.at("kind")) {
      return absl::StrCat(op.name(), ": it is a ", a.at("kind"), " there, and a ", b.at("kind"),
                          " here");
    }
    std::set<std::string> names;
    for (const auto& [name, value] : a) names.insert(name);
    for (const auto& [name, value] : b) names.insert(name);
    for (const std::string& name : names) {
      if (Value(a, name) == Value(b, name)) continue;
      return absl::StrCat(op.name(), ": its ", name, " is ", Value(a, name), " there, and ",
                          Value(b, name), " here");
    }
  }
  if (ops.empty()) return "";
  const proto::Op& op = *ops.begin()->second;
  return absl::StrCat(op.name(), ": it is a ", op.kind(), " here only");
}

}  // namespace oneflow
