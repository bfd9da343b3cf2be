// Planned bytes of states, gradients and weights at rest, and those that a device sends in a step,
// are those that docs/sharding.md says, for each way to split them.
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {
namespace {

constexpr int64_t kMicroBatches = 2;

proto::Model LargeGpt() {
  return MakeModel(
      "family: 'gpt' layers: 2 heads: 16 hidden: 1024 sequence: 1024 vocab: 4096 bias: false tied: "
      "false");
}

proto::Plan CompileSplit(const std::string& flags, bool narrow) {
  PlanRequest request{.recipe = MakeRecipe("--batch=64 " + flags)};
  request.recipe.set_micro_batches(kMicroBatches);
  request.recipe.set_precision(narrow ? proto::BF16 : proto::F32);
  return Compile(BuildModel(LargeGpt()), "split", request).value();
}

// Bytes a device.
struct Held {
  double states = 0, gradients = 0, weights = 0;
};

Held CountBytes(const proto::Plan& plan) {
  const proto::Program& train = *FindProgram(plan, "train");
  const auto bytes = [&](int id) {
    const proto::Register& r = *FindRegister(plan, train, id);
    return static_cast<double>(r.slot_bytes() * r.slots());
  };
  Held held;
  for (const proto::Variable& variable : plan.variable()) {
    for (const int id : variable.register_()) held.states += bytes(id);
  }
  std::set<int> prepare, outside;  // actors of segment P; registers that others read
  for (const proto::Segment& segment : train.segment()) {
    if (segment.name() == "P") prepare.insert(segment.actor().begin(), segment.actor().end());
  }
  for (const proto::Actor& actor : train.actor()) {
    if (prepare.contains(actor.id())) continue;
    for (const proto::Input& input : actor.input()) outside.insert(input.register_());
  }
  for (const proto::Actor& actor : train.actor()) {
    for (const int id : actor.output()) {
      const proto::Register& r = *FindRegister(plan, train, id);
      // Numbers of a step, as the loss, add up, too.
      const bool number = r.layout().dim().empty();
      if (r.fires_per_fill() == kMicroBatches && !number) held.gradients += bytes(id);
      if (prepare.contains(actor.id()) && outside.contains(id)) held.weights += bytes(id);
    }
  }
  return held;
}

// Bytes that a device sends in a step. All devices send and receive alike.
double CountTraffic(const proto::Plan& plan) {
  const proto::Program& train = *FindProgram(plan, "train");
  const proto::ProgramFacts& facts = FindFacts(plan, train);
  const std::vector<double> firings = FiringsPerStep(train);
  double bytes = 0;
  for (const proto::Actor& actor : train.actor()) {
    if (!actor.has_exchange()) continue;
    bytes += FindFacts(facts, actor.id()).bytes_moved() * firings[actor.id()];
  }
  return bytes;
}

struct Row {
  const char* shard;
  double weights, gradients, states;  // devices over which each is split
  const char* gather = "each_use";
};

double TableParameters() {
  return static_cast<double>((LargeGpt().vocab() + LargeGpt().sequence()) * LargeGpt().hidden());
}

// By the formulas of docs/sharding.md.
double PredictTraffic(const Mesh& mesh, const Row& row, bool narrow) {
  const auto share = [](double n) { return 1 - 1 / n; };
  const double m = kMicroBatches, n = mesh.devices(), w = narrow ? 2 : 4;
  const auto parameters = static_cast<double>(CountParameters(BuildModel(LargeGpt())));
  const double tables = TableParameters(), products = parameters - tables;
  double bytes = 0;
  // Weights. The backward uses no tables.
  const double uses = std::string_view(row.gather) == "each_use" ? 2 : 1;
  if (row.weights > 1) bytes += m * share(row.weights) * (uses * w * products + 4 * tables);
  if (row.states > row.weights) {
    bytes += (w * products + 4 * tables) * (row.weights > 1 ? 1 / row.weights : share(row.states));
  }
  // Gradients.
  const double g = 4 * parameters, others = n / row.gradients;
  bytes += m * share(row.gradients) * g;
  bytes += (row.states > row.gradients ? 1 : 2) * share(others) * g / row.gradients;
  if (mesh.axes.size() > 1 && row.states == n) bytes += (row.gradients == n ? m : 1) * g / n;
  return bytes;
}

void CheckRow(const std::string& mesh, const Row& row, bool narrow) {
  const std::string flags = "--mesh=" + mesh + " --shard=" + row.shard + " --gather=" + row.gather;
  INFO(flags << (narrow ? " bf16" : " f32"));
  const proto::Plan plan = CompileSplit(flags, narrow);
  CHECK(CountTraffic(plan) == Approx(PredictTraffic(*ParseMesh(mesh), row, narrow)).epsilon(0.02));
  const Held held = CountBytes(plan);
  const auto parameters = static_cast<double>(CountParameters(BuildModel(LargeGpt())));
  CHECK(held.states == Approx(12 * parameters / row.states).epsilon(0.02));
  CHECK(held.gradients == Approx(4 * parameters / row.gradients).epsilon(0.02));
  // Weights that rest as the master does are the master, but for those that products read in bf16
  // and that nothing gathers; tables are looked up in f32.
  const double tables = TableParameters();
  const bool master = row.states == row.weights;
  const double of_tables = master ? 0 : 4 * tables;
  const bool cast_at_use = master && row.states > 1;
  const double of_products = (cast_at_use || (master && !narrow) ? 0
                              : narrow                           ? 2.0
                                                                 : 4.0) *
                             (parameters - tables);
  CHECK(held.weights == Approx((of_tables + of_products) / row.weights).epsilon(0.02).margin(1));
}

TEST_CASE("states, gradients and weights take, and send, the bytes of the tables") {
  for (const bool narrow : {false, true}) {
    for (const double n : {2, 4, 8}) {
      const std::string mesh = "data=" + std::to_string(static_cast<int>(n));
      for (const Row& row :
           {Row{"none", 1, 1, 1}, Row{"states", 1, 1, n}, Row{"gradients", 1, n, n},
            Row{"weights", n, n, n}, Row{"weights", n, n, n, "each_micro_batch"},
            Row{"weights", 1, n, n, "once"}}) {
        CheckRow(mesh, row, narrow);
      }
    }
    for (const Row& row : {Row{"states:data.1,gradients:data.1,weights:data.1", 4, 4, 4},
                           Row{"states:data,gradients:data.1,weights:data.1", 4, 4, 8},
                           Row{"states:data,gradients:data,weights:data.1", 4, 8, 8},
                           Row{"states:data,gradients:data.1", 1, 4, 8}, Row{"weights", 8, 8, 8}}) {
      CheckRow("data=2x4", row, narrow);
    }
  }
}

}  // namespace
}  // namespace oneflow
