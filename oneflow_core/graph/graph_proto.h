// Converts graphs between files, messages (proto/graph.proto) and the IR (graph.h).
//
// The way into the IR checks everything that needs no registry of ops: names, references, cycles,
// shapes of sources, the spelling of SBP. It does not know the number of outputs of a kind: an op
// gets those that are referred to, and shape inference adds the others. Kinds, attributes and axes
// are checked by oneflow_core/op and the compiler.
//
//   ASSIGN_OR_RETURN(GraphSource source, ReadGraphSource("gpt.graph"));
//   ASSIGN_OR_RETURN(Graph graph, GraphFromSource(source));
//   // gpt.graph:12: op "fc": reads "w", which is no tensor of the graph; did you mean "fc.w"?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph.h"
#include "proto/graph.pb.h"

namespace oneflow {

// A graph as it was written, and its location: the line of each op, from 1.
struct GraphSource {
  proto::Graph graph;
  std::string file;
  std::vector<int> op_lines;  // empty: not known
};

// Sets `block` of the ops from their names, 12 of "h.12.attn.qkv", unless an op states it: files
// written before the field existed have such names. No other code reads a block from a name.
void FillBlocks(proto::Graph* graph);

// Parses the text form, and fills blocks; `file` is its name in errors, which begin
// "file:line:column".
absl::StatusOr<GraphSource> ParseGraphSource(std::string_view text, std::string_view file);
absl::StatusOr<GraphSource> ReadGraphSource(const std::string& path);

// Returns the IR, ops in topological order; an order that is topological is kept.
absl::StatusOr<Graph> GraphFromSource(const GraphSource& source);

// Parses and converts in one call; errors have no line numbers.
absl::StatusOr<Graph> ParseGraphText(std::string_view text, std::string_view file = "graph");
absl::StatusOr<Graph> GraphFromProto(const proto::Graph& graph, std::string_view file);

// Reads a graph that GraphFromSource accepts.
absl::StatusOr<GraphSource> ReadGraphFile(const std::string& path);

// True of a variable that nothing trains; if the graph has one.
bool IsFrozen(const proto::Op& op);
bool HasFrozen(const proto::Graph& graph);

// An input error for a graph that approximates another model (Graph::approximates): it answers a
// planner, and `who`, as "training", would run it.
absl::Status CheckExact(const proto::Graph& graph, std::string_view who);

// Prints the text form that ReadGraphFile reads: one line an op, and one a layout.
std::string GraphFileText(const proto::Graph& graph);

}  // namespace oneflow
