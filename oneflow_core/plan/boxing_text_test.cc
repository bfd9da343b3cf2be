#include "oneflow_core/plan/boxing_text.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

void AddBoxing(proto::Program* program, const char* kernel, const char* why, double bytes,
               double seconds) {
  proto::Actor* actor = program->add_actor();
  actor->set_kernel(kernel);
  actor->set_bytes_moved(bytes);
  actor->mutable_boxing()->set_why(why);
  actor->mutable_boxing()->set_seconds(seconds);
}

TEST_CASE("boxing table: why, primitives, bytes and time; layers that are alike share a line") {
  proto::Program program;
  program.set_name("train");
  AddBoxing(&program, "all_reduce", "h.0.fc is P on tensor; h.0.add needs B", 512, 2e-6);
  program.add_actor()->set_kernel("gelu");
  AddBoxing(&program, "all_reduce", "h.1.fc is P on tensor; h.1.add needs B", 512, 2e-6);
  AddBoxing(&program, "reduce_scatter", "wte.dw is P on data; wte needs B", 2048, 1.5e-3);
  AddBoxing(&program, "all_gather", "wte.dw is P on data; wte needs B", 2048, 1.5e-3);
  AddBoxing(&program, "slice", "x is B on tensor; y needs S(1)", 0, 0);
  CHECK(BoxingTable(program) ==
        "boxing of program train, each time it fires:\n"
        "    h.*.fc is P on tensor; h.*.add needs B: all_reduce, 512 bytes, 2 us; 2 times\n"
        "    wte.dw is P on data; wte needs B: reduce_scatter + all_gather, 4,096 bytes (4.0 KiB), "
        "3 ms\n"
        "    x is B on tensor; y needs S(1): slice, 0 bytes\n");
}

TEST_CASE("boxing table: nothing of a program without boxing") {
  CHECK(BoxingTable(proto::Program()).empty());
}

}  // namespace
}  // namespace oneflow
