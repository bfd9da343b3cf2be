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
  plan.mutable_recipe()->set_schedule("1f1b");
  *plan.mutable_facts()->add_program() = std::move(facts);
  return plan;
}

TEST_CASE("equal plans are alike") {
  const PlanDiff diff = DiffPlans(Pipeline(2, 4, 1), Pipeline(2, 4, 1), "train");
  CHECK(diff.empty());
  CHECK(DiffText(diff) == "the plans are alike\n");
}

std::string Row(std::string what, const std::string& text) {
  what.resize(41, ' ');
  return absl::StrCat("  ", what, "  ", text, "\n");
}

TEST_CASE("a thing has one line, of the stages that change most") {
  PlanDiff diff = DiffPlans(Pipeline(4, 4, 1), Pipeline(4, 8, 2), "train");
  AddNumber("time of a step on H100s", "s", 0.5, 0.75, &diff);
  AddNumber("bubble, part of a step", "", 0.0621, 0, &diff);
  CHECK(DiffText(diff) ==
        Row("time of a step", "500.000 ms -> 750.000 ms (+50.0 %)") +
            Row("bubble", "6.2 % -> 0.0 %") +
            Row("memory of the largest device", "128 bytes -> 192 bytes (+50.0 %)") +
            Row("memory", "64 bytes -> 128 bytes (+100.0 %)  stage 0 of 4 that differ") +
            Row("memory, registers and workspaces",
                "64 bytes -> 128 bytes (+100.0 %)  stage 0 of 4 that differ") +
            Row("order of compute", "F×4 -> F×8  stages 0 to 3") +
            Row("order of receive", "F.recv×4 -> F.recv×8  stages 1 to 3") +
            Row("order of send", "F.send×4 -> F.send×8  stages 0 to 2") +
            Row("order of issue, word 3", ")×4 -> )×8  stage 0 of 4 that differ") +
            Row("received in a step, receive", "256 bytes -> 512 bytes (+100.0 %)  stages 1 to 3") +
            Row("micro-batches", "4 -> 8 (+100.0 %)") +
            Row("registers, slots", "1 -> 2 (+100.0 %)  stage 0 of 4 that differ"));
}

TEST_CASE("stages that are no neighbours are counted") {
  PlanDiff diff;
  for (const int stage : {0, 1, 3}) AddNumber("slots", "", 1, stage == 3 ? 5 : 2, &diff, stage);
  CHECK(DiffText(diff) == Row("slots", "1 -> 5 (+400.0 %)  stage 3 of 3 that differ"));
}

TEST_CASE("long values are cut to 120 columns, at characters") {
  PlanDiff diff;
  std::string order;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&order, "(B F)×", i, " ");
  diff.facts.push_back({"order of compute", order, order + "U", {0, 0}});
  diff.facts.push_back({"order of compute", order, "U", {2, 3}});
  diff.only_b.push_back(std::string(200, 'x'));
  CHECK(DiffText(diff) ==
        Row("order of compute",
            "(B F)×0 (B F)×1 (B ... -> (B F)×0 (B F)×1 (B ...  stage 0 of 3 that differ") +
            "actors only in the second, 1:\n  " + std::string(115, 'x') + "...\n");
}

TEST_CASE("actors and stages of one plan only") {
  proto::Plan other = Pipeline(2, 4, 1);
  other.mutable_recipe()->set_schedule("gpipe");
  other.mutable_recipe()->set_precision(proto::BF16);
  CHECK(DiffText(DiffPlans(Pipeline(1, 4, 1), other, "train")) ==
        Row("memory of the largest device", "64 bytes -> 128 bytes (+100.0 %)") +
            Row("stage 1", "only in the second") + Row("mesh", "pipe=1 -> pipe=2") +
            Row("groups", "none -> stage 0 to 1") + Row("schedule", "1f1b -> gpipe") +
            Row("precision", "none -> bf16") + Row("order of send", "none -> F.send×4  stage 0") +
            Row("order of issue, word 1", "none -> ( h.to1.send )×4  stage 0") +
            Row("stages", "1 -> 2 (+100.0 %)") + Row("actors", "1 -> 2 (+100.0 %)  stage 0") +
            "actors only in the second, 3:\n"
            "  h.to1.send (send, group stage 0 to 1)\n"
            "  h.to1 (receive, group stage 0 to 1)\n"
            "  f1 (gelu)\n");
}

TEST_CASE("systems are compared, however alike all else is") {
  proto::Plan other = Pipeline(2, 4, 1);
  other.mutable_cluster()->set_as_system("megatron");
  CHECK(DiffText(DiffPlans(Pipeline(2, 4, 1), other, "train")) ==
        Row("system", "none -> megatron"));
}

TEST_CASE("groups and orders of issue are compared, however alike all else is") {
  proto::Plan other = Pipeline(3, 4, 1);
  proto::IssueOrder& issue = *other.mutable_program(0)->mutable_issue(1);
  issue.mutable_run(0)->mutable_actor()->SwapElements(0, 1);
  other.mutable_group(0)->clear_stages();
  other.mutable_group(0)->add_axis(0);
  CHECK(DiffText(DiffPlans(Pipeline(3, 4, 1), other, "train")) ==
        Row("groups", "stage 0 to 1; stage 1 to 2 -> pipe; stage 1 to 2") +
            Row("order of issue, word 2", "h.to1 h.to2.send )×4 -> h.to2.send h.to1 )×4  stage 1"));
}

TEST_CASE("names of alike layers share a line, and a first line stands first") {
  PlanDiff diff;
  for (const char* layer : {"0", "1", "2"}) {
    diff.only_a.push_back(absl::StrCat("h.", layer, ".fc.to1 (receive, group stage 0 to 1)"));
  }
  diff.only_a.push_back("ln_f (layer_norm)");
  diff.facts.push_back({"order of send.0", "a.0 a.1 a.2 a.3 a.4 b.7 a.5", ""});
  CHECK(DiffText(diff, "  the same time\n") ==
        "  the same time\n" + Row("order of send.0", "a.* (6) b.7 -> none") +
            "actors only in the first, 4:\n"
            "  h.*.fc.to1 (receive, group stage 0 to 1); 3 times\n"
            "  ln_f (layer_norm)\n");
}

TEST_CASE("json has the same") {
  const PlanDiff diff = DiffPlans(Pipeline(2, 4, 1), Pipeline(2, 4, 2), "train");
  const nlohmann::json json = DiffJson(diff);
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
