#include "tools/oneflow/cli/warn_of_axes.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "oneflow_core/base/nearest.h"
#include "tools/oneflow/cli/progress_printer.h"

namespace oneflow {
namespace {

// The name of the axis: "data" for the factor data.0.
std::string_view AxisWord(std::string_view axis) { return axis.substr(0, axis.find('.')); }

// The known axis that one of another name may be: one letter off, or by its short form.
std::string AxisMeantBy(std::string_view axis, const std::set<std::string_view>& known) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"dp", "data"},       {"tp", "tensor"},   {"pp", "pipe"},          {"ep", "expert"},
      {"cp", "context"},    {"seq", "context"}, {"sequence", "context"}, {"model", "tensor"},
      {"pipeline", "pipe"}, {"stage", "pipe"}};
  for (const auto& [name, meant] : kShort) {
    if (name == axis) return std::string(meant);
  }
  return Nearest(axis, {known.begin(), known.end()});
}

}  // namespace

void WarnOfAxes(const proto::Graph& graph, const Mesh& mesh) {
  std::set<std::string_view> known = {"data", "tensor", "pipe", "context"};
  for (const proto::Op& op : graph.op()) {
    if (op.attr().contains("experts")) known.insert("expert");
    for (const proto::NdSbp& sbp : op.sbp()) {
      for (const auto& [axis, ignored] : sbp.on()) known.insert(AxisWord(axis));
    }
  }
  for (const Mesh::Axis& axis : mesh.axes) {
    const std::string_view word = AxisWord(axis.name);
    if (known.contains(word)) continue;
    if (word == "expert") {
      PrintNotice(
          absl::StrFormat("warning: mesh axis %s: the model has no experts to split; all layouts "
                          "over it are inferred. The batch alone is split by an axis data",
                          axis.name));
      continue;
    }
    const std::string meant = AxisMeantBy(word, known);
    PrintNotice(absl::StrFormat(
        "warning: mesh axis %s: %sneither the model (data, tensor, pipe, expert, context) nor the "
        "graph has layouts for it; all of them are inferred",
        axis.name, meant.empty() ? "" : "did you mean " + meant + "? "));
  }
}

}  // namespace oneflow
