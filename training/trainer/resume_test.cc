#include "training/trainer/resume.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/temporary_directory.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

using Changes = std::vector<std::string>;

proto::Graph ParseGraph(const std::string& text) {
  proto::Graph graph;
  REQUIRE(ParseText(text, "graph", "graph", &graph).ok());
  return graph;
}

constexpr char kGraph[] = R"(
    name: "tiny" loss: "loss"
    op { name: "x" kind: "input" shape { dim { name: "batch" } dim { size: 4 } } }
    op { name: "w" kind: "variable" shape { dim { size: 4 } } attr { key: "init_value" value { f: 1 } } }
    op { name: "y" kind: "mul" input: "x" input: "w" }
    op { name: "d" kind: "dropout" input: "y" attr { key: "rate" value { f: 0.1 } } }
    op { name: "e" kind: "dropout" input: "d" attr { key: "rate" value { f: 0.1 } } }
    op { name: "loss" kind: "mean" input: "e" })";

void SetMesh(const std::string& mesh, RunFacts* facts) {
  REQUIRE(SetField(*FindRow(RecipeRows(), "mesh"), mesh, &facts->recipe).ok());
}

RunFacts Example() {
  RunFacts facts;
  facts.recipe.set_batch(8);
  facts.recipe.set_micro_batches(2);
  facts.recipe = WithDefaults(facts.recipe);
  facts.optimizer.set_clip(1);
  facts.graph = ParseGraph(kGraph);
  SetMesh("pipe=2,data=2", &facts);
  facts.tokens = 1000;
  return facts;
}

// The reported differences after `change` of the example.
template <typename Fn>
Changes After(Fn change) {
  RunFacts now = Example();
  change(now);
  return ChangesOfRun(Example(), now);
}

proto::Op& FindOp(RunFacts& facts, const std::string& name) {
  for (proto::Op& op : *facts.graph.mutable_op()) {
    if (op.name() == name) return op;
  }
  FAIL(name);
  return *facts.graph.add_op();
}

TEST_CASE("ChangesOfRun: numbers, in one phrase") {
  CHECK(ChangesOfRun(Example(), Example()).empty());
  CHECK(After([](RunFacts& f) { f.recipe.set_micro_batches(4); }) ==
        Changes{"with other numbers: --micro_batches 2, now 4 (sums in another order)"});
  CHECK(After([](RunFacts& f) {
          f.recipe.set_batch(16);
          f.recipe.set_precision(proto::BF16);
          f.recipe.set_residual(proto::BF16);
          f.optimizer.set_clip(0.5);
        }) == Changes{"with other numbers: --batch 8, now 16; --precision f32, now bf16; "
                      "--residual f32, now bf16; --clip 1, now 0.5"});
  CHECK(After([](RunFacts& f) { f.recipe.set_precision(proto::F32); }).empty());  // as unspecified
}

TEST_CASE("ChangesOfRun: what is said of one of the two alone") {
  RunFacts lagging = Example(), old = Example();
  lagging.recipe.set_schedule("2bw");
  lagging.recipe.set_steps_a_round(8);
  CHECK(
      ChangesOfRun(lagging, Example()) ==
      Changes{"with other numbers: --schedule 2bw, now synchronous; --steps_a_round 8, now none"});
  CHECK(
      ChangesOfRun(Example(), lagging) ==
      Changes{"with other numbers: --schedule synchronous, now 2bw; --steps_a_round none, now 8"});
  old.recipe.clear_gather();  // it does not know all
  CHECK(ChangesOfRun(old, lagging) ==
        Changes{"with other numbers: --schedule synchronous, now 2bw"});
}

TEST_CASE("ChangesOfRun: changes without effect on bits are not reported") {
  CHECK(After([](RunFacts& f) {
          f.recipe.set_schedule("zero_bubble");
          f.recipe.mutable_recompute()->add_term()->set_policy("full");
          f.recipe.set_chunks(2);
          f.recipe.set_fuse(false);
          FindOp(f, "d").set_kind("stored_dropout");
          FindOp(f, "y").set_stage(1);
          FindOp(f, "y").set_recompute("block");
          (*FindOp(f, "w").mutable_attr())["init_value"].set_f(2);
          FindOp(f, "w").mutable_shape()->mutable_dim(0)->set_name("width");
          f.graph.mutable_mesh()->add_axis()->set_name("data");
        }).empty());
}

TEST_CASE("ChangesOfRun: the mesh but for its stages") {
  const auto mesh = [](const std::string& text) {
    return After([&](RunFacts& f) { SetMesh(text, &f); });
  };
  CHECK(mesh("data=2").empty());
  CHECK(mesh("pipe=4,data=2,tensor=1").empty());
  CHECK(mesh("data=4") ==
        Changes{"with other numbers: --mesh data=2, now data=4 (sums in another order)"});
  CHECK(mesh("data=1x2") ==
        Changes{"with other numbers: --mesh data=2, now data=1x2 (sums in another order)"});
  CHECK(mesh("pipe=2,data=2,tensor=2") ==
        Changes{"with other numbers: --mesh data=2, now data=2,tensor=2 (sums in another order)"});
  CHECK(
      mesh("pipe=2") ==
      Changes{"with other numbers: --mesh data=2, now one device a stage (sums in another order)"});
  RunFacts unknown = Example();
  unknown.recipe.clear_mesh();
  unknown.recipe.clear_gather();  // of an older checkpoint
  CHECK(ChangesOfRun(unknown, Example()).empty());
}

TEST_CASE("ChangesOfRun: the data by its size") {
  CHECK(After([](RunFacts& f) { f.tokens = 900; }) ==
        Changes{"on other data: tokens 1000, now 900"});
  CHECK(After([](RunFacts& f) { f.tokens = 0; }).empty());  // not known
}

TEST_CASE("ChangesOfRun: the first op that differs, and how many others") {
  const auto rate = [](RunFacts& f, const std::string& op, double rate) {
    (*FindOp(f, op).mutable_attr())["rate"].set_f(rate);
  };
  CHECK(After([&](RunFacts& f) { rate(f, "d", 0.2); }) ==
        Changes{"with another graph: op d: rate 0.1, now 0.2"});
  CHECK(After([&](RunFacts& f) {
          rate(f, "d", 0.2);
          rate(f, "e", 0.3);
        }) == Changes{"with another graph: op d: rate 0.1, now 0.2 (and 1 more)"});
  CHECK(After([](RunFacts& f) {
          f.graph.mutable_op()->DeleteSubrange(4, 1);
          FindOp(f, "loss").set_input(0, "d");
        }) == Changes{"with another graph: op loss: input e, now d (and 1 more)"});
  CHECK(After([](RunFacts& f) { f.graph.mutable_op()->DeleteSubrange(4, 1); }) ==
        Changes{"with another graph: op e: kind dropout, now none"});
  CHECK(After([](RunFacts& f) {
          proto::Op* op = f.graph.add_op();
          op->set_name("new");
          op->set_kind("gelu");
        }) == Changes{"with another graph: op new: kind none, now gelu"});
  CHECK(After([](RunFacts& f) { FindOp(f, "x").mutable_shape()->mutable_dim(1)->set_size(5); }) ==
        Changes{"with another graph: op x: shape [0,4], now [0,5]"});
  CHECK(After([](RunFacts& f) { f.graph.set_loss("e"); }) ==
        Changes{"with another graph: loss loss, now e"});
  CHECK(After([](RunFacts& f) { (*FindOp(f, "y").add_sbp()->mutable_on())["tensor"] = "B"; }) ==
        Changes{"with another graph: op y: sbp none, now "
                "{on { key: \"tensor\" value: \"B\" }}"});
}

TEST_CASE("ChangesOfRun: layouts of the training that the graph states") {
  const auto state = [](const char* program, const char* signature) {
    return [=](RunFacts& f) {
      proto::OpLayout* layout = f.graph.add_layout();
      layout->set_program(program);
      layout->set_signature(signature);
    };
  };
  const auto stated = state("train", "() -> B");
  CHECK(After(state("decode", "() -> B")).empty());
  CHECK(After(stated) == Changes{"with another graph: layouts inferred, now stated"});
  RunFacts was = Example(), now = Example();
  stated(was), state("train", "() -> S(0)")(now);
  CHECK(ChangesOfRun(was, was).empty());
  CHECK(ChangesOfRun(was, now) ==
        Changes{"with another graph: layouts stated, now stated otherwise"});
  CHECK(ChangesOfRun(was, Example()) ==
        Changes{"with another graph: layouts stated, now inferred"});
}

TEST_CASE("ChangesOfRun: each kind is one phrase") {
  const Changes changes = After([](RunFacts& f) {
    f.recipe.set_batch(4);
    SetMesh("tensor=2", &f);
    f.tokens = 5;
    FindOp(f, "y").set_kind("add");
  });
  CHECK(changes == Changes{"with other numbers: --mesh data=2, now tensor=2 (sums in another "
                           "order); --batch 8, now 4",
                           "on other data: tokens 1000, now 5",
                           "with another graph: op y: kind mul, now add"});
}

// Folders with a manifest, and one without.
std::string Folder(const TemporaryDirectory& dir) {
  for (const int step : {1, 2, 3, 5}) {
    const std::string folder = dir.path() + "/step-0000000" + std::to_string(step);
    std::filesystem::create_directory(folder);
    if (step != 3) REQUIRE(WriteFile(folder + "/manifest.json", "{}").ok());
  }
  return dir.path() + "/step-0000000";
}

TEST_CASE("ChooseCheckpoint: the newest that verifies, and none is asked about after it") {
  const TemporaryDirectory dir;
  const std::string step = Folder(dir);
  std::vector<std::string> asked;
  const auto verifies_up_to = [&](int newest) {
    return [&, newest](const std::string& folder) -> absl::Status {
      asked.push_back(folder);
      if (folder <= step + std::to_string(newest)) return absl::OkStatus();
      return newest == 0 ? absl::NotFoundError(folder + " is gone; use another checkpoint")
                         : absl::DataLossError(folder + ": is damaged; use another checkpoint");
    };
  };
  CHECK(*ChooseCheckpoint(dir.path(), verifies_up_to(9)) == step + "5");
  CHECK(*ChooseCheckpoint(dir.path(), verifies_up_to(2)) == step + "2");
  CHECK(*ChooseCheckpoint(dir.path(), verifies_up_to(1)) == step + "1");
  CHECK(asked ==
        std::vector{step + "5", step + "5", step + "2", step + "5", step + "2", step + "1"});
  const absl::Status none = ChooseCheckpoint(dir.path(), verifies_up_to(0)).status();
  CHECK(none.code() == absl::StatusCode::kDataLoss);
  CHECK(std::string(none.message()) ==
        dir.path() + ": none of its checkpoints can be used:\n  " + step + "5: " + step +
            "5 is gone\n  " + step + "3: it has no manifest.json, so it is not complete\n  " +
            step + "2: " + step + "2 is gone\n  " + step + "1: " + step + "1 is gone");
}

TEST_CASE("ChooseCheckpoint: what is no damage ends the choice") {
  const TemporaryDirectory dir;
  const std::string step = Folder(dir);
  for (const absl::Status& status :
       {absl::InvalidArgumentError("another model"), absl::AbortedError("process 3 is gone")}) {
    int asked = 0;
    CHECK(ChooseCheckpoint(dir.path(), [&](const std::string&) {
            ++asked;
            return status;
          }).status() == status);
    CHECK(asked == 1);
  }
  const TemporaryDirectory empty;
  const auto fail = [](const std::string&) -> absl::Status { return absl::UnknownError("asked"); };
  CHECK(ChooseCheckpoint(empty.path(), fail).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("ChooseCheckpoint: the error about the only one is its own") {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir.path() + "/step-00000001");
  REQUIRE(WriteFile(dir.path() + "/step-00000001/manifest.json", "{}").ok());
  const auto damaged = [](const std::string&) -> absl::Status {
    return absl::DataLossError("w: is damaged; use another checkpoint");
  };
  CHECK(ChooseCheckpoint(dir.path(), damaged).status() == damaged(""));
}

TEST_CASE("CheckRecords: the order of the data is that of the run") {
  const RecordsId none, epochs = {9, "0123456789abcdef", true}, draws = {9, "0123456789abcdef"},
                        more = {10, "fedcba9876543210", true},
                        others = {9, "0000000000000000", true};
  const auto message = [](const RecordsId& was, const RecordsId& now) {
    return std::string(CheckRecords("run", was, now).message());
  };
  CHECK(message(none, none).empty());
  CHECK(message(epochs, epochs).empty());
  const std::string begin_new = "; resume as that run began, or begin a new one by --init_from=run";
  CHECK(message(epochs, none) ==
        "--epochs: the run reads samples that begin at any position, but "
        "run was trained on epochs of 9 records" +
            begin_new);
  CHECK(message(draws, epochs) ==
        "--epochs: the run reads epochs of 9 records, but run was trained "
        "on draws from 9 records" +
            begin_new);
  CHECK(message(draws, none) ==
        "--data: the run reads samples that begin at any position, but run "
        "was trained on draws from 9 records" +
            begin_new);
  const std::string same =
      "; resume with the same files, sequence, --documents, --eval_fraction and "
      "--long_chats, which order the data, or begin a new run by "
      "--init_from=run";
  CHECK(message(epochs, more) == "--data: has 10 records, but run was trained on 9" + same);
  CHECK(message(epochs, others) ==
        "--data: has 9 records, but run was trained on others of that number" + same);
}

}  // namespace
}  // namespace oneflow
