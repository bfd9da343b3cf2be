#include "oneflow_core/print/plan_dot.h"

#include <map>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string Node(const proto::Actor& actor) {
  std::string line = "    a" + std::to_string(actor.id()) +
                     " [label=" + Quoted(actor.name() + "\n" + actor.kernel());
  const size_t newline = line.find('\n');
  line.replace(newline, 1, "\\n");
  if (actor.has_boxing()) line += ", style=filled, fillcolor=lightyellow";
  if (actor.has_exchange()) line += ", color=red";
  return line + "];\n";
}

}  // namespace

absl::StatusOr<std::string> PlanDot(const proto::Plan& plan, std::string_view name) {
  ASSIGN_OR_RETURN(const proto::Program* program, ProgramOfFlag(plan, name));
  std::string text = "digraph " + Quoted(plan.model() + "." + program->name()) +
                     " {\n  rankdir=TB; node [shape=box, fontname=Helvetica];\n";
  std::map<int, std::string> clusters;
  std::map<int, int> writer;
  for (const proto::Actor& actor : program->actor()) {
    clusters[actor.stage()] += Node(actor);
    for (int r : actor.output()) writer[r] = actor.id();
  }
  for (const auto& [stage, nodes] : clusters) {
    text += "  subgraph cluster_" + std::to_string(stage) + " {\n    label=\"stage " +
            std::to_string(stage) + "\";\n" + nodes + "  }\n";
  }
  for (const proto::Actor& actor : program->actor()) {
    for (const proto::Input& input : actor.input()) {
      const auto from = writer.find(input.register_());
      if (from == writer.end()) continue;  // a variable that nobody writes here
      const proto::Register* reg = FindRegister(plan, *program, input.register_());
      text += "  a" + std::to_string(from->second) + " -> a" + std::to_string(actor.id()) +
              " [label=" + Quoted(reg->name() + " x" + std::to_string(reg->slots())) + "];\n";
    }
    if (actor.exchange().has_partner() && actor.kernel() == "send") {
      text += "  a" + std::to_string(actor.id()) + " -> a" +
              std::to_string(actor.exchange().partner()) + " [color=red];\n";
    }
  }
  return text + "}\n";
}

}  // namespace oneflow
