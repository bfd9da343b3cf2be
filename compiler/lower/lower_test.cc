// Lowering of graphs built by hand: each test looks at the one thing it names.
#include <catch2/catch.hpp>

#include "compiler/lower/delay_receives.h"
#include "compiler/lower/groups.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/lower/prune.h"
#include "compiler/lower/state_programs.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
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
  const proto::ActorFacts& Facts(const std::string& name) const {
    return FindFacts(lowered.facts, Actor(name).id());
  }
};

google::protobuf::RepeatedPtrField<proto::Group> ListGroups(
    const std::vector<const Graph*>& graphs) {
  const std::vector<proto::Group> groups = FindGroups(graphs);
  return {groups.begin(), groups.end()};
}

Result Lower(const Example& example,
             const ProgramSpec& spec = {.name = "train", .micro_batches = 4}) {
  Result result;
  *result.plan.mutable_mesh() = ToProto(example.graph.mesh);
  result.plan.set_stage_axis(example.graph.mesh.stage_axis());
  PersistentIds ids;
  REQUIRE(AddPersistent(example.graph, &result.plan, &ids).ok());
  *result.plan.mutable_group() = ListGroups({&example.graph});
  result.lowered = LowerToActors(example.graph, ids, result.plan, spec).value();
  return result;
}

}  // namespace

TEST_CASE("registers hold the largest part, rounded up to 64 bytes") {
  const Result r = Lower(Example());
  CHECK(r.Reg("x").slot_bytes() == 64);   // 4 x 4 f32
  CHECK(r.Reg("y").slot_bytes() == 128);  // 4 x 6 f32 = 96
  CHECK(r.Reg("w").slot_bytes() == 128);
  CHECK(r.Reg("x").layout().split_size() == 1);
  CHECK(r.Reg("dw").layout().split_size() == 0);  // partial: whole on every device
  CHECK(r.Reg("x").id() == 3);                    // after w, w/m and w/v
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
  CHECK(r.Facts("y").flops() == 2.0 * 8 * 4 * 6 / 2);  // half of the rows each
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

TEST_CASE("boxing names its group, its reduction and its reason") {
  const Result r = Lower(Example());
  const proto::Actor& sum = r.Actor("dw.all_reduce");
  CHECK(sum.kernel() == "all_reduce");
  REQUIRE(sum.has_exchange());
  CHECK(sum.exchange().group() == 0);
  CHECK_FALSE(sum.exchange().has_partner());
  CHECK(sum.boxing().reduce() == proto::Boxing::SUM);
  CHECK(sum.boxing().reduce_axis(0) == 0);
  CHECK(r.Facts("dw.all_reduce").why() == "dw is P on data; adamw needs B");
  CHECK(r.Facts("dw.all_reduce").bytes_moved() == 4 * 6 * 4);  // from one other device
}

TEST_CASE("segments and lanes: data on the host, the rest in F, B and U") {
  Example example;
  example.graph.ops[0].attrs["source"] = std::string("tokens");
  ProgramSpec options{.name = "train", .micro_batches = 4};
  options.outputs.push_back({"report", "report", {example.norm}, {}});
  const Result r = Lower(example, options);
  std::string text;
  for (const proto::Segment& s : r.lowered.program.segment()) {
    const Lane lane = r.lowered.segments[s.id()].lane;
    text += s.name() + (lane == Lane::kCompute   ? ":compute:"
                        : lane == Lane::kHostIn  ? ":host.in:"
                        : lane == Lane::kHostOut ? ":host.out:"
                                                 : ":?:");
    text += std::to_string(s.actor_size()) + " ";
  }
  CHECK(text == "x:host.in:1 F:compute:1 B:compute:1 U:compute:4 report:host.out:1 ");
  CHECK(r.Actor("x").kernel() == "load_tokens");
  ProgramSpec fed = options;
  fed.feed_inputs = true;
  CHECK(Lower(example, fed).Actor("x").kernel() == "feed");
  CHECK(Lower(example, fed).Actor("x").attr().at("name").s() == "x");
}

namespace {

// The example on two stages. x goes on to stage 1, where it is added to itself.
Example OnTwoStages() {
  Example example("pipe=2");
  const TensorId sent =
      example.Add("transfer", "x.to1", {example.x}, {8, 4}, {B()}, Phase::kForward);
  example.graph.ops.back().stage = 1;
  example.Add("add", "z", {sent, sent}, {8, 4}, {B()}, Phase::kForward);
  example.graph.ops.back().stage = 1;
  for (Op& op : example.graph.ops) {
    if (op.kind == "all_reduce") op.kind = "gelu", op.attrs.clear();  // no axis data on this mesh
  }
  for (Tensor& tensor : example.graph.tensors) tensor.sbp = {B()};
  return example;
}

const SegmentInfo& FindInfo(const Result& r, const std::string& segment) {
  for (const proto::Segment& s : r.lowered.program.segment()) {
    if (s.name() == segment) return r.lowered.segments[s.id()];
  }
  FAIL("no segment " << segment);
  return r.lowered.segments[0];
}

}  // namespace

TEST_CASE("a transfer is a send on the one stage and a receive on the other, each in its lane") {
  const Result r = Lower(OnTwoStages());
  const proto::Actor &send = r.Actor("x.to1.send"), &receive = r.Actor("x.to1");
  CHECK(send.kernel() == "send");
  CHECK(send.stage() == 0);
  REQUIRE(send.input_size() == 1);
  CHECK(send.input(0).register_() == r.Reg("x").id());
  CHECK(send.output_size() == 0);
  CHECK_FALSE(send.has_boxing());
  CHECK(receive.kernel() == "receive");
  CHECK(receive.stage() == 1);
  CHECK(receive.input_size() == 0);
  REQUIRE(receive.output_size() == 1);
  CHECK(receive.output(0) == r.Reg("x.to1").id());
  CHECK(receive.has_boxing());
  CHECK(r.Facts("x.to1").bytes_moved() == 8 * 4 * 4);
  CHECK(r.Facts("x.to1.send").bytes_moved() == 0);
  for (const auto& [actor, partner] : {std::pair(send, receive), std::pair(receive, send)}) {
    REQUIRE(actor.has_exchange());
    CHECK(actor.exchange().group() == 0);
    REQUIRE(actor.exchange().has_partner());
    CHECK(actor.exchange().partner() == partner.id());
  }
  CHECK(r.Reg("x").stage() == 0);
  CHECK(r.Reg("x.to1").stage() == 1);
  CHECK(FindInfo(r, "x.to1.send").lane == Lane::kSendForward);
  CHECK(FindInfo(r, "x.to1.send").partner == 1);
  CHECK(FindInfo(r, "x.to1").lane == Lane::kReceiveForward);
  CHECK(FindInfo(r, "x.to1").partner == 0);
}

TEST_CASE("groups: each set of axes, then each pair of stages, once") {
  Example example("data=2,pipe=3,tensor=2");
  for (Tensor& tensor : example.graph.tensors) tensor.sbp = NdSbp(3, B());
  const auto box = [&](const std::string& kind, TensorId from, const NdSbp& to, int stage) {
    const TensorId boxed = example.Add(kind, "box", {from}, {8, 4}, to, Phase::kForward);
    example.graph.ops.back().stage = stage;
    return boxed;
  };
  const auto relaid = [&](const NdSbp& sbp) {
    return example.Add("gelu", "g", {example.x}, {8, 4}, sbp, Phase::kForward);
  };
  example.graph.tensors[example.dw].sbp = {P(), B(), B()};
  const TensorId to1 = box("transfer", example.x, NdSbp(3, B()), 1);
  box("transfer", to1, NdSbp(3, B()), 0);
  box("transfer", example.x, NdSbp(3, B()), 1);
  box("all_gather", relaid({B(), B(), S(0)}), NdSbp(3, B()), 0);
  box("all_to_all", relaid({S(0), B(), S(1)}), {S(1), B(), S(0)}, 0);
  box("slice", relaid(NdSbp(3, B())), {B(), B(), S(1)}, 0);  // of the device alone
  const auto groups = ListGroups({&example.graph, &example.graph});
  std::string names;
  for (const proto::Group& group : groups) names += group.name() + "; ";
  CHECK(names == "data; data,tensor; tensor; stage 0 to 1; stage 1 to 0; ");
  REQUIRE(groups.size() == 5);
  CHECK(groups[1].axis_size() == 2);
  CHECK_FALSE(groups[1].has_stages());
  CHECK(groups[4].axis_size() == 0);
  CHECK(groups[4].stages().from() == 1);
  CHECK(groups[4].stages().to() == 0);
  const auto found = [&](int from_the_end) {
    return FindGroup(groups, example.graph, *(example.graph.ops.end() - from_the_end));
  };
  CHECK(found(1) == -1);
  CHECK(found(3) == 1);
  CHECK(found(5) == 2);
  CHECK(found(7) == 3);
  CHECK(found(8) == 4);
}

TEST_CASE("a tensor read both once a micro-batch and once a step is refused") {
  Example example;
  example.Add("add", "bad", {example.dw, example.dw}, {4, 6}, {P()}, Phase::kBackward);
  proto::Plan plan;
  PersistentIds ids;
  REQUIRE(AddPersistent(example.graph, &plan, &ids).ok());
  *plan.mutable_group() = ListGroups({&example.graph});
  const auto lowered =
      LowerToActors(example.graph, ids, plan, {.name = "train", .micro_batches = 4});
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
  CHECK(kept.Producer(kept.loss).kind == "matmul");
  CHECK(Prune(example.graph, false, 1).ops.size() == 5);
}

// A lowered program of segments that the tests below fill; register ids begin after seven
// persistent ones.
struct Segments {
  Lowered lowered;
  proto::Program& program = lowered.program;

  Segments() { program.add_register_()->set_id(7); }

  proto::Segment* Add(const std::string& name, int stage, Lane lane, Part part, int partner = -1,
                      int chunk = 0) {
    proto::Segment* s = program.add_segment();
    s->set_id(program.segment_size() - 1);
    s->set_name(name);
    s->set_stage(stage);
    lowered.segments.push_back({lane, {part, chunk}, 1, partner});
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
  std::vector<int> FindActors(int s) const {
    return {program.segment(s).actor().begin(), program.segment(s).actor().end()};
  }
};

TEST_CASE("the first receives of a stage's update wait for the stage's backward") {
  Segments s;
  s.Add("B", 0, Lane::kCompute, Part::kBackward);
  s.Add("U", 0, Lane::kCompute, Part::kUpdate);
  s.Add("grad.to0", 0, Lane::kReceiveUpdate, Part::kUpdate, 2);
  s.Add("norm.to0", 0, Lane::kReceiveUpdate, Part::kUpdate, 2);
  s.Add("other.to0", 0, Lane::kReceiveUpdate, Part::kUpdate, 1);
  s.Add("U", 1, Lane::kCompute, Part::kUpdate);  // receives nothing
  s.Add("norm.send", 1, Lane::kSendUpdate, Part::kUpdate, 0);
  s.Add("norm.to2", 2, Lane::kReceiveUpdate, Part::kUpdate, 0);  // updates nothing
  DelayUpdateReceives(&s.lowered);

  const proto::Program& program = s.program;
  REQUIRE(program.actor_size() == 9);
  CHECK(s.FindActors(1) == std::vector<int>{8, 1});
  for (const int segment : {0, 2, 3, 4, 5, 6, 7}) {
    CHECK(s.FindActors(segment) == std::vector<int>{segment});
  }
  REQUIRE(program.register__size() == 2);
  CHECK(program.register_(1).id() == 8);
  CHECK(program.register_(1).slot_bytes() == 0);
  CHECK(program.actor(8).kernel().empty());
  CHECK(program.actor(8).output(0) == 8);
  for (const proto::Actor& actor : program.actor()) {
    const bool held_back = actor.id() == 2 || actor.id() == 4;
    INFO(actor.id());
    REQUIRE(actor.input_size() == (held_back ? 1 : 0));
    if (held_back) CHECK(actor.input(0).register_() == 8);
  }
}

}  // namespace oneflow
