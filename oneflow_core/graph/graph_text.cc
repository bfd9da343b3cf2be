#include "oneflow_core/graph/graph_text.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "oneflow_core/base/wrap.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

struct Line {
  std::string outputs, types, computed, rest, why;
};

// Cells of a line but the last two. One that is wider than `widest` shifts its own line only.
constexpr struct {
  std::string Line::*cell;
  size_t widest;
} kColumns[] = {{&Line::outputs, 36}, {&Line::types, 20}, {&Line::computed, 44}};

// The shortest digits that read back as the same number.
std::string ShortestText(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

void AppendText(std::string* text, const std::string& word) {
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

std::string RestText(const Graph& graph, const Op& op, bool staged) {
  std::string text;
  if (staged) AppendText(&text, "stage=" + std::to_string(op.stage));
  if (op.chunk > 0) AppendText(&text, "chunk=" + std::to_string(op.chunk));
  if (op.block >= 0) AppendText(&text, "block=" + std::to_string(op.block));
  if (!op.recompute.empty()) AppendText(&text, "recompute=" + op.recompute);
  if (op.phase == Phase::kPrepare) AppendText(&text, "phase=P");
  if (op.phase == Phase::kBackward) AppendText(&text, "phase=B");
  if (op.phase == Phase::kUpdate) AppendText(&text, "phase=U");
  if (op.on_host) AppendText(&text, "computed=host");
  if (op.in_host_memory) AppendText(&text, "memory=host");
  if (op.copied_once) AppendText(&text, "copied=once");
  for (const TensorId t : op.outputs) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.sbp.empty() && !tensor.constraint.empty()) AppendText(&text, ConstraintText(tensor));
  }
  for (const auto& [key, value] : op.attrs) AppendText(&text, key + '=' + ToString(value));
  return text;
}

// "fc", and ":1" of the op's second output. A name that does not begin with the op's is printed in
// full.
std::string OutputText(const Graph& graph, const Op& op, size_t output) {
  std::string text = TensorText(graph, op.outputs[output]);
  const bool follows = output > 0 && text.size() > op.name.size() &&
                       text.compare(0, op.name.size(), op.name) == 0 && text[op.name.size()] == ':';
  return follows ? text.substr(op.name.size()) : text;
}

// "f32[4,8]", "f32[4,8] f32[4]x2".
std::string TypesText(const Graph& graph, const Op& op) {
  std::string text;
  for (size_t i = 0; i < op.outputs.size();) {
    const Tensor& tensor = graph.tensors[op.outputs[i]];
    size_t same = 1;
    for (; i + same < op.outputs.size(); ++same) {
      const Tensor& next = graph.tensors[op.outputs[i + same]];
      if (next.dtype != tensor.dtype || next.shape != tensor.shape) break;
    }
    AppendText(&text, std::string(Name(tensor.dtype)) + ToString(tensor.shape));
    if (same > 1) text += 'x' + std::to_string(same);
    i += same;
  }
  return text;
}

bool HasStages(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [](const Op& op) { return op.stage != 0; });
}

Line MakeLine(const Graph& graph, const Op& op, bool staged, const GraphTextOptions& options) {
  Line line;
  for (size_t i = 0; i < op.outputs.size(); ++i)
    AppendText(&line.outputs, OutputText(graph, op, i));
  if (line.outputs.empty()) line.outputs = op.name;
  line.types = TypesText(graph, op);
  line.computed = "= " + op.kind;
  for (const TensorId t : op.inputs) AppendText(&line.computed, TensorText(graph, t));
  line.rest = RestText(graph, op, staged);
  if (options.why && !op.why.empty()) line.why = "# " + op.why;
  return line;
}

std::string Header(const Graph& graph) {
  const auto boxing = std::count_if(graph.ops.begin(), graph.ops.end(),
                                    [](const Op& op) { return IsBoxing(op.kind); });
  std::string text = "graph";
  if (!graph.name.empty()) AppendText(&text, graph.name);
  if (!graph.family.empty()) AppendText(&text, "family=" + graph.family);
  AppendText(&text, "mesh=" + ToString(graph.mesh));
  AppendText(&text, "ops=" + std::to_string(graph.ops.size()));
  AppendText(&text, "boxing=" + std::to_string(boxing));
  if (graph.loss >= 0) AppendText(&text, "loss=" + graph.tensors[graph.loss].name);
  std::string outputs;
  for (const TensorId t : graph.outputs) {
    outputs += (outputs.empty() ? "" : ",") + graph.tensors[t].name;
  }
  if (!outputs.empty()) AppendText(&text, "outputs=" + outputs);
  return text + '\n';
}

// Cells at least `width` wide, two blanks apart, nothing after the last one.
std::string Row(const Line& line, const size_t (&width)[std::size(kColumns)]) {
  std::string row;
  for (size_t c = 0; c < std::size(kColumns); ++c) {
    std::string cell = line.*kColumns[c].cell;
    if (width[c] == 0 && cell.empty()) continue;
    if (cell.size() < width[c]) cell.resize(width[c], ' ');
    row += "  " + cell;
  }
  row += "  " + line.rest;
  row.resize(row.find_last_not_of(' ') + 1);
  return row;
}

// A line that would be too long if all its cells were aligned has fewer of them so, from the end,
// if it fits then. A reason that does not fit stands on the next line.
std::string Table(const std::vector<Line>& lines) {
  size_t width[std::size(kColumns)] = {};
  for (const Line& line : lines) {
    for (size_t c = 0; c < std::size(kColumns); ++c) {
      const size_t size = (line.*kColumns[c].cell).size();
      if (size <= kColumns[c].widest) width[c] = std::max(width[c], size);
    }
  }
  std::string text;
  for (const Line& line : lines) {
    size_t aligned[std::size(kColumns)];
    std::copy(std::begin(width), std::end(width), aligned);
    std::string row = Row(line, aligned);
    for (size_t c = std::size(kColumns); row.size() > kTextColumns && c-- > 0;) {
      aligned[c] = 1;
      row = Row(line, aligned);
    }
    if (row.size() > kTextColumns) row = Row(line, width);
    text += row;
    const bool fits = row.size() + 2 + line.why.size() <= kTextColumns;
    if (!line.why.empty()) text += (fits ? "  " : "\n      ") + line.why;
    text += '\n';
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
  const bool staged = HasStages(graph);
  std::vector<Line> lines;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (options.only && !options.only(graph.ops[i])) continue;
    lines.push_back(MakeLine(graph, graph.ops[i], staged, options));
    if (options.only) lines.back().outputs = std::to_string(i) + ' ' + lines.back().outputs;
  }
  return WrapLines(Header(graph) + Table(lines));
}

std::string OpText(const Graph& graph, const Op& op) {
  return Table({MakeLine(graph, op, HasStages(graph), {})});
}

}  // namespace oneflow
