#include "planning/lock/plan_lock.h"

#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/recipe/field_text.h"
#include "planning/simulate/cost_version.h"

namespace oneflow {
namespace {

proto::Plan SmallPlan() {
  proto::Plan plan;
  plan.set_model("gpt");
  plan.mutable_graph()->set_name("gpt");
  *plan.mutable_recipe() = MakeRecipe("--mesh=pipe=3,data=2 --batch=8 --micro_batches=4");
  *plan.mutable_mesh() = plan.recipe().mesh();
  for (int stage = 0; stage < 3; ++stage) {
    proto::StageMemory* memory = plan.add_memory();
    memory->set_stage(stage);
    memory->set_arena_bytes(stage == 0 ? 640 : 1280);
  }
  plan.add_program()->set_name("train");
  return plan;
}

proto::Cluster SmallCluster() {
  proto::Cluster cluster;
  cluster.set_name("two \"nodes\"");
  cluster.mutable_device()->set_peak_flops(1e12);
  cluster.mutable_device()->set_memory_bytes(1 << 30);
  return cluster;
}

PlanLock MakeSmallLock(const proto::Plan& plan, const proto::Cluster& cluster) {
  return MakeLock({.plan = plan,
                   .priced = plan,
                   .cluster = cluster,
                   .step_seconds = 1.23456789,
                   .compared = {{"system", nullptr}, {"sigma", 0.123456789}}});
}

std::string Replaced(std::string text, const std::string& was, const std::string& now) {
  const size_t at = text.find(was);
  REQUIRE(at != text.npos);
  return text.replace(at, was.size(), now);
}

}  // namespace

TEST_CASE("a lock is read as it was written, and says what costs") {
  const PlanLock lock = MakeSmallLock(SmallPlan(), SmallCluster());
  CHECK(lock.devices == 6);
  CHECK(lock.bytes == std::vector<int64_t>{640, 1280, 1280});
  CHECK(lock.choices.at("micro_batches") == "4");
  CHECK(*lock.step_seconds == 1.23457);
  CHECK(lock.compared["sigma"] == 0.123457);
  CHECK(lock.costs.version == kCostVersion);
  const std::string text = LockText(lock);
  CHECK(text.find("\"1-2\": 1280,\n") == text.npos);  // the last one of its object
  CHECK(text.find("\n  \"0\": 640,\n  \"1-2\": 1280\n }") != text.npos);
  const auto read = ParseLock(text, "plan.lock");
  REQUIRE(read.ok());
  CHECK(*read == lock);
  CHECK(LockText(*read) == text);
}

TEST_CASE("a lock without a step, and with the host's memory and a price") {
  proto::Plan plan = SmallPlan();
  proto::StageMemory* host = plan.add_memory();
  host->set_kind(proto::HOST);
  host->set_arena_bytes(64);
  const proto::Cluster cluster = SmallCluster();
  const PlanLock lock =
      MakeLock({.plan = plan, .priced = plan, .cluster = cluster, .imbalance = 1.25});
  CHECK(lock.host_bytes == std::vector<int64_t>{64});
  const auto read = ParseLock(LockText(lock), "plan.lock");
  REQUIRE(read.ok());
  CHECK(*read == lock);
}

TEST_CASE("costs are known by their rates; names and memory are no costs") {
  const proto::Plan plan = SmallPlan();
  proto::Cluster cluster = SmallCluster();
  const PlanLock lock = MakeSmallLock(plan, cluster);
  cluster.set_name("other");
  cluster.mutable_device()->set_memory_bytes(1 << 20);
  CHECK(MakeSmallLock(plan, cluster).costs.fingerprint == lock.costs.fingerprint);
  cluster.mutable_device()->set_peak_flops(2e12);
  CHECK(MakeSmallLock(plan, cluster).costs.fingerprint != lock.costs.fingerprint);
}

TEST_CASE("choices that move no bits leave their fingerprint") {
  proto::Plan plan = SmallPlan();
  const proto::Cluster cluster = SmallCluster();
  const PlanLock lock = MakeSmallLock(plan, cluster);
  plan.mutable_recipe()->set_prefetch(3);
  CHECK(MakeSmallLock(plan, cluster).bits == lock.bits);
  plan.mutable_recipe()->set_micro_batches(8);
  CHECK(MakeSmallLock(plan, cluster).bits != lock.bits);
  plan = SmallPlan();
  plan.mutable_optimizer()->set_learning_rate(1);
  CHECK(MakeSmallLock(plan, cluster).bits != lock.bits);
}

TEST_CASE("what is no lock is refused") {
  const std::string text = LockText(MakeSmallLock(SmallPlan(), SmallCluster()));
  const auto error = [](const std::string& edited) {
    const auto read = ParseLock(edited, "plan.lock");
    REQUIRE(!read.ok());
    CHECK(read.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(read.status().message());
  };
  CHECK(error("").starts_with("plan.lock: is no JSON"));
  CHECK(error(text.substr(0, text.size() / 2)).starts_with("plan.lock: is no JSON"));
  CHECK(error("[1]").starts_with("plan.lock: is no lock of a plan"));
  CHECK(error("{}").starts_with("plan.lock: is no lock of a plan"));
  CHECK(error(Replaced(text, "\"lock\": 1", "\"lock\": 2")) ==
        "plan.lock: is a lock of version 2, and this program reads 1; use the release that wrote "
        "it, or write it anew with `oneflow compile --lock`");
  CHECK(error(Replaced(text, "\"micro_batches\": \"4\"", "\"micro_batches\": \"8\"")) ==
        "plan.lock: choices: are not those of the fingerprint `recipe`: they were edited; write it "
        "anew with `oneflow compile --lock`");
  CHECK(error(Replaced(text, "\"graph\": \"", "\"graph\": \"x"))
            .starts_with("plan.lock: graph: is no fingerprint of 32 hex digits"));
  CHECK(error(Replaced(text, "\"devices\"", "\"device\""))
            .starts_with("plan.lock: devices: is missing"));
  CHECK(error(Replaced(text, "\"0\": 640", "\"0\": -640"))
            .starts_with("plan.lock: bytes, stages 0: is no whole number, 0 or more"));
  for (const char* stages : {"\"1\": 640", "\"0-\": 640", "\"0-9999999999\": 640", "\"a\": 640"}) {
    CHECK(error(Replaced(text, "\"0\": 640", stages)).find("do not go on") != text.npos);
  }
  CHECK(error(Replaced(text, "\"seconds\": 1.23457", "\"seconds\": \"1\""))
            .starts_with("plan.lock: step: seconds: is no number, 0 or more"));
  CHECK(error(Replaced(text, "\"exchanges\": {}", "\"exchanges\": []"))
            .starts_with("plan.lock: exchanges: is no object"));
  CHECK(error(Replaced(text, "\"version\": 1", "\"version\": 1e9"))
            .starts_with("plan.lock: costs: version: is no whole number"));
  CHECK(error(Replaced(text, "\"model\": \"gpt\"", "\"model\": null"))
            .starts_with("plan.lock: model: is no text"));
}

}  // namespace oneflow
