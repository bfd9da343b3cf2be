// Boxing on real data: for every pair of nd-SBPs of a mesh, what the runtime makes of one is what
// gathering the whole and scattering it as the other would give; on one stage, and from one stage
// to the next, which are other ranks. Prime sizes, so parts are ragged. With ONEFLOW_TEST_FULL more
// shapes, meshes of three axes and nodes with slow links between them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "actor_runtime/exec/deterministic_runtime.h"
#include "actor_runtime/kernel/kernel.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/passes/insert_boxing.h"
#include "compiler/schedule/schedule.h"
#include "compiler/schedule/slots.h"
#include "compiler/schedule/streams.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/plan/verify_plan.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

using Values = std::vector<float>;

struct Case {
  Mesh mesh;
  Dims dims;
  NdSbp from;
  std::vector<NdSbp> to;  // each has a reader of its own
  proto::Cluster cluster;
};

bool Full() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

// On the stage axis B.
std::vector<NdSbp> AllSbps(const Mesh& mesh, int rank) {
  std::vector<NdSbp> all = {{}};
  for (int a = 0; a < static_cast<int>(mesh.axes.size()); ++a) {
    std::vector<Sbp> choices = {B()};
    if (a != mesh.stage_axis()) {
      choices.insert(choices.end(), {P(), PMax()});
      for (int d = 0; d < rank; ++d) choices.push_back(S(d));
    }
    std::vector<NdSbp> longer;
    for (const NdSbp& sbp : all) {
      for (const Sbp choice : choices) {
        longer.push_back(sbp);
        longer.back().push_back(choice);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Where a device stands on the axes of one kind: 0 on all others.
Coordinate On(const NdSbp& sbp, Sbp::Kind kind, Coordinate c) {
  for (size_t a = 0; a < sbp.size(); ++a) {
    if (sbp[a].kind != kind) c[a] = 0;
  }
  return c;
}

// The tensor that pieces stand for: over the axes that are Pmax the maximum of, over those that are
// P, the sums of their parts. `piece(rank)`: the local values on a rank of `stage`. Whole numbers,
// so sums are exact. Ranks that should hold the same are required to.
template <typename PieceOf>
Values Whole(const Case& c, const NdSbp& sbp, int stage, PieceOf piece) {
  const int64_t n = Product(c.dims);
  const Layout layout = LayoutOf(c.dims, sbp);
  std::map<std::pair<Coordinate, Coordinate>, Values> parts;  // by place on Pmax, on P
  for (const int rank : c.mesh.RanksOfStage(stage)) {
    const Coordinate at = c.mesh.CoordinateOf(rank);
    Values& part = parts
                       .try_emplace({On(sbp, Sbp::kPartialMax, at), On(sbp, Sbp::kPartialSum, at)},
                                    n, std::nanf(""))
                       .first->second;
    const Values& local = piece(rank);
    const Slice slice = SliceOf(layout, c.mesh, at);
    REQUIRE(static_cast<int64_t>(local.size()) == slice.elements());
    for (int64_t i = 0; i < slice.elements(); ++i) {
      float& value = part[IndexInTensor(c.dims, slice, i)];
      if (!std::isnan(value)) REQUIRE(value == local[i]);
      value = local[i];
    }
  }
  std::map<Coordinate, Values> sums;
  for (const auto& [key, part] : parts) {
    Values& sum = sums.try_emplace(key.first, n, 0.f).first->second;
    for (int64_t i = 0; i < n; ++i) sum[i] += part[i];
  }
  Values whole(n, -std::numeric_limits<float>::infinity());
  for (const auto& [at, sum] : sums) {
    for (int64_t i = 0; i < n; ++i) whole[i] = std::max(whole[i], sum[i]);
  }
  return whole;
}

// What rank `rank` holds: pieces of tensors drawn for each place on the partial axes.
Values Fed(const Case& c, int rank) {
  const Coordinate at = c.mesh.CoordinateOf(rank);
  Coordinate place = On(c.from, Sbp::kPartialMax, at);
  const Coordinate sum = On(c.from, Sbp::kPartialSum, at);
  for (size_t a = 0; a < place.size(); ++a) place[a] += sum[a];
  std::mt19937 random(static_cast<uint32_t>(c.mesh.RankOf(place) + 1));
  Values tensor(Product(c.dims));
  for (float& v : tensor) v = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
  const Slice slice = SliceOf(LayoutOf(c.dims, c.from), c.mesh, at);
  Values piece(slice.elements());
  for (int64_t i = 0; i < slice.elements(); ++i) piece[i] = tensor[IndexInTensor(c.dims, slice, i)];
  return piece;
}

TensorId Add(Graph* graph, const char* kind, const std::string& name, std::vector<TensorId> inputs,
             const Case& c, const NdSbp& sbp) {
  const OpId op = graph->AddOp(kind, name, std::move(inputs), {});
  Tensor& tensor = graph->tensors[graph->ops[op].outputs[0]];
  tensor.shape = Shape(c.dims);
  tensor.sbp = sbp;
  return graph->ops[op].outputs[0];
}

// A program "run" that feeds x, boxes it for readers y0, y1, ... on the last stage, and fetches
// what they get, raw.
proto::Plan PlanOf(const Case& c) {
  Graph graph;
  graph.mesh = c.mesh;
  SbpChoice choice{.op_inputs = {{}}};
  const TensorId x = Add(&graph, "input", "x", {}, c, c.from);
  LowerOptions options{.name = "run", .cluster = c.cluster, .feed_inputs = true};
  for (size_t i = 0; i < c.to.size(); ++i) {
    const std::string name = "y" + std::to_string(i);
    const TensorId y = Add(&graph, "add_n", name, {x}, c, c.to[i]);
    graph.ops.back().stage = c.mesh.stages() - 1;
    choice.op_inputs.push_back({c.to[i]});
    options.outputs.push_back({"fetch", name + ".fetch", {y}, {{"name", name}, {"raw", true}}});
  }
  REQUIRE(InsertBoxing(&graph, choice, c.cluster).ok());
  proto::Plan plan;
  plan.set_version(kPlanVersion);
  *plan.mutable_mesh() = ToProto(c.mesh);
  plan.set_stage_axis(c.mesh.stage_axis());
  plan.set_kernel_threads(1);
  auto lowered = LowerToActors(graph, {}, options);
  REQUIRE(lowered.ok());
  AddStreams(&*lowered, c.mesh.stages(), *FindSchedule("1f1b"));
  *plan.add_program() = lowered->program;
  REQUIRE(SetSlots(plan, plan.mutable_program(0)).ok());
  REQUIRE(PlanMemory(c.mesh.stages(), &plan).ok());
  return plan;
}

using Pieces = std::map<int, Values>;  // by rank

// Runs the plan in a drawn order; what each reader got on each rank.
std::map<std::string, Pieces> Run(const Case& c, uint64_t seed) {
  const auto runtime = DeterministicRuntime::Create(PlanOf(c), {.make_kernel = MakeKernel});
  INFO(runtime.status().ToString());
  REQUIRE(runtime.ok());
  std::map<std::string, Pieces> fetched;
  RunContext context;
  context.load = [&](const Piece& piece) {
    const Values values = Fed(c, piece.rank);
    std::copy(values.begin(), values.end(), reinterpret_cast<float*>(piece.data));
    return absl::OkStatus();
  };
  context.save = [&](const Piece& piece) {
    Values& values = fetched[*piece.name][piece.rank];
    const float* data = reinterpret_cast<const float*>(piece.data);
    values.assign(data, data + piece.slice->elements());
    return absl::OkStatus();
  };
  const absl::Status status = (*runtime)->Run("run", context, 1, seed);
  INFO(status.ToString());
  REQUIRE(status.ok());
  return fetched;
}

void Check(const Case& c, uint64_t seed) {
  const auto fetched = Run(c, seed);
  const Values whole = Whole(c, c.from, 0, [&](int rank) { return Fed(c, rank); });
  for (size_t i = 0; i < c.to.size(); ++i) {
    INFO(ToString(c.mesh) << " " << ToString(c.dims) << ": " << ToString(c.from) << " to "
                          << ToString(c.to[i]));
    const Pieces& pieces = fetched.at("y" + std::to_string(i));
    const int last = c.mesh.stages() - 1;
    CHECK(Whole(c, c.to[i], last, [&](int rank) { return pieces.at(rank); }) == whole);
  }
}

// Pairs of slow and fast links: nodes of two devices.
proto::Cluster Nodes() {
  proto::Cluster cluster;
  for (const double bandwidth : {1e11, 1e8}) {
    proto::Level* level = cluster.add_level();
    level->set_size(2);
    level->set_latency(1e-7);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

TEST_CASE("every pair of nd-SBPs, sums and maxima included, gives gather-then-scatter") {
  std::vector<Dims> shapes = {{5, 7}};
  if (Full()) shapes = {{5, 7}, {13, 11}, {2, 3, 5}, {7, 1, 3}, {1, 1}};
  for (const std::string text : {"a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3"}) {
    const Mesh mesh = *ParseMesh(text);
    for (const Dims& dims : shapes) {
      const std::vector<NdSbp> all = AllSbps(mesh, static_cast<int>(dims.size()));
      for (size_t i = 0; i < all.size(); ++i) {
        Check({mesh, dims, all[i], all, {}}, i);
        if (Full()) Check({mesh, dims, all[i], all, Nodes()}, i);
      }
    }
  }
}

TEST_CASE("every pair from one stage to the next, over fast and over slow links") {
  std::vector<std::string> meshes = {"pipe=2,a=2", "pipe=2,a=3"};
  if (Full()) meshes.insert(meshes.end(), {"pipe=2,a=4", "pipe=2,a=2,b=2", "a=2,pipe=2,b=3"});
  for (const std::string& text : meshes) {
    const Mesh mesh = *ParseMesh(text);
    const std::vector<NdSbp> all = AllSbps(mesh, 2);
    for (size_t i = 0; i < all.size(); ++i) {
      for (const proto::Cluster& cluster : {proto::Cluster(), Nodes()}) {
        Check({mesh, {6, 7}, all[i], all, cluster}, i);
      }
    }
  }
}

TEST_CASE("a plan whose filling was edited is refused") {
  const Case c{*ParseMesh("a=2"), {5, 7}, {S(0)}, {{P()}}, {}};
  const auto refusal = [&](const std::function<void(proto::Actor*)>& edit) {
    proto::Plan plan = PlanOf(c);
    for (proto::Actor& actor : *plan.mutable_program(0)->mutable_actor()) {
      if (actor.has_boxing()) edit(&actor);
    }
    return VerifyPlan(plan).ToString();
  };
  const auto says = [](const std::string& text) { return Catch::Contains(text); };
  CHECK(refusal([](proto::Actor*) {}) == "OK");
  CHECK_THAT(refusal([](proto::Actor* a) { a->mutable_boxing()->clear_fill(); }),
             says("its sources hold 21 of 35 elements"));
  CHECK_THAT(refusal([](proto::Actor* a) { a->set_kernel("slice"); }),
             says("fills, but is no zero_fill"));
  CHECK_THAT(refusal([](proto::Actor* a) {
               a->mutable_boxing()->set_fill(static_cast<proto::Boxing::Fill>(7));
             }),
             says("fills with 7"));
  CHECK_THAT(refusal([](proto::Actor* a) { a->mutable_input(0)->mutable_peers()->add_along(0); }),
             says("fills, but reads peers"));
}

TEST_CASE("pairs on three axes: a fixed sample") {
  const Mesh mesh = *ParseMesh("a=2,b=2,c=3");
  const Dims dims = {13, 7, 2};
  const std::vector<NdSbp> all = AllSbps(mesh, 3);
  std::mt19937 random(3);
  for (int i = 0; i < (Full() ? 60 : 6); ++i) {
    Case c{mesh, dims, all[random() % all.size()], {}, i % 2 == 0 ? proto::Cluster() : Nodes()};
    for (int k = 0; k < 12; ++k) c.to.push_back(all[random() % all.size()]);
    Check(c, i);
  }
}

}  // namespace
}  // namespace oneflow
