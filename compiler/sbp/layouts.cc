#include "compiler/sbp/layouts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/sbp/op_groups.h"
#include "compiler/sbp/sbp_choice.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "wte/m" of "wte@3/m": replicas on other stages have the same layout.
std::string WithoutStage(std::string_view name) {
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '@') {
      while (i + 1 < name.size() && IsNumber(name.substr(i + 1, 1))) ++i;
    } else {
      text += name[i];
    }
  }
  return text;
}

// "h.*.ln_1" of "h.3.ln_1".
std::string WithoutNumbers(std::string_view name) {
  std::vector<std::string> parts = absl::StrSplit(ToAbsl(name), '.');
  for (std::string& part : parts) {
    if (IsNumber(part)) part = "*";
  }
  return absl::StrJoin(parts, ".");
}

// The row stated for an op: under its name, its name without the stage, or the name of all blocks.
const std::string* Find(const std::map<std::string, std::string>& rows, const std::string& name) {
  const std::string stageless = WithoutStage(name);
  for (const std::string& key : {name, stageless, WithoutNumbers(stageless)}) {
    if (const auto it = rows.find(key); it != rows.end()) return &it->second;
  }
  return nullptr;
}

// Chooses the name under which an op is listed: the shortest of its names that states its row.
class Namer {
 public:
  void Add(const std::string& name, const std::string& row) {
    const std::string stageless = WithoutStage(name), block = WithoutNumbers(stageless);
    rows_.emplace(stageless, row);
    const auto [it, first] = blocks_.emplace(block, row);
    if (!first && it->second != row) mixed_.insert(block);
  }
  std::string LayoutName(const std::string& name, const std::string& row) const {
    const std::string stageless = WithoutStage(name);
    std::string block = WithoutNumbers(stageless);
    if (!mixed_.contains(block)) return block;
    return rows_.at(stageless) == row ? stageless : name;
  }

 private:
  std::map<std::string, std::string> rows_, blocks_;
  std::set<std::string> mixed_;  // names of all blocks under which blocks differ
};

// (axis, op, its row), in the order of axes and ops.
std::map<std::string, std::vector<std::pair<std::string, std::string>>> CollectRows(
    const Graph& graph, const SbpChoice& choice) {
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> rows;
  for (size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    const Mesh& mesh = graph.mesh;
    for (const int axis : AxesToChoose(mesh)) {
      Signature row;
      for (const NdSbp& sbp : choice.op_inputs[id]) row.in.push_back(sbp[axis]);
      for (const TensorId t : op.outputs) row.out.push_back(graph.tensors[t].sbp[axis]);
      rows[mesh.axes[axis].name].emplace_back(op.name, RowText(row));
    }
  }
  return rows;
}

}  // namespace

absl::StatusOr<FixedRows> ReadFixedRows(const proto::Graph& stated, std::string_view program,
                                        const Graph& graph) {
  FixedRows said, fixed;  // by names as written; by names of ops
  for (const proto::OpLayout& layout : stated.layout()) {
    if (layout.program() != program) continue;
    for (const absl::string_view name : absl::StrSplit(layout.ops(), ' ', absl::SkipEmpty())) {
      said[layout.axis()].emplace(std::string(name), layout.signature());
    }
  }
  for (const Op& op : graph.ops) {
    const Mesh& mesh = graph.mesh;
    for (const int axis : AxesToChoose(mesh)) {
      const auto it = said.find(mesh.axes[axis].name);
      if (it == said.end()) continue;
      const std::string* row = Find(it->second, op.name);
      if (row == nullptr) {
        return InputError(Where(op),
                          absl::StrCat("the layouts of program ", ToAbsl(program), " on axis ",
                                       it->first, " do not name it"),
                          "write them again with --layouts_out=FILE");
      }
      fixed[it->first][op.name] = *row;
    }
  }
  return fixed;
}

void AddLayouts(std::string_view program, const Graph& graph, const SbpChoice& choice,
                proto::Graph* stated) {
  for (const auto& [axis, rows] : CollectRows(graph, choice)) {
    Namer namer;
    for (const auto& [op, row] : rows) namer.Add(op, row);
    std::map<std::string, proto::OpLayout*> layouts;  // by row
    std::set<std::string> named;
    for (const auto& [op, row] : rows) {
      const std::string name = namer.LayoutName(op, row);
      if (!named.insert(name).second) continue;
      proto::OpLayout*& layout = layouts[row];
      if (layout == nullptr) {
        layout = stated->add_layout();
        layout->set_program(std::string(program));
        layout->set_axis(axis);
        layout->set_signature(row);
      }
      absl::StrAppend(layout->mutable_ops(), layout->ops().empty() ? "" : " ", name);
    }
  }
}

}  // namespace oneflow
