#include "oneflow_core/graph/graph_text.h"

#include <algorithm>
#include <charconv>

namespace oneflow {
namespace {

constexpr size_t kWidestColumn = 64;  // a cell that is longer shifts its own line only

struct Line {
  std::string name, kind, inputs, outputs, types, rest;
};

// The shortest digits that read back as the same number.
std::string ShortestText(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

void Append(std::string* text, const std::string& word) {
  if (!text->empty()) *text += ' ';
  *text += word;
}

// SBP of a tensor on `mesh`, without the stage axis: "B", "(S(0),B)"; empty if not inferred.
std::string SbpText(const NdSbp& sbp, const Mesh& mesh) {
  if (sbp.empty()) return "";
  NdSbp shown;
  for (size_t axis = 0; axis < sbp.size(); ++axis) {
    if (static_cast<int>(axis) != mesh.stage_axis()) shown.push_back(sbp[axis]);
  }
  return ToString(shown);
}

std::string TensorText(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensors[id];
  const std::string sbp = SbpText(tensor.sbp, graph.mesh);
  return sbp.empty() ? tensor.name : tensor.name + ':' + sbp;
}

// "want=data:S(0),tensor:B" for output 0, "want:1=..." for output 1.
std::string ConstraintText(const Tensor& tensor) {
  std::string text = "want";
  if (tensor.output > 0) text += ':' + std::to_string(tensor.output);
  char separator = '=';
  for (const auto& [axis, sbp] : tensor.constraint) {
    text += separator + axis + ':' + ToString(sbp);
    separator = ',';
  }
  return text;
}

std::string RestText(const Graph& graph, const Op& op, bool staged,
                     const GraphTextOptions& options) {
  std::string text;
  if (staged) Append(&text, "stage=" + std::to_string(op.stage));
  if (op.chunk > 0) Append(&text, "chunk=" + std::to_string(op.chunk));
  if (!op.recompute.empty()) Append(&text, "recompute=" + op.recompute);
  if (op.phase == Phase::kPrepare) Append(&text, "phase=P");
  if (op.phase == Phase::kBackward) Append(&text, "phase=B");
  if (op.phase == Phase::kUpdate) Append(&text, "phase=U");
  for (const TensorId t : op.outputs) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.sbp.empty() && !tensor.constraint.empty()) Append(&text, ConstraintText(tensor));
  }
  for (const auto& [key, value] : op.attrs) Append(&text, key + '=' + ToString(value));
  if (options.why && !op.why.empty()) Append(&text, "# " + op.why);
  return text;
}

Line MakeLine(const Graph& graph, const Op& op, bool staged, const GraphTextOptions& options) {
  Line line;
  line.name = op.name;
  line.kind = op.kind;
  for (const TensorId t : op.inputs) Append(&line.inputs, TensorText(graph, t));
  for (const TensorId t : op.outputs) {
    Append(&line.outputs, TensorText(graph, t));
    const Tensor& tensor = graph.tensors[t];
    Append(&line.types, std::string(Name(tensor.dtype)) + ToString(tensor.shape));
  }
  line.outputs = line.outputs.empty() ? "" : "-> " + line.outputs;
  line.rest = RestText(graph, op, staged, options);
  return line;
}

std::string Header(const Graph& graph) {
  const auto boxing = std::count_if(graph.ops.begin(), graph.ops.end(),
                                    [](const Op& op) { return IsBoxing(op.kind); });
  std::string text = "graph";
  if (!graph.name.empty()) Append(&text, graph.name);
  Append(&text, "mesh=" + ToString(graph.mesh));
  Append(&text, "ops=" + std::to_string(graph.ops.size()));
  Append(&text, "boxing=" + std::to_string(boxing));
  if (graph.loss >= 0) Append(&text, "loss=" + graph.tensors[graph.loss].name);
  std::string outputs;
  for (const TensorId t : graph.outputs) {
    outputs += (outputs.empty() ? "" : ",") + graph.tensors[t].name;
  }
  if (!outputs.empty()) Append(&text, "outputs=" + outputs);
  return text + '\n';
}

// Aligned cells, two spaces apart, nothing after the last one.
std::string Table(const std::vector<Line>& lines) {
  constexpr std::string Line::*kCells[] = {&Line::name,    &Line::kind,  &Line::inputs,
                                           &Line::outputs, &Line::types, &Line::rest};
  size_t width[std::size(kCells)] = {};
  for (const Line& line : lines) {
    for (size_t c = 0; c < std::size(kCells); ++c) {
      const size_t size = (line.*kCells[c]).size();
      if (size <= kWidestColumn) width[c] = std::max(width[c], size);
    }
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (size_t c = 0; c < std::size(kCells); ++c) {
      if (width[c] == 0 && (line.*kCells[c]).empty()) continue;
      std::string cell = line.*kCells[c];
      if (cell.size() < width[c]) cell.resize(width[c], ' ');
      row += "  " + cell;
    }
    row.resize(row.find_last_not_of(' ') + 1);
    text += row + '\n';
  }
  return text;
}

}  // namespace

std::string ToString(const Attr& attr) {
  if (const auto* i = std::get_if<int64_t>(&attr)) return std::to_string(*i);
  if (const auto* f = std::get_if<double>(&attr)) return ShortestText(*f);
  if (const auto* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  if (const auto* s = std::get_if<std::string>(&attr)) return *s;
  return ToString(Dims(std::get<std::vector<int64_t>>(attr)));
}

std::string ToText(const Graph& graph, const GraphTextOptions& options) {
  const bool staged =
      std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.stage != 0; });
  std::vector<Line> lines;
  for (const Op& op : graph.ops) lines.push_back(MakeLine(graph, op, staged, options));
  return Header(graph) + Table(lines);
}

}  // namespace oneflow
