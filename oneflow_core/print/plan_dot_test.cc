#include "oneflow_core/print/plan_dot.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

using Catch::Contains;

// A chain of actors: "embed", then of each layer "h.N.fc" and "h.N.add", then "loss". The layers
// from `split` on are of stage 1.
proto::Plan Chain(int layers, int split) {
  proto::Plan plan;
  plan.set_model("m");
  proto::Program& program = *plan.add_program();
  program.set_name("train");
  proto::ProgramFacts& facts = *plan.mutable_facts()->add_program();
  const auto add = [&](const std::string& name, const std::string& kernel, int stage,
                       int block = -1) {
    const int id = program.actor_size();
    proto::Actor& actor = *program.add_actor();
    actor.set_id(id);
    actor.set_name(name);
    actor.set_kernel(kernel);
    actor.set_stage(stage);
    proto::ActorFacts& of_actor = *facts.add_actor();
    if (block >= 0) of_actor.set_block(block);
    if (id > 0) actor.add_input()->set_register_(id - 1);
    actor.add_output(id);
    proto::Register& reg = *program.add_register_();
    reg.set_id(id);
    reg.set_name(name);
    reg.set_slots(2);
  };
  add("embed", "embedding", 0);
  for (int layer = 0; layer < layers; ++layer) {
    const int stage = layer < split ? 0 : 1;
    add(absl::StrCat("h.", layer, ".fc"), "linear", stage, layer);
    add(absl::StrCat("h.", layer, ".add"), "add", stage, layer);
  }
  add("loss", "loss", 1);
  return plan;
}

TEST_CASE("dot: alike layers of a stage are one cluster, with the boxes of one") {
  const std::string dot = *PlanDot(Chain(12, 8), "train", /*full=*/false);
  CHECK(dot ==
        "digraph \"m.train\" {\n"
        "  rankdir=TB; node [shape=box, fontname=Helvetica];\n"
        "  subgraph cluster_0 {\n"
        "    label=\"stage 0\";\n"
        "      a0 [label=\"embed\\nembedding\"];\n"
        "    subgraph cluster_0_0 {\n"
        "      label=\"layers 0-7 x 8\";\n"
        "      a1 [label=\"h.*.fc\\nlinear\"];\n"
        "      a2 [label=\"h.*.add\\nadd\"];\n"
        "    }\n"
        "  }\n"
        "  subgraph cluster_1 {\n"
        "    label=\"stage 1\";\n"
        "      a25 [label=\"loss\\nloss\"];\n"
        "    subgraph cluster_1_8 {\n"
        "      label=\"layers 8-11 x 4\";\n"
        "      a17 [label=\"h.*.fc\\nlinear\"];\n"
        "      a18 [label=\"h.*.add\\nadd\"];\n"
        "    }\n"
        "  }\n"
        "  a0 -> a1 [label=\"embed x2\"];\n"
        "  a1 -> a2 [label=\"h.*.fc x2\"];\n"
        "  a2 -> a1 [label=\"h.*.add x2\", style=dashed, constraint=false];\n"
        "  a2 -> a17 [label=\"h.7.add x2\"];\n"
        "  a17 -> a18 [label=\"h.*.fc x2\"];\n"
        "  a18 -> a17 [label=\"h.*.add x2\", style=dashed, constraint=false];\n"
        "  a18 -> a25 [label=\"h.11.add x2\"];\n"
        "}\n");
}

TEST_CASE("dot: a layer that differs stands alone, and all do where the picture is full") {
  proto::Plan plan = Chain(4, 4);
  (*plan.mutable_program(0)->mutable_actor(3)->mutable_attr())["then"].set_s("gelu");  // of layer 1
  const std::string dot = *PlanDot(plan, "train", false);
  CHECK_THAT(dot, Contains("label=\"layer 0\"") && Contains("label=\"layer 1\"") &&
                      Contains("label=\"layers 2-3 x 2\"") && Contains("h.1.fc\\nlinear+gelu"));
  const std::string full = *PlanDot(plan, "train", true);
  CHECK_THAT(full, Contains("label=\"layer 3\"") && !Contains("layers") && !Contains("*"));
}

TEST_CASE("dot: names with quotes, and programs that there are not") {
  proto::Plan plan = Chain(0, 0);
  plan.set_model("a \"b\" \\");
  CHECK_THAT(*PlanDot(plan, "train", false), Contains("digraph \"a \\\"b\\\" \\\\.train\""));
  CHECK_FALSE(PlanDot(plan, "eval", false).ok());
}

}  // namespace
}  // namespace oneflow
