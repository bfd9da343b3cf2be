#include "oneflow_core/print/boxing_text.h"

#include <catch2/catch.hpp>

#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

void AddBoxing(proto::Plan* plan, const char* kernel, const char* why, double bytes,
               double seconds) {
  proto::Program* program = plan->mutable_program(0);
  proto::Actor* actor = program->add_actor();
  actor->set_id(program->actor_size() - 1);
  actor->set_kernel(kernel);
  actor->mutable_boxing();
  proto::ActorFacts* facts = MutableFacts(actor->id(), plan->mutable_facts()->mutable_program(0));
  facts->set_bytes_moved(bytes);
  facts->set_why(why);
  facts->set_seconds(seconds);
}

TEST_CASE("boxing table: why, primitives, bytes and time; layers that are alike share a line") {
  proto::Plan plan;
  proto::Program& program = *plan.add_program();
  plan.mutable_facts()->add_program();
  program.set_name("train");
  AddBoxing(&plan, "all_reduce", "h.0.fc is P on tensor; h.0.add needs B", 512, 2e-6);
  program.add_actor()->set_kernel("gelu");  // of which nothing is known
  AddBoxing(&plan, "all_reduce", "h.1.fc is P on tensor; h.1.add needs B", 512, 2e-6);
  AddBoxing(&plan, "reduce_scatter", "wte.dw is P on data; wte needs B", 2048, 1.5e-3);
  AddBoxing(&plan, "all_gather", "wte.dw is P on data; wte needs B", 2048, 1.5e-3);
  AddBoxing(&plan, "slice", "x is B on tensor; y needs S(1)", 0, 0);
  CHECK(BoxingTable(plan, program) ==
        "boxing of program train, each time it fires:\n"
        "    h.*.fc is P on tensor; h.*.add needs B: all_reduce, 512 bytes, 2 us; 2 times\n"
        "    wte.dw is P on data; wte needs B: reduce_scatter + all_gather, 4,096 bytes (4.0 KiB), "
        "3 ms\n"
        "    x is B on tensor; y needs S(1): slice, 0 bytes\n");
}

TEST_CASE("boxing table: nothing of a program without boxing") {
  CHECK(BoxingTable(proto::Plan(), proto::Program()).empty());
}

}  // namespace
}  // namespace oneflow
