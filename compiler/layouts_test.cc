// A graph that states its layouts lies as they say, whatever ops and links are said to cost.
#include <string>

#include <catch2/catch.hpp>

#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "google/protobuf/util/message_differencer.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/model.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;
using google::protobuf::util::MessageDifferencer;

PlanRequest StateOptions(const std::string& mesh) {
  return OptionsFor(mesh, 16, 4, "1f1b", "--state_layouts");
}

// Links so slow that nearly nothing is worth sending.
PlanRequest OnSlowLinks(PlanRequest options) {
  options.cluster.mutable_device()->set_kind(proto::Device::CUDA);  // CPUs share a memory
  proto::Level* level = options.cluster.add_level();
  level->set_size(8);
  level->set_latency(1e-9);
  level->set_bandwidth(1e4);
  return options;
}

proto::Graph StateLayouts(const proto::Graph& graph, const PlanRequest& options) {
  const proto::Plan plan = Compile(graph, "gpt", options).value();
  return plan.graph();
}

std::string Refusal(const proto::Graph& graph, const PlanRequest& options) {
  return std::string(ToStd(Compile(graph, "gpt", options).status().message()));
}

proto::OpLayout& Find(proto::Graph* graph, const std::string& op) {
  for (proto::OpLayout& layout : *graph->mutable_layout()) {
    if (layout.ops().find(op) != std::string::npos) return layout;
  }
  FAIL(op);
  return *graph->add_layout();
}

}  // namespace

TEST_CASE("what is stated holds on any cluster, pipe degree and schedule") {
  for (const std::string mesh : {"tensor=2", "data=2,tensor=2"}) {
    INFO(mesh);
    const PlanRequest options = StateOptions(mesh), slow = OnSlowLinks(options);
    const proto::Graph stated = StateLayouts(BuildModel(SmallGpt(3)), options);
    CHECK(stated.layout_size() > 0);
    CHECK(MessageDifferencer::Equals(StateLayouts(stated, options), stated));
    CHECK(!MessageDifferencer::Equals(StateLayouts(BuildModel(SmallGpt(3)), slow), stated));
    CHECK(MessageDifferencer::Equals(StateLayouts(stated, slow), stated));
    PlanRequest pipe = OnSlowLinks(StateOptions("pipe=2," + mesh));
    pipe.recipe.set_schedule("zero_bubble");
    pipe.recipe.MergeFrom(MakeRecipe("--recompute=full"));
    CHECK(MessageDifferencer::Equals(StateLayouts(stated, pipe), stated));
  }
}

TEST_CASE("what is stated of the programs of a plan that generates stands beside the others") {
  PlanRequest options = StateOptions("tensor=2");
  const proto::Graph trains = StateLayouts(BuildModel(SmallGpt(3)), options);
  options.recipe.set_batch(2);
  options.recipe.set_micro_batches(1);
  options.recipe.set_purpose(proto::Recipe::GENERATION);
  const proto::Graph stated = StateLayouts(trains, options);
  int before = 0, prefill = 0, decode = 0;
  for (const proto::OpLayout& layout : stated.layout()) {
    prefill += layout.program() == "prefill" ? 1 : 0;
    decode += layout.program() == "decode" ? 1 : 0;
    before +=
        layout.program() == "train" || layout.program() == "eval" || layout.program() == "generate"
            ? 1
            : 0;
  }
  CHECK(before == trains.layout_size());
  CHECK(prefill > 0);
  CHECK(decode > 0);
  CHECK(MessageDifferencer::Equals(StateLayouts(stated, OnSlowLinks(options)), stated));
}

TEST_CASE("ops of blocks that lie alike are named once") {
  proto::Graph stated = StateLayouts(BuildModel(SmallGpt(3)), StateOptions("tensor=2"));
  CHECK_THAT(Find(&stated, "attn.core").ops(), Contains("h.*.attn.core"));
  for (const proto::OpLayout& layout : stated.layout()) CHECK_THAT(layout.ops(), !Contains("h.0"));
}

TEST_CASE("a layout that leaves out an op, and one that its kind has not") {
  const PlanRequest options = StateOptions("tensor=2");
  const proto::Graph stated = StateLayouts(BuildModel(SmallGpt(3)), options);
  proto::Graph wrong = stated;
  std::string* ops = Find(&wrong, "h.*.mlp.gelu").mutable_ops();
  ops->replace(ops->find("h.*.mlp.gelu"), 12, "h.1.mlp.gelu");
  CHECK_THAT(
      Refusal(wrong, options),
      Contains("op h.0.mlp.gelu: the layouts of program train on axis tensor do not name it") &&
          Contains("--layouts_out"));
  PlanRequest few = StateOptions("tensor=4");
  few.recipe.set_micro_batches(8);  // of two sequences each
  wrong = stated;
  Find(&wrong, "h.*.attn.core.split").set_signature("(S(0)) -> S(0), S(0), S(0)");
  CHECK_THAT(Refusal(wrong, few),
             Contains("op h.0.attn.core.split: (S(0)) -> S(0), S(0), S(0) on axis tensor leaves "
                      "some of its 4 devices without an element"));
  wrong = stated;
  Find(&wrong, "h.*.attn.core.split").set_signature("(S(1)) -> S(1), S(1)");
  CHECK_THAT(Refusal(wrong, options),
             Contains("op h.0.attn.core.split: a layout of axis tensor says (S(1)) -> S(1), S(1), "
                      "which is no signature of split_qkv; its signatures are "));
}

}  // namespace oneflow
