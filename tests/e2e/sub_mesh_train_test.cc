// A GPT some of whose ops compute on sub-meshes trains as it does on one device.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "catch2/catch.hpp"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

struct Axis {
  const char* name;
  int size, stride;
};

// Gives the ops whose names begin so a sub-mesh; variables and inputs have none.
void Place(proto::Graph* graph, const std::string& prefix, const std::vector<Axis>& axes,
           int first) {
  int placed = 0;
  for (proto::Op& op : *graph->mutable_op()) {
    if (!op.name().starts_with(prefix) || op.kind() == "variable" || op.kind() == "input") continue;
    proto::SubMesh* sub = op.mutable_sub_mesh();
    sub->Clear();
    sub->set_first(first);
    for (const Axis& axis : axes) {
      proto::SubMesh::Axis* added = sub->add_axis();
      added->set_name(axis.name);
      added->set_size(axis.size);
      added->set_stride(axis.stride);
    }
    ++placed;
  }
  REQUIRE(placed > 0);
}

// Blocks on another shape of the same devices, on some of them, and on one.
void PlaceBlocks(proto::Graph* graph) {
  Place(graph, "h.1.", {{"data", 2, 0}, {"tensor", 2, 0}}, 0);
  Place(graph, "h.2.attn", {{"rows", 3, 0}}, 1);
  Place(graph, "h.2.mlp", {{"x", 2, 3}}, 0);
  Place(graph, "h.3.mlp", {}, 2);
}

SmallRun RunOn(const std::string& mesh) {
  SmallRun run;
  run.mesh = mesh;
  run.micro_batches = 2;
  run.steps = 12;
  return run;
}

void CheckAlike(const SmallResult& a, const SmallResult& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    CHECK(a.losses[i] == Approx(b.losses[i]).epsilon(1e-5));
    CHECK(a.norms[i] == Approx(b.norms[i]).epsilon(1e-4));
  }
}

TEST_CASE("ops on sub-meshes give the losses of one device") {
  const SmallResult serial = Train(RunOn(""));
  REQUIRE(serial.losses.back() < serial.losses.front() - 0.3);  // it learns
  for (const std::string mesh : {"data=4", "data=2,tensor=2"}) {
    INFO(mesh);
    SmallRun run = RunOn(mesh);
    run.edit = PlaceBlocks;
    int sent = 0;
    const proto::Plan plan = CompileSmall(run);
    for (const proto::Program& program : plan.program()) {
      if (program.name() != "train") continue;
      for (const proto::Actor& actor : program.actor()) sent += actor.kernel() == "send_receive";
    }
    CHECK(sent > 20);
    CheckAlike(Train(run), serial);
  }
}

TEST_CASE("sub-meshes within stages, recomputed, in bf16, and the loss on one") {
  SmallRun run = RunOn("pipe=2,data=2");
  run.edit = [](proto::Graph* graph) {
    Place(graph, "h.1.", {{"x", 2, 0}}, 0);
    Place(graph, "h.3.", {}, 1);
    Place(graph, graph->loss(), {}, 1);
  };
  run.recompute = "selective";
  CheckAlike(Train(run), Train(RunOn("")));
  run.recompute = "";
  run.precision = proto::BF16;
  const SmallResult narrow = Train(run);
  CHECK(narrow.losses.back() < narrow.losses.front() - 0.3);
}

TEST_CASE("no interleaving changes a bit of what sub-meshes compute") {
  SmallRun run = RunOn("data=4");
  run.edit = PlaceBlocks;
  run.steps = 3;
  const SmallResult one = Train(run);
  for (const uint64_t interleaving : {1, 2}) CHECK(TrainInterleaved(run, interleaving) == one);
}

}  // namespace
}  // namespace oneflow
