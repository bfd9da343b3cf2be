// Planning chooses what a recipe does not say: the order of axes, depths of zero bubble,
// micro-batches that fill the memory, uses of weights ahead.
#include "planning/recipe/make_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile_for_test.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/recipe/order_axes.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

Planned Make(const proto::Graph& graph, const PlanRequest& request) {
  return MakePlan({graph, "gpt", {}}, request).value();
}

std::string Refusal(const proto::Graph& graph, const PlanRequest& request) {
  return std::string(ToStd(MakePlan({graph, "gpt", {}}, request).status().message()));
}

int64_t CountNotes(const Planned& planned, const std::string& begin) {
  return std::count_if(planned.notes.begin(), planned.notes.end(),
                       [&](const std::string& note) { return note.starts_with(begin); });
}

// Nodes of four devices with slow links between them.
proto::Cluster Nodes() {
  proto::Cluster cluster;
  for (const auto& [size, latency, bandwidth] :
       {std::tuple(4, 1e-6, 1e11), std::tuple(100, 1e-5, 1e9)}) {
    proto::Level* level = cluster.add_level();
    level->set_size(size);
    level->set_latency(latency);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

std::string PrintMesh(const proto::Plan& plan) {
  return ToString(MeshFromProto(plan.mesh()).value());
}

}  // namespace

TEST_CASE("zero bubble is not fitted to stages that take forever") {
  PlanRequest request = OptionsFor("pipe=2", 4, 4, "zero_bubble");
  request.cluster.mutable_device()->set_peak_flops(1e-320);
  CHECK_THAT(Refusal(BuildModel(SmallGpt(2)), request),
             Contains("takes inf seconds; check the rates in the cluster file"));
}

TEST_CASE("four blocks tell the order of the axes of a model whose blocks are alike") {
  const proto::Graph graph = BuildModel(SmallGpt(8));
  proto::Graph unlike = graph;  // all of its blocks are looked at
  const auto norm = std::find_if(
      unlike.mutable_op()->begin(), unlike.mutable_op()->end(),
      [](const proto::Op& op) { return op.block() == 5 && op.kind() == "layer_norm"; });
  REQUIRE(norm != unlike.mutable_op()->end());
  norm->set_recompute("norm");
  for (const char* mesh : {"data=2,tensor=4", "tensor=4,data=2", "data=4,tensor=2"}) {
    PlanRequest few = OptionsFor(mesh, 8, 2);
    few.cluster = Nodes();
    PlanRequest all = few;
    CompileCache cache;
    std::vector<std::string> notes;
    REQUIRE(OrderMesh({graph, "gpt", {}}, &cache, &few, &notes).ok());
    REQUIRE(OrderMesh({unlike, "gpt", {}}, &cache, &all, &notes).ok());
    CHECK(few.recipe.mesh().SerializeAsString() == all.recipe.mesh().SerializeAsString());
  }
}

TEST_CASE("zero bubble holds as many micro-batches as the memory has room for") {
  const proto::Graph graph = BuildModel(SmallGpt(4));
  PlanRequest request = OptionsFor("pipe=4", 12, 12, "zero_bubble", "--global_norm=false");
  std::vector<int64_t> needs;  // bytes of the largest stage, by extra_in_flight
  for (int64_t e = 0; e < 4; ++e) {
    request.recipe.set_extra_in_flight(e);
    needs.push_back(MostDeviceBytes(Compile(graph, "gpt", request).value()));
    if (e > 0) CHECK(needs[e] > needs[e - 1]);
  }
  request.recipe.set_extra_in_flight(0);
  request.recipe.set_fill_memory(true);
  for (int64_t e = 0; e < 4; ++e) {
    request.cluster.mutable_device()->set_memory_bytes(needs[e]);
    CHECK(Make(graph, request).plan.recipe().extra_in_flight() == e);
  }
  request.cluster.mutable_device()->set_memory_bytes(needs[0] - 1);
  CHECK_THAT(Refusal(graph, request), Contains("1 byte"));
  request.cluster.mutable_device()->set_memory_bytes(0);
  CHECK_THAT(Refusal(graph, request), StartsWith("--fill_memory: the memory of a device"));
  request.cluster.mutable_device()->set_memory_bytes(needs[3]);
  request.recipe.set_global_norm(true);
  CHECK_THAT(Refusal(graph, request), StartsWith("--fill_memory: steps that wait"));
  request.recipe.set_schedule("1f1b");
  CHECK_THAT(Refusal(graph, request), StartsWith("--fill_memory: schedule 1f1b"));
}

TEST_CASE("where the cluster is known zero bubble fills memory as its stages' times ask for") {
  PlanRequest request =
      OptionsFor("pipe=4", 16, 16, "zero_bubble", "--global_norm=false --fill_memory");
  proto::Device* device = request.cluster.mutable_device();
  device->set_memory_bytes(int64_t{1} << 40);
  // Attention makes F and B longer than W.
  const proto::Graph graph =
      BuildModel(MakeModel("family: 'gpt' layers: 4 heads: 4 hidden: 32 sequence: 256 vocab: 64"));
  const Planned equal = Make(graph, request);
  CHECK(equal.plan.recipe().extra_in_flight() == 3);
  CHECK(equal.notes.empty());
  device->set_peak_flops(1e9);
  device->set_memory_bandwidth(1e12);
  const Planned fitted = Make(graph, request);
  CHECK(fitted.plan.recipe().extra_in_flight() > 3);
  CHECK(fitted.plan.recipe().warm_ups().stage_size() == 4);
  CHECK(CountNotes(fitted,
                   "schedule zero_bubble: fitted to F, B and W of the stages on this "
                   "cluster") == 1);

  // Planned with few micro-batches, proved with all; where all wait for the norm, too.
  request.recipe.set_batch(200), request.recipe.set_micro_batches(200);
  for (const bool waits : {false, true}) {
    request.recipe.set_global_norm(waits);
    CHECK(Make(graph, request).plan.recipe().extra_in_flight() > 0);
  }
  request.recipe.set_batch(1), request.recipe.set_micro_batches(1);
  CHECK_THAT(Refusal(graph, request),
             StartsWith("--fill_memory: no step of these stages is shorter"));
}

TEST_CASE("axes are ordered for the topology: those that exchange most are inside a node") {
  const auto mesh_of = [](const std::string& mesh, bool keep) {
    PlanRequest request = OptionsFor(mesh, 8, 2);
    request.cluster = Nodes();
    request.recipe.set_keep_axis_order(keep);
    const Planned planned = Make(BuildModel(SmallGpt(4)), request);
    const std::string ordered = PrintMesh(planned.plan);
    CHECK((planned.notes.size() == 1) == (mesh != ordered));
    if (mesh != ordered) CHECK_THAT(planned.notes[0], Contains("the axes that exchange most"));
    return ordered;
  };
  CHECK(mesh_of("tensor=4,data=2", false) == "data=2,tensor=4");
  CHECK(mesh_of("tensor=4,data=2", true) == "tensor=4,data=2");
  CHECK(mesh_of("data=2,tensor=4", false) == "data=2,tensor=4");
  CHECK(mesh_of("tensor=2,pipe=4,data=2", false).starts_with("pipe=4"));
}

TEST_CASE("the order of axes does not depend on the order in which they are written") {
  // Large enough to be boxed otherwise where an axis crosses slow links.
  const proto::Graph graph =
      BuildModel(MakeModel("family: 'gpt' layers: 2 sequence: 256 vocab: 4096"));
  for (const char* mesh : {"tensor=4,data=2", "data=2,tensor=4", "tensor=4,data=2,pipe=2"}) {
    INFO(mesh);
    PlanRequest request = OptionsFor(mesh, 16, 2);
    request.cluster = Nodes();
    request.cluster.mutable_device()->set_peak_flops(1e13);
    request.cluster.mutable_device()->set_memory_bandwidth(1e12);
    CHECK(PrintMesh(Make(graph, request).plan).ends_with("tensor=4"));
  }
}

TEST_CASE("without a number as many uses are gathered ahead as fit") {
  const proto::Graph graph =
      BuildModel(MakeModel("family: 'gpt' layers: 6 heads: 2 hidden: 32 sequence: 256 vocab: 16"));
  PlanRequest request = OptionsFor("data=2", 32, 8, "1f1b", "--overlap --shard=weights");
  std::vector<int64_t> bytes;  // by uses ahead
  for (const int ahead : {0, 1, 2}) {
    PlanRequest given = request;
    given.recipe.set_prefetch(ahead);
    bytes.push_back(MostDeviceBytes(Compile(graph, "gpt", given).value()));
  }
  CHECK(bytes[0] < bytes[1]);
  CHECK(bytes[1] < bytes[2]);
  CHECK(MostDeviceBytes(Make(graph, request).plan) == bytes[2]);
  for (const int ahead : {2, 1, 0}) {
    request.cluster.mutable_device()->set_memory_bytes(bytes[ahead]);
    const Planned planned = Make(graph, request);
    CHECK(MostDeviceBytes(planned.plan) == bytes[ahead]);
    CHECK(planned.plan.recipe().prefetch() == ahead);
    CHECK(CountNotes(planned, absl::StrCat("--prefetch=", ahead, ": ")) == (ahead < 2 ? 1 : 0));
  }
  request.cluster.mutable_device()->set_memory_bytes(bytes[0] / 2);
  CHECK(absl::IsResourceExhausted(MakePlan({graph, "gpt", {}}, request).status()));
}

TEST_CASE("what does not fit is reported before fewer uses ahead are tried") {
  const proto::Graph graph = BuildModel(SmallGpt(3));
  PlanRequest request = OptionsFor("data=2", 16, 4, "1f1b", "--overlap --shard=weights");
  const auto reported = [&](int64_t memory) {
    request.cluster.mutable_device()->set_memory_bytes(memory);
    std::vector<std::string> sentences;
    const auto planned = MakePlan({graph, "gpt", {}}, request, nullptr,
                                  [&](const std::string& text) { sentences.push_back(text); });
    CHECK(sentences.size() == (planned.ok() && planned->notes.empty() ? 0 : 1));
    if (!planned.ok()) CHECK_THAT(planned.status().ToString(), Contains("; with --prefetch=0 "));
    return sentences.empty() ? "" : sentences[0];
  };
  const int64_t needs = MostDeviceBytes(Make(graph, request).plan);
  CHECK(reported(needs).empty());
  for (const int64_t memory : {needs - 1, needs / 4}) {
    CHECK_THAT(reported(memory),
               StartsWith("memory of stage 0: needs ") && Contains(", a device has "));
    CHECK_THAT(reported(memory), EndsWith(" too many; fewer uses of weights ahead may fit"));
  }
  request.recipe.set_prefetch(0);
  CHECK(reported(needs - 1).empty());
}

}  // namespace oneflow
