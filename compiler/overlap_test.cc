// Plans whose exchanges go on while they compute, and whose states are split: on which streams
// exchanges stand, and what it takes of bytes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

PlanRequest OverlapOptions(const std::string& mesh, const std::string& shard, int64_t batch = 16,
                           const std::string& schedule = "1f1b") {
  return OptionsFor(mesh, batch, 4, schedule, "--overlap --shard=" + shard);
}

proto::Plan Compiled(const proto::Model& model, const PlanRequest& options) {
  const proto::Plan plan = Compile(BuildModel(model), "gpt", options).value();
  CHECK(VerifyPlan(plan).ok());
  return plan;
}

// The actors of a program, by the name of their stream, each once for each stage.
std::map<std::string, std::set<int>> ActorsOnStreams(const proto::Program& program) {
  std::map<std::string, std::set<int>> actors;
  for (const proto::Stream& stream : program.stream()) {
    for (const proto::OrderRun& run : stream.order()) {
      for (const int id : run.segment()) {
        const proto::Segment& segment = program.segment(id);
        actors[stream.name()].insert(segment.actor().begin(), segment.actor().end());
      }
    }
  }
  return actors;
}

// By actor: whether it makes something of a variable alone, by casts and boxing.
std::vector<bool> OfVariables(const proto::Plan& plan, const proto::Program& program) {
  std::vector<bool> of_variable(program.actor_size(), false);
  std::map<int, int> writer;
  for (const proto::Actor& actor : program.actor()) {
    for (const int output : actor.output()) writer.emplace(output, actor.id());
  }
  // Buckets stand behind what reads of them, so until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (const proto::Actor& actor : program.actor()) {
      if (of_variable[actor.id()] || (actor.kernel() != "cast" && !actor.has_boxing())) continue;
      const bool all =
          std::all_of(actor.input().begin(), actor.input().end(), [&](const proto::Input& input) {
            const int reg = input.register_();
            if (reg < plan.persistent_size()) return true;
            return writer.contains(reg) && of_variable[writer.at(reg)];
          });
      if (all && actor.input_size() > 0) of_variable[actor.id()] = changed = true;
    }
  }
  return of_variable;
}

// Exchanges on streams of compute, those of variables in `gathers`.
struct OnCompute {
  int gathers = 0, others = 0;
};

OnCompute ExchangesOnCompute(const proto::Plan& plan) {
  OnCompute found;
  for (const proto::Program& program : plan.program()) {
    const std::vector<bool> of_variable = OfVariables(plan, program);
    const std::map<std::string, std::set<int>> actors = ActorsOnStreams(program);
    if (!actors.contains("compute")) continue;
    for (const int id : actors.at("compute")) {
      if (program.actor(id).has_exchange()) ++(of_variable[id] ? found.gathers : found.others);
    }
  }
  return found;
}

int CountOn(const proto::Plan& plan, const std::string& stream) {
  const proto::Program* train = FindProgram(plan, "train");
  REQUIRE(train != nullptr);
  return static_cast<int>(ActorsOnStreams(*train)[stream].size());
}

}  // namespace

TEST_CASE("no exchange stands on a stream of compute, but gathers of weights in micro-batches") {
  const auto check = [](const std::string& mesh, const std::string& shard,
                        const std::string& schedule) {
    INFO(mesh << ", " << schedule << ", shard " << shard);
    const bool data = mesh.find("data") != std::string::npos;
    const bool tensor = mesh.find("tensor") != std::string::npos;
    PlanRequest options = OverlapOptions(mesh, shard, 32, schedule);
    options.recipe.set_prefetch(0);
    const proto::Plan plan = Compiled(SmallGpt(4), options);
    const OnCompute on_compute = ExchangesOnCompute(plan);
    CHECK(on_compute.others == 0);
    if (shard == "weights" && data) CHECK(on_compute.gathers > 0);
    options.recipe.set_prefetch(1);
    if (data && !tensor) CHECK(ExchangesOnCompute(Compiled(SmallGpt(4), options)).gathers == 0);
    // Small tables are gathered over tensor, too.
    if (shard != "weights" && !tensor) CHECK(on_compute.gathers == 0);
    CHECK(CountOn(plan, "gradient") > 0);
    // Split gradients are reduced with every micro-batch, on a stream of their own.
    CHECK((CountOn(plan, "collective") > 0) == tensor);
    CHECK((CountOn(plan, "reduction") > 0) == (shard == "weights" && data));
  };
  for (const char* shard : {"none", "states", "weights"}) {
    for (const char* mesh : {"data=4", "tensor=2", "data=2,tensor=2", "pipe=2,data=2"}) {
      check(mesh, shard, "1f1b");
    }
  }
  check("pipe=2,data=2x2,tensor=2", "states", "1f1b");
  for (const char* schedule : {"gpipe", "interleaved", "zero_bubble"}) {
    check("pipe=2,data=2", "states", schedule);
  }
}

TEST_CASE("without overlap all exchanges of a stage stand with its compute") {
  PlanRequest options = OverlapOptions("data=2,tensor=2", "states");
  options.recipe.set_overlap(false);
  const proto::Plan plan = Compiled(SmallGpt(4), options);
  CHECK(CountOn(plan, "gradient") == 0);
  CHECK(CountOn(plan, "collective") == 0);
  CHECK(ExchangesOnCompute(plan).others > 0);
  // Devices that are CPUs do not overlap unless they are told to; others do.
  options.recipe.clear_overlap();
  CHECK(CountOn(Compiled(SmallGpt(4), options), "gradient") == 0);
  options.cluster.mutable_device()->set_kind(proto::Device::CUDA);
  CHECK(Completed(options)->recipe.overlap());
}

TEST_CASE("buckets hold what they may") {
  PlanRequest options = OverlapOptions("data=2", "none");
  const int joined = CountOn(Compiled(SmallGpt(4), options), "gradient");
  options.recipe.set_bucket_bytes(1);
  const int apart = CountOn(Compiled(SmallGpt(4), options), "gradient");
  CHECK(joined <= 4);
  CHECK(apart > 10 * joined);
}

TEST_CASE("overlap takes few bytes") {
  const proto::Model model = MakeModel("family: 'gpt' preset: 'gpt2-124m'");
  for (const std::string mesh : {"data=2", "pipe=2,data=2", "pipe=4,tensor=2"}) {
    PlanRequest options = OverlapOptions(mesh, "none");
    const int64_t with = MostDeviceBytes(Compiled(model, options));
    options.recipe.set_overlap(false);
    const int64_t without = MostDeviceBytes(Compiled(model, options));
    INFO(mesh << ": " << with << " bytes, without overlap " << without);
    CHECK(static_cast<double>(with) <= 1.02 * static_cast<double>(without));
  }
}

namespace {

// Bytes of a device for each parameter of the model: variables, states of the optimizer, and
// weights that are gathered for the step.
double BytesAParameter(const proto::Plan& plan) {
  const proto::Program& train = *FindProgram(plan, "train");
  int64_t bytes = plan.memory(0).persistent_bytes(), parameters = 0;
  for (const proto::Stream& stream : train.stream()) {
    if (stream.name() != "gradient") continue;
    const proto::Segment& prepare = train.segment(stream.order(0).segment(0));
    CHECK(prepare.name() == "P");
    for (const int id : prepare.actor()) {
      for (const int output : train.actor(id).output()) {
        bytes += FindRegister(plan, train, output)->slot_bytes();
      }
    }
  }
  for (const proto::Variable& variable : plan.variable()) {
    if (variable.name().find('/') != std::string::npos) continue;  // a state
    int64_t elements = 1;
    for (const int64_t size : variable.layout().dim()) elements *= size;
    parameters += elements;
  }
  return static_cast<double>(bytes) / static_cast<double>(parameters);
}

}  // namespace

TEST_CASE("with states split over N devices weights and optimizer take 12/N bytes a parameter") {
  const proto::Model model =
      MakeModel("family: 'gpt' layers: 8 heads: 8 hidden: 512 sequence: 1024 vocab: 256");
  for (const int n : {2, 4, 8}) {
    const std::string mesh = "data=" + std::to_string(n);
    PlanRequest options = OverlapOptions(mesh, "states", 32 * n);
    const double f32 = BytesAParameter(Compiled(model, options));
    options.recipe.set_precision(proto::BF16);
    const double bf16 = BytesAParameter(Compiled(model, options));
    INFO(mesh << ": " << f32 << " bytes a parameter in f32, " << bf16 << " in bf16");
    // ... and what is gathered of them.
    CHECK(f32 <= (4 + 12.0 / n) * 1.03);
    CHECK(std::abs(bf16 / (2 + 12.0 / n) - 1) <= 0.03);
  }
}

TEST_CASE("states are split where nothing is divisible by the devices") {
  proto::Model model = SmallGpt(4);
  model.set_vocab(65);
  for (const std::string mesh : {"data=3", "data=7", "pipe=2,data=5"}) {
    INFO(mesh);
    const PlanRequest options = OverlapOptions(mesh, "states", 4 * 105);
    const proto::Plan plan = Compiled(model, options);
    CHECK(ExchangesOnCompute(plan).others == 0);
    const int axis = ParseMesh(mesh)->FindAxis("data");
    for (const proto::Variable& variable : plan.variable()) {
      INFO(variable.name());
      CHECK(std::any_of(variable.layout().split().begin(), variable.layout().split().end(),
                        [&](const proto::Layout::Split& split) { return split.axis() == axis; }));
    }
  }
}

}  // namespace oneflow
