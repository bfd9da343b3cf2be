// End to end: a small GPT on every kind of mesh compiles, and its plan passes the proof and a few
// laws.
#include "compiler/compile.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/compile_for_test.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/fingerprint.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

proto::Graph SmallGraph(int64_t layers = 2, int64_t heads = 4) {
  proto::Model config = SmallGpt(layers);
  config.set_heads(heads);
  return BuildModel(config);
}

const proto::Program& Program(const proto::Plan& plan, const std::string& name) {
  const proto::Program* program = FindProgram(plan, name);
  REQUIRE(program != nullptr);
  return *program;
}

int FindSlots(const proto::Plan& plan, const std::string& name) {
  for (const proto::Register& r : Program(plan, "train").register_()) {
    if (r.name() == name) return r.slots();
  }
  FAIL("no register " << name);
  return 0;
}

std::string Refusal(const proto::Graph& graph, const PlanRequest& options) {
  return std::string(ToStd(Compile(graph, "gpt", options).status().message()));
}

}  // namespace

TEST_CASE("a GPT compiles on all products of data, tensor and pipe") {
  for (const std::string mesh : {"", "data=2", "tensor=2", "pipe=2", "data=2,tensor=2",
                                 "pipe=2,data=2", "pipe=2,tensor=2", "pipe=2,data=2,tensor=2"}) {
    for (const std::string schedule : {"gpipe", "1f1b", "zero_bubble"}) {
      INFO("mesh " << mesh << ", schedule " << schedule);
      const auto plan = Compile(SmallGraph(), "gpt", OptionsFor(mesh, 8, 4, schedule)).value();
      CHECK(VerifyPlan(plan).ok());
      CHECK(plan.fingerprint() == Fingerprint(plan));
      proto::Plan bare = plan;
      bare.clear_facts();
      CHECK(VerifyPlan(bare).ok());
      CHECK(bare.fingerprint() == Fingerprint(bare));
      std::string programs;
      for (const proto::Program& program : plan.program()) programs += program.name() + " ";
      CHECK(programs == "init train eval generate save load ");
    }
  }
}

TEST_CASE("only train drops out") {
  proto::Model config = SmallGpt();
  config.set_dropout(0.1);
  const auto plan =
      Compile(BuildModel(config), "gpt", OptionsFor("pipe=2,data=2,tensor=2", 8, 4)).value();
  for (const proto::Program& program : plan.program()) {
    int forward = 0, backward = 0;
    for (const proto::Actor& actor : program.actor()) {
      if (actor.kernel() == "dropout") ++(actor.attr().contains("mask") ? backward : forward);
    }
    INFO(program.name());
    CHECK(forward == (program.name() == "train" ? 5 : 0));
    CHECK(backward == forward);
  }
}

TEST_CASE("compiling is a function: equal arguments, equal bytes") {
  const PlanRequest options = OptionsFor("pipe=2,data=2,tensor=2", 16, 4);
  CHECK(Compile(SmallGraph(), "gpt", options)->fingerprint() ==
        Compile(SmallGraph(), "gpt", options)->fingerprint());
}

TEST_CASE("1f1b keeps P - s micro-batches of what backward needs, gpipe all") {
  const auto one = Compile(SmallGraph(4), "gpt", OptionsFor("pipe=4", 8, 8, "1f1b"));
  const auto all = Compile(SmallGraph(4), "gpt", OptionsFor("pipe=4", 8, 8, "gpipe"));
  for (int stage = 0; stage < 4; ++stage) {
    const std::string saved = "h." + std::to_string(stage) + ".mlp.gelu";
    CHECK(FindSlots(*one, saved) == 4 - stage);
    CHECK(FindSlots(*all, saved) == 8);
    CHECK(one->memory(stage).arena_bytes() < all->memory(stage).arena_bytes());
  }
}

// The most micro-batches that a stage's compute stream keeps of what it makes for itself.
int MostSaved(const proto::Plan& plan, int stage) {
  const auto net = MakePlanNet(plan, Program(plan, "train")).value();
  int most = 0;
  for (const NetRegister& r : net.registers) {
    if (r.persistent || r.proto->stage() != stage || r.writer < 0) continue;
    const int stream = net.actors[r.writer].stream;
    bool ours = net.streams[stream].proto->name() == "compute" && !r.readers.empty();
    for (const NetReader& reader : r.readers) {
      ours = ours && net.actors[reader.actor].stream == stream;
    }
    if (ours) most = std::max(most, r.proto->slots());
  }
  return most;
}

TEST_CASE("a stage saves what its schedule says, not more") {
  for (const int m : {2, 3, 8, 40}) {
    for (const int64_t extra : {0, 2}) {
      PlanRequest options = OptionsFor("pipe=4", m, m);
      options.recipe.set_extra_in_flight(extra);
      const auto one = Compile(SmallGraph(4), "gpt", options);
      options.recipe.set_schedule("zero_bubble");
      const auto zero = Compile(SmallGraph(4), "gpt", options);
      REQUIRE(one.ok());
      REQUIRE(zero.ok());
      for (int s = 0; s < 4; ++s) {
        INFO("m " << m << ", extra " << extra << ", stage " << s);
        CHECK(MostSaved(*one, s) == std::min<int64_t>(m, 4 - s + (s < 3 ? extra : 0)));
        CHECK(MostSaved(*zero, s) == std::min<int64_t>(m, 4 + extra));
      }
      // With slack neighbours wait for each other's slots; what is fetched ahead has its one, no
      // more.
      CHECK(FindSlots(*one, "tokens") <= 4 + extra + 1);
      CHECK(FindSlots(*zero, "tokens") <= 4 + extra + 2);
    }
  }
}

TEST_CASE("two chunks a stage: each keeps what its own way round the ring takes") {
  const auto plan =
      Compile(SmallGraph(4), "gpt", OptionsFor("pipe=2", 8, 8, "interleaved")).value();
  // Blocks 0 and 2 are chunks of stage 0, 1 and 3 of stage 1.
  for (const proto::Actor& actor : Program(plan, "train").actor()) {
    if (actor.name() == "h.2.mlp.fc") CHECK(actor.stage() == 0);
    if (actor.name() == "h.1.mlp.fc") CHECK(actor.stage() == 1);
  }
  // Stage 0 starts F0 F0 F1 F1, goes on with a forward and a backward in turn.
  CHECK(FindSlots(plan, "h.0.mlp.gelu") == 4);
  CHECK(FindSlots(plan, "h.2.mlp.gelu") == 2);
  CHECK(FindSlots(plan, "h.3.mlp.gelu") == 1);
  CHECK(Refusal(SmallGraph(4), OptionsFor("pipe=4", 8, 8, "interleaved")) ==
        "pipe=4, chunks=2: is more stages than the 4 layers of \"gpt\"; use fewer chunks or "
        "stages, or a schedule of one chunk");
}

TEST_CASE("arenas stay near their lower bound") {
  for (const auto& [mesh, slack] :
       {std::pair("", 1.02), std::pair("tensor=2", 1.1), std::pair("pipe=2,data=2", 1.1)}) {
    const auto plan = Compile(SmallGraph(6), "gpt", OptionsFor(mesh, 16, 4));
    for (const proto::StageMemory& m : plan->memory()) {
      const int64_t bound = LowerBoundBytes(*plan, m.stage());
      INFO("mesh " << mesh << ": " << m.arena_bytes() << " of " << bound);
      CHECK(m.arena_bytes() >= bound);
      CHECK(static_cast<double>(m.arena_bytes()) <= slack * static_cast<double>(bound));
    }
  }
}

TEST_CASE("a plan does not grow with symmetric axes nor with micro-batches") {
  // Where firings and messages cost nothing: else small sums go in one step over few devices and in
  // two over many. 8 heads are split by 4 devices as by 8.
  const auto compile = [](const char* mesh, int64_t m) {
    PlanRequest options = OptionsFor(mesh, 64, m);
    options.cluster.mutable_device()->set_firing_seconds(1e-15);
    options.cluster.add_level()->set_size(8);
    return Compile(SmallGraph(2, 8), "gpt", options);
  };
  const auto small = compile("data=4", 2), large = compile("data=8", 8);
  CHECK(Program(*small, "train").actor_size() == Program(*large, "train").actor_size());
  CHECK(Program(*small, "train").register__size() == Program(*large, "train").register__size());
  CHECK(small->ByteSizeLong() + 256 > large->ByteSizeLong());
}

TEST_CASE("all programs share the registers of train") {
  // The head is split over tensor: eval and generate read the very registers that train writes.
  const auto plan = Compile(SmallGraph(), "gpt", OptionsFor("tensor=2", 8, 2));
  int split = 0;
  for (const proto::Register& r : plan->persistent())
    split += r.name() == "wte" && r.layout().split_size() == 1;
  CHECK(split == 1);
}

TEST_CASE("a graph without a loss becomes a program run with raw and resolved outputs") {
  const auto source = ParseGraphSource(R"g(
      name: "mm" output: "y"
      op { name: "x" kind: "input" shape { dim { size: 4 } dim { size: 6 } } sbp { on { key: "data" value: "S(1)" } } }
      op { name: "w" kind: "input" shape { dim { size: 6 } dim { size: 8 } } sbp { on { key: "data" value: "S(0)" } } }
      op { name: "y" kind: "matmul" input: "x" input: "w" sbp { on { key: "data" value: "P" } } })g",
                                       "mm")
                          .value();
  const auto plan = Compile(source.graph, "mm", OptionsFor("data=2", 1, 1)).value();
  CHECK(FindProgram(plan, "train") == nullptr);
  std::string text;
  for (const proto::Actor& a : Program(plan, "run").actor()) text += a.kernel() + " ";
  CHECK(text == "feed feed matmul all_reduce fetch fetch ");
}

TEST_CASE("weights split over data are gathered where they are read") {
  proto::Graph graph = SmallGraph();
  for (proto::Op& op : *graph.mutable_op()) {
    if (op.kind() == "variable")
      (*(op.sbp_size() > 0 ? op.mutable_sbp(0) : op.add_sbp())->mutable_on())["data"] = "S(0)";
  }
  for (const std::string mesh : {"data=2", "pipe=2,data=2", "data=2,tensor=2"}) {
    INFO("mesh " << mesh);
    const auto plan = Compile(graph, "gpt", OptionsFor(mesh, 16, 4));
    const auto replicated = Compile(SmallGraph(), "gpt", OptionsFor(mesh, 16, 4));
    INFO(plan.status().ToString());
    REQUIRE(plan.ok());
    CHECK(plan->memory(0).persistent_bytes() < 0.7 * replicated->memory(0).persistent_bytes());
    bool gathers = false;
    for (const proto::Actor& a : Program(*plan, "train").actor())
      gathers |= a.kernel() == "all_gather";
    CHECK(gathers);
  }
}

TEST_CASE("ragged and factored meshes compile, with more of everything") {
  for (const auto& [mesh, batch, m] :
       {std::tuple("data=3", 12, 3), std::tuple("data=2", 6, 2),
        std::tuple("data=2x2,tensor=2", 16, 2), std::tuple("tensor=3", 4, 2),
        std::tuple("pipe=4,data=2,tensor=2", 32, 8), std::tuple("pipe=2", 3, 3)}) {
    for (const std::string schedule : {"gpipe", "1f1b"}) {
      INFO("mesh " << mesh << ", schedule " << schedule);
      const auto plan = Compile(SmallGraph(4), "gpt", OptionsFor(mesh, batch, m, schedule));
      const auto alone = Compile(SmallGraph(4), "gpt", OptionsFor("", batch, m, schedule));
      INFO(plan.status().ToString());
      REQUIRE((plan.ok() && alone.ok()));
      const int64_t most = alone->memory(0).arena_bytes();
      for (const proto::StageMemory& m : plan->memory()) CHECK(m.arena_bytes() < most);
      CHECK(Program(*plan, "train").micro_batches() == m);
    }
  }
}

TEST_CASE("a tensor lies alike at every pipe degree, also where no constraint says how") {
  const auto layouts = [](const std::string& mesh) {
    const auto plan = Compile(SmallGraph(4), "gpt", OptionsFor(mesh, 8, 2)).value();
    std::map<std::string, std::string> result;
    for (const proto::Register& r : Program(plan, "train").register_()) {
      std::string& text = result[r.name()];
      for (const auto& split : r.layout().split()) {
        text += plan.mesh().axis(split.axis()).name() + std::to_string(split.dim()) + " ";
      }
    }
    return result;
  };
  const auto one = layouts("expert=2,data=2"), four = layouts("pipe=4,expert=2,data=2");
  for (const auto& [name, splits] : one) {
    INFO(name);
    REQUIRE(four.contains(name));
    CHECK(four.at(name) == splits);
  }
}

TEST_CASE(
    "sequence parallelism where it is no dearer: activations between blocks take less memory") {
  PlanRequest options = OptionsFor("tensor=2", 2, 2);
  options.cluster.add_level()->set_size(2);  // messages cost nothing: no tensor is too small
  options.cluster.mutable_device()->set_firing_seconds(1e-15);
  const auto replicated = Compile(SmallGraph(), "gpt", options);
  options.recipe.set_sequence_parallel(true);
  const auto split = Compile(SmallGraph(), "gpt", options);
  REQUIRE(replicated.ok());
  INFO(split.status().ToString());
  REQUIRE(split.ok());
  CHECK(split->memory(0).register_bytes() < replicated->memory(0).register_bytes());
  for (const proto::Register& r : Program(*split, "train").register_()) {
    if (r.name() != "h.1.attn.add" && r.name() != "h.0.ln_2") continue;
    REQUIRE(r.layout().split_size() == 1);
    CHECK(r.layout().split(0).dim() == 1);
  }
}

TEST_CASE("one stage sums the squares; the others receive the norm") {
  const auto plan = Compile(SmallGraph(4), "gpt", OptionsFor("pipe=4", 4, 2)).value();
  int norms = 0, sent_norms = 0;
  for (const proto::Actor& actor : Program(plan, "train").actor()) {
    norms += actor.kernel() == "global_norm";
    sent_norms += actor.kernel() == "receive" && actor.name().starts_with("grad_norm.to");
  }
  CHECK(norms == 1);
  CHECK(sent_norms == 3);
}

TEST_CASE("mistakes are refused with their numbers and the hint") {
  const proto::Graph gpt = SmallGraph();
  CHECK(Refusal(gpt, OptionsFor("", 10, 4)) ==
        "--micro_batches=4: do not divide the batch of 10; use a batch of 12, or a divisor of 10");
  CHECK(Refusal(gpt, OptionsFor("data=4", 4, 2)) ==
        "--batch=4 in 2 micro-batches: a micro-batch of 2 sequences cannot be split over 4 data "
        "parts of the mesh "
        "data=4; use a batch of at least 8, fewer micro-batches or fewer data parts");
  CHECK_FALSE(Refusal(gpt, OptionsFor("pipe=3", 4, 2)).empty());  // two blocks for three stages
  PlanRequest none = OptionsFor("", 1, 1);
  none.recipe.set_batch(0);
  CHECK_THAT(Refusal(gpt, none), Catch::StartsWith("--batch=0: is out of range"));
  proto::Graph short_graph;
  proto::Op* op = short_graph.add_op();
  op->set_name("x");
  op->set_kind("input");
  op->mutable_shape()->add_dim()->set_size(4);
  short_graph.set_name("g");
  short_graph.add_output("x");
  CHECK(Refusal(short_graph, OptionsFor("pipe=1000", 4, 1)) ==
        "--mesh=pipe=1000: is more stages than the 1 ops of \"g\"; use pipe=1 or less");
  (*op->mutable_attr())["input"].set_s("y");
  CHECK(Refusal(short_graph, OptionsFor("", 4, 1)) ==
        "op x: attribute \"input\" is the compiler's own; leave it out");
  PlanRequest tight = OptionsFor("", 8, 2);
  tight.cluster.mutable_device()->set_memory_bytes(100000);
  const auto plan = Compile(gpt, "gpt", tight);
  CHECK(plan.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(plan.status().message().find("too many") != absl::string_view::npos);
  proto::Graph aimless = gpt;
  aimless.clear_loss();
  aimless.clear_output();
  CHECK(Refusal(aimless, OptionsFor("", 4, 2)).find("has neither a loss nor an output") !=
        std::string::npos);
}

}  // namespace oneflow
