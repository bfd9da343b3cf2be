// What does not fit together is refused with its place: one edit each of plans that are good.
#include <catch2/catch.hpp>
#include <string>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/verify/edited_plans.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

using Plan = proto::Plan;

proto::Segment& Seg(Plan& p, int i) { return *Train(p).mutable_segment(i); }
proto::OrderRun& Run(Plan& p, int i) { return *Str(p, 0).mutable_order(i); }
proto::Input& In(Plan& p, int actor) { return *Act(p, actor).mutable_input(0); }

// f of F writes h for g of B: F twice, then B twice.
Plan ForwardBackward() {
  PlanBuilder b;
  const int h = b.Register("h", 0, 2);
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {h})});
  const int g = b.Segment("B", 0, {b.Actor("g", 0, {{h}}, {})});
  b.Stream("compute", 0, {{{f}, 2}, {{g}, 2}});
  return b.Finish();
}

// The same, with room behind h.
Plan WithRoom(int64_t bytes) {
  Plan plan = ForwardBackward();
  plan.mutable_memory(0)->set_register_bytes(bytes);
  plan.mutable_memory(0)->set_arena_bytes(bytes);
  return plan;
}

// And with a variable, w, in persistent register 0.
Plan WithVariable() {
  Plan plan = ForwardBackward();
  proto::Register& w = *plan.add_persistent();
  w = Reg(plan, 0);
  w.set_name("w"), w.set_slots(1);
  Reg(plan, 0).set_id(1), Reg(plan, 0).set_offset(64);
  Act(plan, 0).set_output(0, 1), In(plan, 1).set_register_(1);
  proto::Variable& v = *plan.add_variable();
  v.set_name("w"), v.add_register_(0), v.set_dtype(proto::F32);
  *v.mutable_layout() = w.layout();
  plan.mutable_memory(0)->set_persistent_bytes(64);
  plan.mutable_memory(0)->set_arena_bytes(64 + plan.memory(0).register_bytes());
  return plan;
}

// f of F writes h, which goes to the host, where u changes it; what comes back is for g of B.
Plan ThroughHost() {
  PlanBuilder b;
  const int h = b.Register("h"), there = b.Register("h.host"), changed = b.Register("u.host"),
            back = b.Register("u.back");
  const int f = b.Segment("F", 0, {b.Actor("f", 0, {}, {h})});
  const int g = b.Segment("B", 0, {b.Actor("g", 0, {{back}}, {})});
  const int out = b.Actor("h.out", 0, {{h}}, {there}), u = b.Actor("u", 0, {{there}}, {changed});
  const int in = b.Actor("u.in", 0, {{changed}}, {back});
  b.Stream("compute", 0, {{{f, g}, 2}});
  b.Stream("copy.out", 0, {{{b.Segment("out", 0, {out})}, 2}});
  b.Stream("update", 0, {{{b.Segment("u", 0, {u})}, 2}});
  b.Stream("copy.in", 0, {{{b.Segment("in", 0, {in})}, 2}});
  Plan plan = b.Finish();
  Act(plan, out).set_kernel("copy_out"), Act(plan, in).set_kernel("copy_in");
  Act(plan, 0).set_kernel("f"), Act(plan, 1).set_kernel("g"), Act(plan, u).set_kernel("u");
  Str(plan, 1).set_kind(proto::Stream::COPY), Str(plan, 3).set_kind(proto::Stream::COPY);
  Str(plan, 2).set_kind(proto::Stream::HOST_COMPUTE);
  Reg(plan, there).set_memory_kind(proto::HOST), Reg(plan, changed).set_memory_kind(proto::HOST);
  *plan.add_memory() = plan.memory(0);
  plan.mutable_memory(1)->set_kind(proto::HOST);
  return plan;
}

// Two stages: the second receives h; order, of which there are no bytes, stays on the first.
Plan TwoStages() {
  PlanBuilder b({{"pipe", 2}, {"tensor", 2}});
  const int h = b.Register("h", 0), order = b.Register("order", 0), h1 = b.Register("h1", 1);
  b.At(order).set_slot_bytes(0);
  const int f = b.Actor("f", 0, {}, {h, order}), k = b.Actor("k", 0, {{order}}, {});
  const auto pair = b.SendReceive("h", {h}, h1);
  const int g = b.Actor("g", 1, {{h1}}, {});
  b.Stream("compute", 0, {{{b.Segment("F", 0, {f, k, pair.send})}, 1}});
  b.Stream("compute", 1, {{{b.Segment("F", 1, {pair.receive, g})}, 1}});
  return b.Finish();
}

}  // namespace

TEST_CASE("the head of a plan and its arenas") {
  CheckEach(
      ForwardBackward(),
      {{[](Plan& p) { p.set_version(99); }, "format version 99"},
       {[](Plan& p) { p.set_stage_axis(3); }, "stage axis"},
       {[](Plan& p) { p.clear_memory(); }, "0 arenas for 1 stages"},
       {[](Plan& p) { p.mutable_memory(0)->set_stage(1); }, "memory of stage 0: is of stage 1"},
       {[](Plan& p) { p.mutable_memory(0)->set_arena_bytes(7); }, "regions sum to"},
       {[](Plan& p) { p.mutable_memory(0)->set_arena_bytes(1 << 20); }, "regions sum to"},
       {[](Plan& p) { p = WithRoom(1000); }, "a region of 1000 bytes"},
       {[](Plan& p) { p = WithRoom(int64_t{1} << 51); }, "a region of 2251799813685248 bytes"},
       {[](Plan& p) { *p.add_program() = p.program(0); }, "two programs train"},
       {[](Plan& p) { p.set_device_kind(static_cast<proto::DeviceKind>(9)); }, "of kind 9"},
       {[](Plan& p) { p.set_launch_queue(1 << 20); }, "a launch queue of 1048576 firings"},
       {[](Plan& p) { p.set_launch_queue(0); }, "a launch queue of 0 firings"},
       {[](Plan& p) { Train(p).set_micro_batches(0); }, "has no micro-batch"},
       {[](Plan& p) { Train(p).set_steps_a_round(-1); }, "less than no steps a round"}});
}

TEST_CASE("registers") {
  CheckEach(ForwardBackward(),
            {{[](Plan& p) { Reg(p, 0).set_id(5); }, "register h has id 5 at index 0"},
             {[](Plan& p) { Reg(p, 0).set_stage(5); }, "no such stage"},
             {[](Plan& p) { Reg(p, 0).set_slots(0); }, "0 slots"},
             {[](Plan& p) { Reg(p, 0).set_fires_per_fill(0); }, "0 firings a fill"},
             {[](Plan& p) { Reg(p, 0).set_slot_bytes(1); }, "a slot of 1 bytes for 64"},
             {[](Plan& p) { Reg(p, 0).set_slot_bytes(100); }, "a slot of 100 bytes for 64"},
             {[](Plan& p) { Reg(p, 0).set_buffers(-1); }, "slots in -1 buffers"},
             {[](Plan& p) { Reg(p, 0).set_buffers(1); }, "2 slots in 1 buffers"},
             {[](Plan& p) { Reg(p, 0).set_slot_bytes(0), Reg(p, 0).set_slots(1 << 18); },
              "262144 slots in 0 buffers"},
             {[](Plan& p) { Reg(p, 0).set_first_buffer(2); }, "begins at buffer 2 of 2"},
             {[](Plan& p) { Reg(p, 0).set_stride(65); }, "a buffer every 65 bytes"},
             {[](Plan& p) { Reg(p, 0).set_fires_per_fill(2); },
              "takes 2 firings a fill, each of which overwrites the ones before"},
             {[](Plan& p) { Reg(p, 0).set_fill_mode(static_cast<proto::Register::Mode>(7)); },
              "is filled in mode 7, which is not known"},
             {[](Plan& p) { Reg(p, 0).set_offset(1 << 20); }, "leave the region"},
             {[](Plan& p) { Reg(p, 0).set_offset(-64); }, "leave the region"},
             {[](Plan& p) { Reg(p, 0).set_stride(128); }, "leave the region"},
             {[](Plan& p) {
                Reg(p, 0).set_slots(1);
                Reg(p, 0).set_fill_mode(proto::Register::UPDATE);
              },
              "is updated in place, but ends with the program"}});
  CheckEach(WithRoom(256),
            {{[](Plan& p) { Reg(p, 0).set_offset(1); }, "leave the region"},
             {[](Plan& p) { Reg(p, 0).set_slot_bytes(128), Reg(p, 0).set_stride(64); },
              "a buffer every 64 bytes for slots of 128"}});
  const auto split = [](Plan& p) {
    proto::Layout::Split* by_stage = Reg(p, 0).mutable_layout()->add_split();
    by_stage->set_dim(0), by_stage->set_axis(0);
  };
  CheckEach(TwoStages(), {{split, "is split by the stage axis"}});
}

TEST_CASE("variables and their registers") {
  const auto w = [](Plan& p) { return p.mutable_persistent(0); };
  const auto v = [](Plan& p) { return p.mutable_variable(0); };
  const auto room = [](Plan& p) {
    p.mutable_memory(0)->set_persistent_bytes(192);
    p.mutable_memory(0)->set_arena_bytes(192 + p.memory(0).register_bytes());
    Reg(p, 0).set_offset(192);
  };
  CheckEach(
      WithVariable(),
      {{[&](Plan& p) { w(p)->set_id(5); }, "register w has id 5 at index 0"},
       {[&](Plan& p) { w(p)->set_stage(-1); }, "its stage does not exist"},
       {[&](Plan& p) { w(p)->set_stage(1); }, "its stage does not exist"},
       {[&](Plan& p) { room(p), w(p)->set_slots(2), w(p)->set_fill_mode(proto::Register::UPDATE); },
        "updated in place, but has 2 slots in 2 buffers"},
       {[&](Plan& p) { room(p), w(p)->set_slots(2), w(p)->set_buffers(3); },
        "its buffers are not contiguous"},
       {[&](Plan& p) { room(p), w(p)->set_slots(2), w(p)->set_first_buffer(1); },
        "its buffers are not contiguous"},
       {[&](Plan& p) { room(p), w(p)->set_slots(2), w(p)->set_stride(64); },
        "its buffers are not contiguous"},
       {[&](Plan& p) {
          *p.add_persistent() = *w(p), Reg(p, 0).set_id(2), w(p)->set_name("first");
          p.mutable_persistent(1)->set_id(1);
        },
        "persistent registers first and w overlap"},
       {[&](Plan& p) { v(p)->clear_register_(); }, "variable w: has no register"},
       {[&](Plan& p) { v(p)->set_register_(0, 1); }, "register 1 does not exist"},
       {[&](Plan& p) { v(p)->set_dtype(proto::I32); }, "has another shape or type"},
       {[&](Plan& p) { v(p)->mutable_layout()->set_dim(0, 8); }, "has another shape or type"},
       {[&](Plan& p) { Act(p, 0).set_workspace(0); }, "its workspace w outlives the program"}});
}

TEST_CASE("actors and what they touch") {
  CheckEach(
      ForwardBackward(),
      {{[](Plan& p) { Act(p, 1).set_id(0); }, "actor g has id 0 at index 1"},
       {[](Plan& p) { Act(p, 0).add_output(0); }, "two writers"},
       {[](Plan& p) { In(p, 1).set_register_(1); }, "reads register 1, which does not exist"},
       {[](Plan& p) { Act(p, 0).set_output(0, 1); }, "writes register 1, which does not exist"},
       {[](Plan& p) { Act(p, 0).clear_output(); }, "nobody writes"},
       {[](Plan& p) { In(p, 1).set_fires_per_read(0); }, "0 firings a read"},
       {[](Plan& p) { In(p, 1).set_initial_fills(1); }, "before its first fill"},
       {[](Plan& p) { Act(p, 0).set_workspace(0); }, "two writers"},
       {[](Plan& p) { Act(p, 0).clear_output(), Act(p, 0).set_workspace(0); },
        "its workspace h is read"},
       {[](Plan& p) { Act(p, 0).set_workspace(99); }, "does not exist"},
       {[](Plan& p) { Act(p, 0).set_workspace(-1); }, "does not exist"}});
  CheckEach(
      TwoStages(),
      {{[](Plan& p) { Act(p, 0).set_stage(2); }, "actor f: its stage does not exist"},
       {[](Plan& p) { Reg(p, 2).set_stage(0); }, "actor h: writes h1 of another stage"},
       {[](Plan& p) {
          Act(p, 3).clear_output(), Act(p, 0).set_workspace(2);
          Act(p, 4).clear_input();
        },
        "its workspace h1 is of another stage"},
       {[](Plan& p) { In(p, 4).set_register_(0); }, "actor g: reads h of another stage"},
       {[](Plan& p) { In(p, 4).set_register_(1); }, "actor g: reads order of another stage"}});
}

TEST_CASE("memory of the host, and who touches it") {
  // The segment of an actor moves to another stream.
  const auto move = [](int from, int segment, int to) {
    return [=](Plan& p) {
      Str(p, from).clear_order();
      Str(p, to).mutable_order(0)->add_segment(segment);
    };
  };
  const auto kind = [](int stream, proto::Stream::Kind kind) {
    return [=](Plan& p) { Str(p, stream).set_kind(kind); };
  };
  const auto memory = [](int reg, proto::MemoryKind kind) {
    return [=](Plan& p) { Reg(p, reg).set_memory_kind(kind); };
  };
  CheckEach(
      ThroughHost(),
      {{memory(0, proto::HOST), "actor f: touches h, which is in memory of kind HOST"},
       {memory(3, proto::HOST), "actor g: touches u.back, which is in memory of kind HOST"},
       {memory(1, proto::DEVICE), "actor h.out: touches h.host, which is in memory of kind DEVICE"},
       {memory(2, proto::DEVICE), "actor u: touches u.host, which is in memory of kind DEVICE"},
       {kind(2, proto::Stream::COMPUTE),
        "actor u: touches h.host, which is in memory of kind HOST"},
       {kind(0, proto::Stream::HOST_COMPUTE),
        "actor f: touches h, which is in memory of kind DEVICE"},
       {kind(2, proto::Stream::COPY), "kernel u stands on a stream of kind COPY"},
       {kind(1, proto::Stream::COMPUTE), "kernel copy_out stands on a stream of kind COMPUTE"},
       {kind(3, proto::Stream::HOST), "kernel copy_in stands on a stream of kind HOST"},
       {move(1, 2, 0), "kernel copy_out stands on a stream of kind COMPUTE"},
       {[](Plan& p) { Act(p, 2).set_kernel("copy_in"); },
        "actor h.out: touches h, which is in memory of kind DEVICE"},
       {[](Plan& p) { Act(p, 3).set_kernel("copy_out"); },
        "kernel copy_out stands on a stream of kind HOST_COMPUTE"},
       {[](Plan& p) { p.mutable_memory()->RemoveLast(); },
        "register h.host is in memory of kind 1, of which there is no arena"}});
  // A GPU copies on any of its streams, and what the host reads and writes is the host's.
  Plan gpu = ThroughHost();
  gpu.set_device_kind(proto::CUDA);
  CHECK(Verdict(gpu) == "good");
  Str(gpu, 1).set_kind(proto::Stream::COMPUTE);
  CHECK(Verdict(gpu) == "good");
  // Also without memory of the host.
  CheckEach(ForwardBackward(), {{kind(0, proto::Stream::HOST_COMPUTE),
                                 "actor f: touches h, which is in memory of kind DEVICE"}});
}

TEST_CASE("a kernel that the host computes for a GPU has the workspace of a CPU's") {
  PlanBuilder b;
  const int x = b.Register("x"), sum = b.Register("sum", 0, 1, 1);
  b.At(sum).set_dtype(proto::F64), b.At(sum).mutable_layout()->clear_dim();
  b.Stream("squares", 0, {{{b.Segment("U", 0, {b.Actor("squares", 0, {{x}}, {sum})})}, 1}});
  Plan plan = b.Finish();
  Act(plan, 0).set_kernel("sum_squares");
  const auto verdict = [&plan] {
    const PlanNet net = MakePlanNet(plan, plan.program(0)).value();
    return std::string(ToStd(VerifyKernels(net).message()));
  };
  CHECK(verdict().empty());
  plan.set_device_kind(proto::CUDA);
  CHECK_THAT(verdict(), Catch::Contains("has 0 bytes of workspace, kernel sum_squares needs"));
  Str(plan, 0).set_kind(proto::Stream::HOST_COMPUTE);
  CHECK(verdict().empty());
}

TEST_CASE("rates") {
  CheckEach(
      ForwardBackward(),
      {{[](Plan& p) { Run(p, 0).set_repeat(3); }, "is filled 3 times"},
       {[](Plan& p) { Reg(p, 0).set_fires_per_fill(4); }, "takes 4 firings a fill"},
       {[](Plan& p) { In(p, 1).set_fires_per_read(2); }, "fires 2 times with 2 firings a read"},
       {[](Plan& p) { Run(p, 1).set_repeat(5), In(p, 1).set_fires_per_read(2); },
        "fires 5 times with 2 firings a read"}});
  const auto initial = [](int fills) {
    return [fills](Plan& p) { In(p, 1).set_initial_fills(fills); };
  };
  CheckEach(TwoStages(), {{initial(-1), "-1 initial fills"}, {initial(2), "2 initial fills"}});
}

TEST_CASE("segments and orders") {
  CheckEach(
      ForwardBackward(),
      {{[](Plan& p) { Seg(p, 1).set_id(0); }, "segment B has id 0 at index 1"},
       {[](Plan& p) { Seg(p, 0).add_actor(1); }, "is in two segments"},
       {[](Plan& p) { Seg(p, 0).add_actor(2); }, "holds actor 2, which does not exist"},
       {[](Plan& p) { Seg(p, 0).clear_actor(); }, "is in no segment"},
       {[](Plan& p) { Train(p).add_segment()->set_id(2), Seg(p, 2).set_stage(1); },
        "no such stage"},
       {[](Plan& p) { Str(p, 0).set_id(1); }, "stream compute has id 1 at index 0"},
       {[](Plan& p) { Train(p).add_stream()->set_id(1), Str(p, 1).set_stage(1); }, "no such stage"},
       {[](Plan& p) { Run(p, 1).set_repeat(0); }, "stands in no order"},
       {[](Plan& p) { Run(p, 1).set_repeat(-1); }, "repeats segments -1 times"},
       {[](Plan& p) { Run(p, 1).set_repeat(1 << 30); }, "has too many firings"},
       {[](Plan& p) {
          for (int i = 2; i < 1 << 12; ++i) {
            *Train(p).add_actor() = p.program(0).actor(0);
            Act(p, i).set_id(i), Act(p, i).clear_input(), Act(p, i).clear_output();
            Seg(p, 0).add_actor(i);
          }
          for (int i = 0; i <= 1 << 12; ++i) Run(p, 0).add_segment(0);
        },
        "has too many actors"},
       {[](Plan& p) { Run(p, 1).set_segment(0, 2); }, "orders segment 2, which does not exist"}});
  CheckEach(TwoStages(),
            {{[](Plan& p) { Seg(p, 0).set_stage(1); }, "segment F holds f of another stage"},
             {[](Plan& p) { Str(p, 1).set_stage(0); }, "stage 0 orders a segment of another stage"},
             {[](Plan& p) { Str(p, 0).set_kind(static_cast<proto::Stream::Kind>(9)); },
              "is of kind 9, which is not known"},
             {[](Plan& p) { *Str(p, 0).add_order() = p.program(0).stream(1).order(0); },
              "segment F of stage 1 is in two streams"}});
}

TEST_CASE("a boxing of the device alone may fill a register that keeps an order") {
  PlanBuilder b({{"a", 2}});
  const int x = b.Register("x"), y = b.Register("y"), over = b.Register("over", 0, 1, 0);
  b.At(over).clear_layout();
  const int first = b.Actor("first", 0, {}, {x}), box = b.AllReduce("box", 0, {0}, {x}, y);
  const int last = b.Actor("last", 0, {{over}}, {});
  b.Stream("compute", 0, {{{b.Segment("F", 0, {first, box, last})}, 1}});
  Plan plan = b.Finish();
  Act(plan, 1).set_kernel("slice"), Act(plan, 1).clear_exchange();
  Act(plan, 1).mutable_boxing()->Clear();
  Act(plan, 1).add_output(over);
  Train(plan).clear_issue();
  CHECK(Verdict(plan) == "good");
}

TEST_CASE("boxing") {
  PlanBuilder b({{"a", 2}, {"b", 2}});
  const int x = b.Register("x"), y = b.Register("y");
  const int first = b.Actor("first", 0, {}, {x}), gather = b.AllReduce("gather", 0, {0}, {x}, y);
  b.Stream("compute", 0, {{{b.Segment("F", 0, {first, gather})}, 1}});
  Plan good = b.Finish();
  const auto boxing = [](Plan& p) { return Act(p, 1).mutable_boxing(); };
  const auto split = [](Plan& p, int reg, int axis) {
    proto::Layout::Split* split = Reg(p, reg).mutable_layout()->add_split();
    split->set_dim(0), split->set_axis(axis);
  };
  // Of the device alone.
  const auto local = [](Plan& p, const char* kernel) {
    Act(p, 1).set_kernel(kernel), Act(p, 1).clear_exchange();
    Train(p).clear_issue();
  };
  // Keeps its part of x and fills the rest of y.
  const auto fill = [&](Plan& p) {
    local(p, "zero_fill"), boxing(p)->set_fill(proto::Boxing::ZERO);
  };
  Act(good, 1).set_kernel("all_gather");
  boxing(good)->clear_reduce_axis(), boxing(good)->set_reduce(proto::Boxing::NONE);
  CHECK_THAT(Verdict(good), Catch::Contains("its sources hold 32 of 16 elements"));
  split(good, x, 0);
  CheckEach(
      good,
      {{[](Plan& p) { Reg(p, 1).set_dtype(proto::I32); }, "changes the type of elements"},
       {[](Plan& p) { Reg(p, 1).mutable_layout()->set_dim(0, 8); }, "reads [16], writes [8]"},
       {[](Plan& p) { p.mutable_group(0)->set_axis(0, 1); },
        "its sources hold the part at [0] 2 times, not 1, on rank 0"},
       {[&](Plan& p) { boxing(p)->add_reduce_axis(1); },
        "reduces along axis 1, which is not its group's"},
       {[&](Plan& p) { boxing(p)->add_zero_unless_first(2); }, "zeroes along no axis"},
       {[&](Plan& p) { Reg(p, 0).mutable_layout()->clear_split(), boxing(p)->add_reduce_axis(0); },
        "sums without a reduction"},
       {[&](Plan& p) { split(p, 1, 1), local(p, "slice"); },
        "its sources hold 0 of 8 elements it needs on rank 2"},
       {[&](Plan& p) {
          local(p, "slice"), *Act(p, 1).add_input() = p.program(0).actor(1).input(0);
        },
        "a boxing has one input and one output"},
       {[&](Plan& p) { boxing(p)->set_fill(proto::Boxing::ZERO); }, "is no zero_fill"},
       {[&](Plan& p) { fill(p), boxing(p)->set_fill(static_cast<proto::Boxing::Fill>(7)); },
        "fills with 7"},
       {[&](Plan& p) { fill(p), split(p, 1, 1); }, "loses elements of rank 2"}});
}

}  // namespace oneflow
