// The text form of graphs: reading with locations, writing one line an op.
#include <google/protobuf/text_format.h>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"

namespace oneflow {

using google::protobuf::TextFormat;

absl::StatusOr<GraphSource> ParseGraphSource(std::string_view text, std::string_view file) {
  GraphSource source;
  source.file = std::string(file);
  TextFormat::ParseInfoTree locations;
  RETURN_IF_ERROR(ParseText(text, file, "graph", &source.graph, &locations));
  const auto* op_field =
      proto::Graph::descriptor()->FindFieldByNumber(proto::Graph::kOpFieldNumber);
  for (int i = 0; i < source.graph.op_size(); ++i) {
    source.op_lines.push_back(locations.GetLocation(op_field, i).line + 1);
  }
  return source;
}

absl::StatusOr<GraphSource> ReadGraphSource(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, "give the path of a graph file"));
  return ParseGraphSource(text, path);
}

absl::StatusOr<Graph> ParseGraphText(std::string_view text, std::string_view file) {
  ASSIGN_OR_RETURN(const GraphSource source, ParseGraphSource(text, file));
  return GraphFromSource(source);
}

absl::StatusOr<GraphSource> ReadGraphFile(const std::string& path) {
  ASSIGN_OR_RETURN(GraphSource source, ReadGraphSource(path));
  RETURN_IF_ERROR(GraphFromSource(source).status());
  return source;
}

std::string GraphFileText(const proto::Graph& graph) {
  TextFormat::Printer line;
  line.SetSingleLineMode(true);
  line.SetUseShortRepeatedPrimitives(true);
  proto::Graph rest = graph;
  rest.clear_op();
  rest.clear_layout();
  std::string text, part;
  for (const proto::Op& op : graph.op()) {
    line.PrintToString(op, &part);
    text += "op { " + part + "}\n";
  }
  proto::Graph name;
  name.set_name(rest.name());
  rest.clear_name();
  TextFormat::PrintToString(name, &part);
  text = part + text;
  TextFormat::PrintToString(rest, &part);
  text += part;
  for (const proto::OpLayout& layout : graph.layout()) {
    line.PrintToString(layout, &part);
    text += "layout { " + part + "}\n";
  }
  return text;
}

}  // namespace oneflow
