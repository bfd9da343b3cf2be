#include "oneflow_core/plan/address_period.h"

#include <catch2/catch.hpp>
#include <limits>

namespace oneflow {
namespace {

// Two actors on one stream: the first fires `micro_batches` times a step and writes register 0, the
// second once and writes register 1.
struct Written {
  proto::Plan plan;

  Written(int micro_batches, int slots, int buffers = 0) {
    proto::Program& program = *plan.add_program();
    for (int i = 0; i < 2; ++i) {
      proto::Register& r = *program.add_register_();
      r.set_id(i);
      r.set_slots(i == 0 ? slots : 1);
      r.set_buffers(i == 0 ? buffers : 0);
      r.set_slot_bytes(64);
      r.set_fires_per_fill(1);
      program.add_actor()->add_output(i);
      program.add_segment()->add_actor(i);
      proto::OrderRun& run =
          *(i == 0 ? program.add_stream() : program.mutable_stream(0))->add_order();
      run.add_segment(i);
      run.set_repeat(i == 0 ? micro_batches : 1);
    }
  }
  proto::Program& program() { return *plan.mutable_program(0); }
  AddressPeriod Period() const { return FindAddressPeriod(plan, plan.program(0)); }
};

}  // namespace

TEST_CASE("addresses repeat when all slots have had their turn, in whole steps") {
  struct Case {
    int micro_batches, slots, buffers;
    int64_t steps, of_micro_batches;
  };
  for (const auto& [micro_batches, slots, buffers, steps, of_micro_batches] :
       {Case{1, 1, 0, 1, 1}, Case{8, 1, 0, 1, 1}, Case{8, 2, 0, 1, 2}, Case{8, 3, 0, 3, 3},
        Case{8, 3, 4, 1, 4}, Case{6, 4, 0, 2, 4}, Case{1, 3, 0, 3, 1}}) {
    const Written written(micro_batches, slots, buffers);
    INFO(micro_batches << " micro-batches, " << slots << " slots, " << buffers << " buffers");
    CHECK(written.Period().steps == steps);
    CHECK(written.Period().micro_batches == of_micro_batches);
  }
}

TEST_CASE("the period is that of all registers together, persistent ones and scratch too") {
  Written written(6, 4);
  written.program().mutable_register_(1)->set_slots(3);
  CHECK(written.Period().steps == 6);  // 2 and 3
  proto::Register& scratch = *written.program().add_register_();
  scratch = written.program().register_(1);
  scratch.set_slots(5);
  written.program().mutable_actor(1)->set_workspace(2);
  CHECK(written.Period().steps == 30);
  scratch.set_slot_bytes(0);  // it keeps an order only
  CHECK(written.Period().steps == 6);

  Written weights(1, 1);
  *weights.plan.add_persistent() = weights.program().register_(0);
  weights.plan.mutable_persistent(0)->set_slots(2);  // and register 0 is id 1 now
  CHECK(weights.Period().steps == 2);
}

TEST_CASE("steps of a round are counted one by one") {
  Written written(6, 4);
  written.program().set_steps_a_round(2);  // 3 micro-batches a step
  CHECK(written.Period().steps == 4);
  written.program().mutable_register_(0)->set_slots(3);
  CHECK(written.Period().steps == 1);
}

TEST_CASE("a plan that makes no sense has a period of 0") {
  Written edited(6, 4);
  edited.program().mutable_register_(0)->set_slots(-1);
  CHECK(edited.Period().steps == 0);
  Written large(6, std::numeric_limits<int32_t>::max());
  large.program().mutable_register_(1)->set_slots(std::numeric_limits<int32_t>::max() - 1);
  for (int i = 0; i < 3; ++i) {
    proto::Register& r = *large.program().add_register_();
    r = large.program().register_(1);
    r.set_slots(std::numeric_limits<int32_t>::max() - 2 - i);
    large.program().mutable_actor(1)->add_output(2 + i);
  }
  CHECK(large.Period().steps == 0);
  Written none(0, 1);
  none.program().clear_stream();
  CHECK(none.Period().steps == 1);
}

}  // namespace oneflow
