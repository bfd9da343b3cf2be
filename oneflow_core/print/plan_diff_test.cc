// What `oneflow diff` prints, word for word.
#include "oneflow_core/print/plan_diff.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "oneflow_core/net/plan_for_test.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

// Stages in a row: each but the first receives from the one before. F `micro_batches` times.
proto::Plan Pipeline(int stages, int micro_batches, int slots) {
  PlanBuilder b({{"pipe", stages}});
  proto::ProgramFacts facts;
  int before = -1;
  for (int s = 0; s < stages; ++s) {
    const std::string of = std::to_string(s);
    const int h = b.Register("h" + of, s, slots);
    std::vector<PlanBuilder::In> in;
    if (s > 0) {
      const int received = b.Register("h.to" + of, s);
      const auto pair = b.SendReceive("h.to" + of, {before}, received);
      b.program().mutable_actor(pair.receive)->mutable_boxing();
      MutableFacts(pair.receive, &facts)->set_bytes_moved(64);
      b.Stream("send", s - 1, {{{b.Segment("F.send", s - 1, {pair.send})}, micro_batches}});
      b.Stream("receive", s, {{{b.Segment("F.recv", s, {pair.receive})}, micro_batches}});
      in = {{received}};
    }
    const int f = b.Actor("f" + of, s, in, {h});
    b.program().mutable_actor(f)->set_kernel("gelu");
    b.Stream("compute", s, {{{b.Segment("F", s, {f})}, micro_batches}});
    before = h;
  }
  b.program().set_micro_batches(micro_batches);
  proto::Plan plan = b.Finish();
  plan.mutable_train()->set_schedule("1f1b");
  *plan.mutable_facts()->add_program() = std::move(facts);
  return plan;
}

TEST_CASE("equal plans are alike") {
  const PlanDiff diff = DiffPlans(Pipeline(2, 4, 1), Pipeline(2, 4, 1), "train");
  CHECK(diff.empty());
  CHECK(DiffText(diff) == "the plans are alike\n");
}

TEST_CASE("stages that change alike are told together") {
  PlanDiff diff = DiffPlans(Pipeline(4, 4, 1), Pipeline(4, 8, 2), "train");
  AddNumber("time of a step", "s", 0.5, 0.75, &diff);
  CHECK(DiffText(diff) ==
        "  time of a step: 0.5 s -> 0.75 s (+50.0 %)\n"
        "  stage 0: memory: 64 bytes -> 128 bytes (+100.0 %)\n"
        "  stages 1 to 3: memory: 128 bytes -> 192 bytes (+50.0 %)\n"
        "  stage 0: memory, registers and workspaces: 64 bytes -> 128 bytes (+100.0 %)\n"
        "  stages 1 to 3: memory, registers and workspaces: 128 bytes -> 192 bytes (+50.0 %)\n"
        "  stages 1 to 3: received in a step, receive: 256 bytes -> 512 bytes (+100.0 %)\n"
        "  stages 0 to 3: order of compute: F×4 -> F×8\n"
        "  stages 1 to 3: order of receive: F.recv×4 -> F.recv×8\n"
        "  stages 0 to 2: order of send: F.send×4 -> F.send×8\n"
        "  stage 0: order of issue, word 3: )×4 -> )×8\n"
        "  stages 1 to 2: order of issue, word 4: )×4 -> )×8\n"
        "  stage 3: order of issue, word 3: )×4 -> )×8\n"
        "  micro-batches: 4 -> 8 (+100.0 %)\n"
        "  stage 0: registers, slots: 1 -> 2 (+100.0 %)\n"
        "  stages 1 to 3: registers, slots: 2 -> 3 (+50.0 %)\n");
}

TEST_CASE("stages that are no neighbours are told apart") {
  PlanDiff diff;
  for (const int stage : {0, 1, 3}) AddNumber("slots", "", 1, 2, &diff, stage);
  CHECK(DiffText(diff) ==
        "  stages 0 to 1: slots: 1 -> 2 (+100.0 %)\n"
        "  stage 3: slots: 1 -> 2 (+100.0 %)\n");
}

TEST_CASE("actors and stages of one plan only") {
  proto::Plan other = Pipeline(2, 4, 1);
  other.mutable_train()->set_schedule("gpipe");
  other.mutable_train()->set_precision(proto::BF16);
  CHECK(DiffText(DiffPlans(Pipeline(1, 4, 1), other, "train")) ==
        "  stage 1: memory: 0 bytes -> 128 bytes\n"
        "  stage 1: memory, registers and workspaces: 0 bytes -> 128 bytes\n"
        "  stage 1: received in a step, receive: 0 bytes -> 256 bytes\n"
        "  mesh: pipe=1 -> pipe=2\n"
        "  groups: none -> stage 0 to 1\n"
        "  schedule: 1f1b -> gpipe\n"
        "  precision: f32 -> bf16\n"
        "  stage 1: order of compute: none -> F×4\n"
        "  stage 1: order of receive: none -> F.recv×4\n"
        "  stage 0: order of send: none -> F.send×4\n"
        "  stage 0: order of issue, word 1: none -> ( h.to1.send )×4\n"
        "  stage 1: order of issue, word 1: none -> ( h.to1 )×4\n"
        "  stages: 1 -> 2 (+100.0 %)\n"
        "  stage 0: actors: 1 -> 2 (+100.0 %)\n"
        "  stage 1: actors: 0 -> 2\n"
        "  stage 1: actors, receive: 0 -> 1\n"
        "  stage 1: registers: 0 -> 2\n"
        "  stage 1: registers, slots: 0 -> 2\n"
        "actors only in the second, 3:\n"
        "  h.to1.send (send, group stage 0 to 1)\n"
        "  h.to1 (receive, group stage 0 to 1)\n"
        "  f1 (gelu)\n");
}

TEST_CASE("groups and orders of issue are compared, however alike all else is") {
  proto::Plan other = Pipeline(3, 4, 1);
  proto::IssueOrder& issue = *other.mutable_program(0)->mutable_issue(1);
  issue.mutable_run(0)->mutable_actor()->SwapElements(0, 1);
  other.mutable_group(0)->clear_stages();
  other.mutable_group(0)->add_axis(0);
  CHECK(DiffText(DiffPlans(Pipeline(3, 4, 1), other, "train")) ==
        "  groups: stage 0 to 1; stage 1 to 2 -> pipe; stage 1 to 2\n"
        "  stage 1: order of issue, word 2: h.to1 h.to2.send )×4 -> h.to2.send h.to1 )×4\n");
}

TEST_CASE("names of alike layers share a line, and a first line stands first") {
  PlanDiff diff;
  for (const char* layer : {"0", "1", "2"}) {
    diff.only_a.push_back(absl::StrCat("h.", layer, ".fc.to1 (receive, group stage 0 to 1)"));
  }
  diff.only_a.push_back("ln_f (layer_norm)");
  diff.facts.push_back({"order of send.0", "a.0 a.1 a.2 a.3 a.4 b.7 a.5", ""});
  CHECK(DiffText(diff, "  the same time\n") ==
        "  the same time\n"
        "  order of send.0: a.* (6) b.7 -> none\n"
        "actors only in the first, 4:\n"
        "  h.*.fc.to1 (receive, group stage 0 to 1); 3 times\n"
        "  ln_f (layer_norm)\n");
}

TEST_CASE("json has the same") {
  const PlanDiff diff = DiffPlans(Pipeline(2, 4, 1), Pipeline(2, 4, 2), "train");
  const nlohmann::json json = nlohmann::json::parse(DiffJson(diff));
  CHECK(json["facts"].empty());
  CHECK(json["numbers"].size() == diff.numbers.size());
  CHECK(json["numbers"][0] == nlohmann::json{{"what", "registers, slots"},
                                             {"unit", ""},
                                             {"a", 1},
                                             {"b", 2},
                                             {"first_stage", 0},
                                             {"last_stage", 0}});
  CHECK(json["actors_only_in_a"].empty());
}

}  // namespace
}  // namespace oneflow
