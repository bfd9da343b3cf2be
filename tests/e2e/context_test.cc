// Long sequences: axes that split positions give the losses of one device, beside all other axes,
// and what changes no bit elsewhere changes none here. What is kept for the backward shrinks.
#include <string>
#include <vector>

#include "catch2/catch.hpp"
#include "compiler/compile.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/mesh.h"
#include "tests/e2e/add_sinks.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

struct Model {
  int64_t groups = 4;  // of the 4 heads
  int64_t window = 0;
  int64_t experts = 0;
  double capacity = 0;
  bool documents = false;
  bool gpt = false;    // positions are rows of a table
  bool sinks = false;  // and scores are scaled and capped
};

proto::Model Config(const Model& model) {
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(2), config.set_hidden(16), config.set_inner(12), config.set_heads(4);
  config.set_groups(model.groups), config.set_window(model.window);
  config.set_head_dim(4), config.set_sequence(32), config.set_vocab(24), config.set_tied(true);
  config.set_experts(model.experts), config.set_experts_per_token(2);
  if (model.capacity > 0) config.set_slots(model.capacity), config.set_slot_groups(4);
  if (model.experts > 0) config.set_routed_positions(4);
  return config;
}

// Exchanges cost little beside what devices compute, as with long sequences: work is split.
proto::Cluster FastLinks() {
  proto::Cluster cluster;
  proto::Level* level = cluster.add_level();
  level->set_size(16);
  level->set_bandwidth(1e13);
  level->set_latency(1e-12);
  return cluster;
}

// Micro-batches of one sequence: there is nothing else to split than its positions.
SmallRun MakeRun(const std::string& mesh, const Model& model = {}) {
  SmallRun run;
  const proto::Model config = Config(model);
  run.model.set_vocab(config.vocab()), run.model.set_sequence(config.sequence());
  if (model.gpt) {
    run.model.set_layers(2);
  } else {
    run.edit = [config, sinks = model.sinks](proto::Graph* graph) {
      *graph = BuildModel(config);
      if (sinks) AddSinks(config.groups(), config.heads() / config.groups(), graph);
    };
  }
  run.recipe.set_documents(model.documents);
  run.cluster = FastLinks();
  run.Set("mesh", mesh);
  run.Set("--batch=2 --micro_batches=2");
  return run;
}

const std::vector<std::string> kMeshes = {
    "context=2",          "context=4",          "context=8",   "pipe=2,context=2",
    "context=2,tensor=2", "tensor=2,context=4", "context=2x2", "pipe=2,context=2,tensor=2"};
const std::vector<std::string> kFewMeshes = {"context=4", "pipe=2,context=2"};

int64_t CountKernels(const proto::Plan& plan, const std::string& kernel) {
  int64_t count = 0;
  for (const proto::Program& program : plan.program()) {
    for (const proto::Actor& actor : program.actor()) count += actor.kernel() == kernel;
  }
  return count;
}

TEST_CASE("20 steps with positions split over devices give the losses of one within 1e-5") {
  for (const Model& model :
       {Model{}, Model{.groups = 1}, Model{.documents = true}, Model{.window = 5},
        Model{.gpt = true}, Model{.groups = 2, .window = 9, .documents = true, .sinks = true}}) {
    const SmallResult one = Train(MakeRun("", model));
    REQUIRE(one.losses.back() < one.losses.front() - 0.5);  // it learns
    const bool plain = model.groups == 4 && model.window == 0 && !model.gpt;
    for (const std::string& mesh : plain ? kMeshes : kFewMeshes) {
      INFO(mesh << ", groups " << model.groups << ", window " << model.window
                << (model.documents ? ", documents" : "") << (model.gpt ? ", gpt" : ""));
      CHECK(LargestDifference(Train(MakeRun(mesh, model)), one) < 1e-5);
    }
  }
}

TEST_CASE("positions and the batch may be split together") {
  SmallRun run = MakeRun("");
  run.Set("--batch=8");
  const SmallResult one = Train(run);
  for (const std::string mesh : {"data=2,context=2", "context=2,data=4", "context=4"}) {
    INFO(mesh);
    run.Set("mesh", mesh);
    CHECK(LargestDifference(Train(run), one) < 1e-5);
  }
}

TEST_CASE("runs of tokens that queue for experts lie on one device each") {
  for (const double capacity : {0.0, 1.25}) {
    const Model model{.experts = 4, .capacity = capacity};
    SmallRun run = MakeRun("", model);
    run.Set("--batch=4");
    const SmallResult one = Train(run);
    for (const std::string mesh : {"context=4", "context=2,expert=2"}) {
      INFO(mesh << ", capacity " << capacity);
      run.Set("mesh", mesh);
      CHECK(LargestDifference(Train(run), one) < 1e-5);
    }
    run.Set("--mesh=context=2 --experts=context");  // experts on the axis of positions
    CHECK(LargestDifference(Train(run), one) < 1e-5);
  }
}

TEST_CASE("schedule, stages, threads, recomputation and split states change no bit of it") {
  SmallRun run = MakeRun("context=2");
  run.steps = 5;
  const SmallResult one = Train(run);
  SmallRun other = run;
  other.threads = 2;
  CHECK(Train(other) == one);
  for (const char* recompute : {"full", "selective,gather", "none,gather"}) {
    other = run;
    other.Set("recompute", recompute);
    CHECK(Train(other) == one);
  }
  other = run;
  other.Set("--mesh=pipe=2,context=2");
  for (const char* schedule : {"1f1b", "gpipe", "zero_bubble"}) {
    other.recipe.set_schedule(schedule);
    CHECK(Train(other) == one);
  }
  other = run;
  for (const bool overlap : {false, true}) {
    other.recipe.set_overlap(overlap);
    for (const auto& [shard, reduce] :
         {std::pair("states", "once"), std::pair("weights", "each_micro_batch")}) {
      other.Set("shard", shard);
      SmallRun reference = run;
      reference.Set("reduce", reduce);
      CHECK(Train(other) == Train(reference));
    }
  }
}

// Queries stay where they are; tensor splits groups of heads.
void GatherKeys(proto::Graph* graph) {
  for (proto::Op& op : *graph->mutable_op()) {
    if (op.kind() != "attention") continue;
    (*op.add_sbp()->mutable_on())["context"] = "S(1)";
    (*op.mutable_sbp(0)->mutable_on())["tensor"] = "S(2)";
  }
}

TEST_CASE("keys and values gathered in pieces of their heads change no bit") {
  for (const std::string mesh : {"context=4", "context=2,tensor=2"}) {
    SmallRun run = MakeRun(mesh, {.sinks = mesh != "context=4"});
    run.edit = [build = run.edit](proto::Graph* graph) {
      build(graph);
      GatherKeys(graph);
    };
    run.steps = 4;
    const SmallResult together = Train(run);
    for (const int pieces : {2, 4}) {
      run.recipe.set_context_pieces(pieces);
      for (const char* recompute : {"", "full", "none,gather"}) {
        INFO(mesh << ", " << pieces << " pieces, recompute " << recompute);
        run.Set("recompute", recompute);
        run.recipe.set_overlap(pieces == 4);
        const proto::Plan plan = CompileSmall(run);
        CHECK(CountKernels(plan, "join_parts") > 0);
        CHECK(Train(run, plan) == together);
      }
    }
  }
}

TEST_CASE("every program of a plan that splits positions runs") {
  SmallRun run = MakeRun("context=2");
  run.steps = 2;
  CHECK_NOTHROW(RunEveryProgram(run));
  run.Set("--purpose=generation");
  CHECK_NOTHROW(RunEveryProgram(run));
}

// Bytes of a device's arena with so many layers and positions.
int64_t ArenaBytes(const std::string& mesh, const char* recompute, int layers, int64_t positions) {
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(layers), config.set_hidden(256), config.set_inner(512), config.set_heads(8);
  config.set_groups(2), config.set_head_dim(32), config.set_vocab(64),
      config.set_sequence(positions);
  PlanRequest request{.recipe =
                          MakeRecipe("--mesh=" + mesh + " --batch=1 --recompute=" + recompute)};
  request.cluster.mutable_device()->set_kernel_threads(1);
  const auto plan = Compile(BuildModel(config), "long", request).value();
  return plan.memory(0).arena_bytes();
}

// What a device keeps of a position for the backward of a layer, on average: what grows with both.
double BytesKept(const std::string& mesh, const char* recompute) {
  const auto of_layer = [&](int64_t positions) {
    return ArenaBytes(mesh, recompute, 8, positions) - ArenaBytes(mesh, recompute, 4, positions);
  };
  return static_cast<double>(of_layer(4096) - of_layer(2048)) / (4 * 2048);
}

TEST_CASE("what is kept for the backward shrinks by the devices that split positions") {
  for (const char* recompute : {"none,gather", "full"}) {
    INFO(recompute);
    const double one = BytesKept("", recompute);
    const double split = BytesKept("context=4", recompute);
    INFO(one / split << " of 4");
    CHECK(split * 4 < 1.01 * one);
  }
}

}  // namespace
}  // namespace oneflow
