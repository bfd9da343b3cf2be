// The text form of graphs: reading with locations, writing one line an op.
#include <charconv>

#include <google/protobuf/text_format.h>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"

namespace oneflow {

using google::protobuf::TextFormat;

namespace {

// 12 of "h.12.attn.qkv"; -1: the name is of another form.
int BlockInName(std::string_view name) {
  if (!name.starts_with("h.")) return -1;
  int block = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 2, end, block);
  return error != std::errc() || stop == end || *stop != '.' ? -1 : block;
}

}  // namespace

void FillBlocks(proto::Graph* graph) {
  for (const proto::Op& op : graph->op()) {
    if (op.has_block()) return;
  }
  for (proto::Op& op : *graph->mutable_op()) {
    if (const int block = BlockInName(op.name()); block >= 0) op.set_block(block);
  }
}

absl::StatusOr<GraphSource> ParseGraphSource(std::string_view text, std::string_view file) {
  GraphSource source;
  source.file = std::string(file);
  TextFormat::ParseInfoTree locations;
  RETURN_IF_ERROR(ParseText(text, file, "graph", &source.graph, &locations));
  FillBlocks(&source.graph);
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

absl::Status CheckExact(const proto::Graph& graph, std::string_view who) {
  if (graph.approximates().empty()) return absl::OkStatus();
  const int count = graph.approximates_size();
  return InputError("graph \"" + graph.name() + "\"",
                    "approximates a model that differs from it in " + std::to_string(count) +
                        (count == 1 ? " way: " : " ways, the first: ") + graph.approximates(0) +
                        "; it is for planners, and no " + std::string(who) + " runs it",
                    "give it to compile, search, simulate or explain, or a graph that was made "
                    "without --approximate");
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
  name.set_family(rest.family());
  rest.clear_name();
  rest.clear_family();
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
