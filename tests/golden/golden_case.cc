#include "tests/golden/golden_case.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "compiler/passes/passes.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/graph/graph_text.h"

namespace oneflow {
namespace {

constexpr std::string_view kPasses[] = {"bind_batch",      "infer_shapes",  "decompose",
                                        "place_variables", "differentiate", "add_optimizer",
                                        "infer_sbp",       "insert_boxing"};
constexpr std::string_view kGraphMark = "-- graph --\n", kExpectMark = "-- expect --\n";

absl::StatusOr<int> IndexOf(const std::string& file, const std::string& pass) {
  auto it = std::find(std::begin(kPasses), std::end(kPasses), pass);
  if (it == std::end(kPasses)) return InputError(file, "there is no pass \"" + pass + "\"");
  return static_cast<int>(it - std::begin(kPasses));
}

// "a .. c, e" -> a, b, c, e.
absl::StatusOr<std::vector<std::string>> ParsePasses(const std::string& file, std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  std::vector<std::string> passes;
  bool range = false;
  for (std::string word; words >> word;) {
    if (word == "..") {
      range = true;
      continue;
    }
    ASSIGN_OR_RETURN(const int index, IndexOf(file, word));
    int first = index;
    if (range && !passes.empty()) {
      ASSIGN_OR_RETURN(const int last, IndexOf(file, passes.back()));
      first = last + 1;
    }
    for (int i = first; i <= index; ++i) passes.emplace_back(kPasses[i]);
    range = false;
  }
  return passes;
}

absl::Status RunPass(const std::string& pass, const GoldenCase& golden, Graph* graph,
                     Gradients* gradients, SbpChoice* choice) {
  if (pass == "bind_batch") return BindBatch(graph, golden.micro_batch_size);
  if (pass == "infer_shapes") return CheckAndInferShapes(graph);
  if (pass == "decompose") return Decompose(graph, golden.micro_batches);
  if (pass == "place_variables") return PlaceVariables(graph);
  if (pass == "differentiate") {
    ASSIGN_OR_RETURN(*gradients, Differentiate(graph, graph->loss));
    return absl::OkStatus();
  }
  if (pass == "add_optimizer") return AddOptimizer(graph, *gradients);
  if (pass == "infer_sbp") {
    ASSIGN_OR_RETURN(*choice, InferSbp(graph, {.micro_batches = golden.micro_batches,
                                               .mirrors = gradients->mirrors}));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(InsertBoxing(graph, *choice));
  return VerifyGraph(*graph);
}

std::string Print(const Graph& graph, bool boxing_only) {
  const std::string text = ToText(graph, {.why = boxing_only});
  if (!boxing_only) return text;
  std::istringstream lines(text);
  std::string line, kept;
  for (int i = -1; std::getline(lines, line); ++i) {  // the line of op i; -1: the header
    if (i < 0 || IsBoxing(graph.ops[i].kind)) kept += line + "\n";
  }
  return kept;
}

}  // namespace

absl::StatusOr<GoldenCase> ParseGoldenCase(const std::string& file, std::string_view text) {
  const size_t graph = text.find(kGraphMark), expect = text.find(kExpectMark);
  if (graph == std::string_view::npos || expect == std::string_view::npos || expect < graph) {
    return InputError(file, "is no golden case", "see tests/golden/golden_case.h");
  }
  if (text.empty() || text[0] != '#') {
    return InputError(file, "does not begin with a comment", "say why the result is right");
  }
  GoldenCase golden;
  golden.file = file;
  golden.head = std::string(text.substr(0, expect));
  golden.graph =
      std::string(text.substr(graph + kGraphMark.size(), expect - graph - kGraphMark.size()));
  golden.expect = std::string(text.substr(expect + kExpectMark.size()));
  std::istringstream lines(std::string(text.substr(0, graph)));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.empty() || line[0] == '#') continue;
    const std::string key = line.substr(0, colon);
    const std::string value = colon == std::string::npos ? "" : line.substr(colon + 2);
    if (key == "passes") {
      ASSIGN_OR_RETURN(golden.passes, ParsePasses(file, value));
    } else if (key == "micro_batch_size") {
      golden.micro_batch_size = std::stoll(value);
    } else if (key == "micro_batches") {
      golden.micro_batches = std::stoll(value);
    } else if (line == "show: boxing") {
      golden.boxing_only = true;
    } else {
      return InputError(file, "does not understand \"" + line + "\"");
    }
  }
  return golden;
}

absl::StatusOr<std::string> RunGoldenCase(const GoldenCase& golden) {
  ASSIGN_OR_RETURN(Graph graph, ParseGraphText(golden.graph));
  Gradients gradients;
  SbpChoice choice;
  for (const std::string& pass : golden.passes) {
    RETURN_IF_ERROR(RunPass(pass, golden, &graph, &gradients, &choice));
  }
  return Print(graph, golden.boxing_only);
}

}  // namespace oneflow
