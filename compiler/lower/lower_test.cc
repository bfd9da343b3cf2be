// Lowering of graphs built by hand: each test looks at the one thing it names.
#include <catch2/catch.hpp>

#include "compiler/lower/hold_back.h"
#include "compiler/lower/keep_in_step.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/lower/prune.h"
#include "compiler/lower/state_programs.h"
#include "oneflow_core/plan/plan_text.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// y = x w on mesh data=2: x split, dw partial, summed once a step; w updated by adamw.
struct Example {
  Graph graph;
  TensorId x, w, y, dw, sum, norm;

  explicit Example(const std::string& mesh = "data=2") {
    graph.mesh = *ParseMesh(mesh);
    x = Add("input", "x", {}, {8, 4}, {S(0)}, Phase::kForward);
    w = Add("variable", "w", {}, {4, 6}, {B()}, Phase::kForward);
    const TensorId m = Add("variable", "w/m", {}, {4, 6}, {B()}, Phase::kUpdate);
    const TensorId v = Add("variable", "w/v", {}, {4, 6}, {B()}, Phase::kUpdate);
    y = Add("matmul", "y", {x, w}, {8, 6}, {S(0)}, Phase::kForward);
    dw = Add("matmul_grad_b", "dw", {x, y}, {4, 6}, {P()}, Phase::kBackward);
    sum = Add("all_reduce", "dw.all_reduce", {dw}, {4, 6}, {B()}, Phase::kUpdate);
    graph.ops.back().attrs["axis"] = std::string("data");
    graph.ops.back().why = "dw is P on data; adamw needs B";
    const TensorId squares = Add("sum_squares", "s", {sum}, {}, {B()}, Phase::kUpdate);
    norm = Add("global_norm", "norm", {squares}, {}, {B()}, Phase::kUpdate);
    const OpId adamw = graph.AddOp("adamw", "w/adamw", {w, m, v, sum, norm}, {}, 3);
    graph.ops[adamw].phase = Phase::kUpdate;
    for (TensorId t : graph.ops[adamw].outputs)
      graph.tensors[t].shape = Shape{4, 6}, graph.tensors[t].sbp = {B()};
  }

  TensorId Add(std::string kind, std::string name, std::vector<TensorId> inputs, Dims dims,
               NdSbp sbp, Phase phase) {
    const OpId op = graph.AddOp(std::move(kind), std::move(name), std::move(inputs), {});
    graph.ops[op].phase = phase;
    const TensorId t = graph.ops[op].outputs[0];
    graph.tensors[t].shape = Shape(std::move(dims));
    graph.tensors[t].sbp = std::move(sbp);
    return t;
  }
};

struct Result {
  proto::Plan plan;
  Lowered lowered;
  const proto::Register& Reg(const std::string& name) const {
    for (const auto& r : plan.persistent()) {
      if (r.name() == name) return r;
    }
    for (const auto& r : lowered.program.register_()) {
      if (r.name() == name) return r;
    }
    FAIL("no register " << name);
    return plan.persistent(0);
  }
  const proto::Actor& Actor(const std::string& name) const {
    for (const auto& a : lowered.program.actor()) {
      if (a.name() == name) return a;
    }
    FAIL("no actor " << name);
    return lowered.program.actor(0);
  }
};

Result Lower(const Example& example, LowerOptions options = {.name = "train", .micro_batches = 4}) {
  Result result;
  *result.plan.mutable_mesh() = ToProto(example.graph.mesh);
  result.plan.set_stage_axis(example.graph.mesh.stage_axis());
  PersistentIds ids;
  REQUIRE(AddPersistent(example.graph, &result.plan, &ids).ok());
  auto lowered = LowerToActors(example.graph, ids, options);
  INFO(lowered.status().ToString());
  REQUIRE(lowered.ok());
  result.lowered = *std::move(lowered);
  return result;
}

}  // namespace

TEST_CASE("registers hold the largest part, rounded up to 64 bytes") {
  const Result r = Lower(Example());
  CHECK(r.Reg("x").slot_bytes() == 64);   // 4 x 4 f32
  CHECK(r.Reg("y").slot_bytes() == 128);  // 4 x 6 f32 = 96
  CHECK(r.Reg("w").slot_bytes() == 128);
  CHECK(r.Reg("x").layout().cut_size() == 1);
  CHECK(r.Reg("dw").layout().cut_size() == 0);  // partial: whole on every device
  CHECK(r.Reg("x").id() == 3);                  // after w, w/m and w/v
}

TEST_CASE(
    "rates: a gradient accumulates over the micro-batches, a variable is read by all of them") {
  const Result r = Lower(Example());
  CHECK(r.Reg("dw").fill_mode() == proto::Register::ACCUMULATE);
  CHECK(r.Reg("dw").fires_per_fill() == 4);
  CHECK(r.Reg("y").fill_mode() == proto::Register::FRESH);
  CHECK(r.Reg("w").fill_mode() == proto::Register::UPDATE);
  const proto::Actor& y = r.Actor("y");
  CHECK(y.input(1).register_() == r.Reg("w").id());
  CHECK(y.input(1).fires_per_read() == 4);
  CHECK(y.input(1).initial_fills() == 1);
  CHECK(y.input(0).fires_per_read() == 1);
  CHECK(y.flops() == 2.0 * 8 * 4 * 6 / 2);  // half of the rows each
}

TEST_CASE("adamw reads gradient and norm, and writes its variable in place") {
  const Result r = Lower(Example());
  const proto::Actor& adamw = r.Actor("w/adamw");
  REQUIRE(adamw.input_size() == 2);
  CHECK(adamw.input(0).register_() == r.Reg("dw.all_reduce").id());
  CHECK(adamw.input(1).register_() == r.Reg("norm").id());
  REQUIRE(adamw.output_size() == 3);
  CHECK(adamw.output(0) == r.Reg("w").id());
  CHECK(adamw.output(1) == r.Reg("w/m").id());
  CHECK(adamw.output(2) == r.Reg("w/v").id());
}

TEST_CASE("boxing names its peers, its reduction and its reason") {
  const Result r = Lower(Example());
  const proto::Actor& sum = r.Actor("dw.all_reduce");
  CHECK(sum.kernel() == "all_reduce");
  REQUIRE(sum.input(0).peers().along_size() == 1);
  CHECK(sum.input(0).peers().along(0) == 0);
  CHECK(sum.boxing().reduce() == proto::Boxing::SUM);
  CHECK(sum.boxing().reduce_axis(0) == 0);
  CHECK(sum.boxing().why() == "dw is P on data; adamw needs B");
  CHECK(sum.bytes_moved() == 4 * 6 * 4);  // from one other device
}

TEST_CASE("segments and lanes: data on the host, the rest in F, B and U") {
  Example example;
  example.graph.ops[0].attrs["source"] = std::string("tokens");
  LowerOptions options{.name = "train", .micro_batches = 4};
  options.outputs.push_back({"report", "report", {example.norm}, {}});
  const Result r = Lower(example, options);
  std::string text;
  for (const proto::Segment& s : r.lowered.program.segment()) {
    text += s.name() + ":" + std::to_string(static_cast<int>(r.lowered.segments[s.id()].lane)) +
            ":" + std::to_string(s.actor_size()) + " ";
  }
  CHECK(text == "x:4:1 F:0:1 B:0:1 U:0:4 report:5:1 ");
  CHECK(r.Actor("x").kernel() == "load_tokens");
  LowerOptions fed = options;
  fed.feed_inputs = true;
  CHECK(Lower(example, fed).Actor("x").kernel() == "feed");
  CHECK(Lower(example, fed).Actor("x").attr().at("name").s() == "x");
}

TEST_CASE("a transfer is an actor of the receiving stage, on a copy lane of its own") {
  Example example("pipe=2");
  for (Op& op : example.graph.ops) {
    if (op.name != "x" && op.name != "dw.all_reduce") op.stage = 0;
  }
  // x goes on to stage 1, where it is added to itself.
  const TensorId sent =
      example.Add("transfer", "x.to1", {example.x}, {8, 4}, {B()}, Phase::kForward);
  example.graph.ops.back().stage = 1;
  example.Add("add", "z", {sent, sent}, {8, 4}, {B()}, Phase::kForward);
  example.graph.ops.back().stage = 1;
  for (Op& op : example.graph.ops) {
    if (op.kind == "all_reduce") op.kind = "gelu", op.attrs.clear();  // no axis data on this mesh
  }
  for (Tensor& tensor : example.graph.tensors) tensor.sbp = {B()};
  const Result r = Lower(example);
  const proto::Actor& transfer = r.Actor("x.to1");
  CHECK(transfer.stage() == 1);
  CHECK(transfer.has_boxing());
  CHECK(transfer.input(0).peers().along_size() == 0);
  CHECK(transfer.bytes_moved() == 8 * 4 * 4);
  CHECK(r.Reg("x").stage() == 0);
  CHECK(r.Reg("x.to1").stage() == 1);
  for (const proto::Segment& s : r.lowered.program.segment()) {
    if (s.name() == "x.to1") CHECK(r.lowered.segments[s.id()].lane == Lane::kCopyForward);
  }
}

TEST_CASE("a tensor read both once a micro-batch and once a step is refused") {
  Example example;
  example.Add("add", "bad", {example.dw, example.dw}, {4, 6}, {P()}, Phase::kBackward);
  proto::Plan plan;
  PersistentIds ids;
  REQUIRE(AddPersistent(example.graph, &plan, &ids).ok());
  const auto lowered = LowerToActors(example.graph, ids, {.name = "train", .micro_batches = 4});
  CHECK(lowered.status().message().find("op dw: is read both once a micro-batch and once a step") ==
        0);
}

TEST_CASE("state programs touch every register; save gives each variable once") {
  const Result r = Lower(Example());
  CHECK(InitProgram(r.plan).program.actor_size() == 3);
  CHECK(LoadProgram(r.plan).program.actor_size() == 3);
  const proto::Program save = SaveProgram(r.plan).program;
  REQUIRE(save.actor_size() == 3);
  CHECK(save.actor(0).attr().at("name").s() == "w");
  CHECK(save.actor(0).attr().at("replicated_axes").ints().value(0) == 0);  // all of data=2 hold it
}

TEST_CASE("variables keep their layout in later programs") {
  Example first;
  first.graph.tensors[first.w].sbp = {S(1)};
  const Result r = Lower(first);
  Example second;
  ConstrainVariables(r.plan, &second.graph);
  CHECK(second.graph.tensors[second.w].constraint.at("data") == S(1));
  proto::Plan plan = r.plan;
  PersistentIds ids = {{{"w", 0}, 0}, {{"w/m", 0}, 1}, {{"w/v", 0}, 2}};
  CHECK_FALSE(AddPersistent(second.graph, &plan, &ids).ok());  // not applied: w is B there
}

TEST_CASE("pruning keeps what the loss needs and renumbers it") {
  Example example;
  example.graph.loss = example.y;
  example.graph.outputs = {example.sum};
  const Graph kept = Prune(example.graph, /*loss=*/true, /*outputs=*/0);
  CHECK(kept.ops.size() == 3);
  CHECK(kept.tensors[kept.loss].name == "y");
  CHECK(kept.outputs.empty());
  CHECK(kept.ProducerOf(kept.loss).kind == "matmul");
  CHECK(Prune(example.graph, false, 1).ops.size() == 5);
}

// A lowered program of segments that the tests below fill; register ids begin after seven
// persistent ones.
struct Segments {
  Lowered lowered;
  proto::Program& program = lowered.program;

  Segments() { program.add_register_()->set_id(7); }

  proto::Segment* Add(const std::string& name, int stage, Lane lane, Part part) {
    proto::Segment* s = program.add_segment();
    s->set_id(program.segment_size() - 1);
    s->set_name(name);
    s->set_stage(stage);
    lowered.segments.push_back({lane, {part}});
    AddActor(s);
    return s;
  }
  proto::Actor* AddActor(proto::Segment* segment) {
    proto::Actor* actor = program.add_actor();
    actor->set_id(program.actor_size() - 1);
    actor->set_stage(segment->stage());
    segment->add_actor(actor->id());
    return actor;
  }
  std::vector<int> ActorsOf(int s) const {
    return {program.segment(s).actor().begin(), program.segment(s).actor().end()};
  }
};

TEST_CASE("the first copy of a stage's update waits for the stage's backward") {
  Segments s;
  s.Add("B", 0, Lane::kCompute, Part::kBackward);
  s.Add("U", 0, Lane::kCompute, Part::kUpdate);
  s.Add("grad.to0", 0, Lane::kCopyUpdate, Part::kUpdate);
  s.Add("norm.to0", 0, Lane::kCopyUpdate, Part::kUpdate);
  s.Add("U", 1, Lane::kCompute, Part::kUpdate);  // copies nothing
  HoldBackUpdateCopies(&s.lowered);

  const proto::Program& program = s.program;
  REQUIRE(program.actor_size() == 7);
  CHECK(s.ActorsOf(0) == std::vector<int>{0});
  CHECK(s.ActorsOf(1) == std::vector<int>{5, 1});
  CHECK(s.ActorsOf(2) == std::vector<int>{6, 2});
  CHECK(s.ActorsOf(3) == std::vector<int>{3});
  CHECK(s.ActorsOf(4) == std::vector<int>{4});
  REQUIRE(program.register__size() == 2);
  CHECK(program.register_(1).id() == 8);
  CHECK(program.register_(1).slot_bytes() == 0);
  CHECK(program.actor(5).output(0) == 8);
  CHECK(program.actor(6).input(0).register_() == 8);
}

TEST_CASE("peers that read much of each other in the update hear that they have") {
  Segments s;
  s.Add("B", 0, Lane::kCompute, Part::kBackward);
  proto::Segment* update = s.Add("U", 0, Lane::kCompute, Part::kUpdate);
  // Reads of registers 8 to 11, of which 8, 10 and 11 are peers'; 10 alone is too little.
  const std::vector<std::pair<int64_t, std::vector<int>>> reads = {
      {1 << 20, {1}}, {1 << 20, {}}, {64, {0}}, {1 << 20, {1, 2}}};
  for (const auto& [bytes, axes] : reads) {
    proto::Register* r = s.program.add_register_();
    r->set_id(7 + s.program.register__size() - 1);
    r->set_slot_bytes(bytes);
    proto::Actor* reader = s.AddActor(update);
    reader->set_name(absl::StrCat("sum", r->id()));
    proto::Input* input = reader->add_input();
    input->set_register_(r->id());
    input->mutable_peers()->mutable_along()->Add(axes.begin(), axes.end());
  }
  KeepUpdateInStep(&s.lowered);

  const proto::Program& program = s.program;
  CHECK(s.ActorsOf(0) == std::vector<int>{0});
  CHECK(s.ActorsOf(1) == std::vector<int>{1, 2, 6, 7, 3, 4, 5, 8, 9});
  REQUIRE(program.register__size() == 7);
  const auto check = [&](int tells, int hears, const proto::Register& control,
                         const std::vector<int>& axes) {
    CHECK(control.slot_bytes() == 0);
    CHECK(program.actor(tells).output(0) == control.id());
    REQUIRE(program.actor(hears).input_size() == 1);
    const proto::Input& input = program.actor(hears).input(0);
    CHECK(input.register_() == control.id());
    CHECK(std::vector<int>(input.peers().along().begin(), input.peers().along().end()) == axes);
  };
  check(6, 7, program.register_(5), {1});
  check(8, 9, program.register_(6), {0, 1, 2});
  CHECK(program.actor(6).name() == "sum8.read");
  CHECK(program.actor(7).name() == "sum8.read_by_peers");
}

}  // namespace oneflow
