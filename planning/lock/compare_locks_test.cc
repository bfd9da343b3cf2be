#include "planning/lock/compare_locks.h"

#include <string>

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

using Strings = std::vector<std::string>;

PlanLock Lock() {
  return {.model = "gpt",
          .graph = std::string(32, '0'),
          .choices = {{"mesh", "data=2"},
                      {"micro_batches", "4"},
                      {"precision", "f32"},
                      {"prefetch", "2"}},
          .bits = std::string(32, '1'),
          .devices = 2,
          .bytes = {1000, 2000},
          .step_seconds = 1.0,
          .exchanges = {{"all_reduce over data", 500}},
          .costs = {1, "h100", std::string(32, '2')}};
}

LockLimits Limits(const std::string& text) {
  const auto limits = ParseLockLimits(text);
  REQUIRE(limits.ok());
  return *limits;
}

LockChanges Compare(const PlanLock& now,
                    const std::string& limits = "bytes:1%,step:2%,exchanges:0") {
  return CompareLocks(Lock(), now, Limits(limits));
}

}  // namespace

TEST_CASE("nothing changed") {
  const LockChanges changes = Compare(Lock());
  CHECK(changes.empty());
  CHECK(LockChangesReport(changes).text == "the plan is as locked\n");
}

TEST_CASE("what grows by more than its limit is above; what shrinks never is") {
  PlanLock now = Lock();
  now.bytes = {1010, 1};
  now.step_seconds = 1.02;
  now.exchanges.clear();
  LockChanges changes = Compare(now);
  CHECK(changes.above.empty());
  CHECK(changes.numbers.size() == 5);
  now.bytes[0] = 1011;
  now.step_seconds = 1.0201;
  now.exchanges = {{"all_reduce over data", 100}, {"all_gather over data", 401}};
  changes = Compare(now);
  CHECK(changes.above == Strings{"bytes of stage 0: 1000 bytes -> 1011 bytes (+1.1 %), above 1%",
                                 "step: 1.000 s -> 1.020 s (+2.01 %), above 2%",
                                 "exchanges: 500 bytes -> 501 bytes (+0.2 %), above 0"});
  CHECK(Compare(now, "step:21ms,bytes:11,exchanges:1B").above.empty());
  CHECK(Compare(now, "step:20ms").above.size() == 1);
  CHECK(Compare(now, "bytes:10").above.size() == 1);
}

TEST_CASE("of another number of stages the largest counts; memory of the host is bytes, too") {
  PlanLock now = Lock();
  now.bytes = {2000};
  CHECK(Compare(now).numbers.empty());
  now.bytes = {500, 500, 2500};
  now.host_bytes = {0, 0, 64};
  const LockChanges changes = Compare(now, "bytes:10%");
  CHECK(changes.above ==
        Strings{"bytes of the largest stage: 2.0 KiB -> 2.4 KiB (+25 %), above 10%",
                "bytes of the host of the largest stage: 0 bytes -> 64 bytes, above 10%"});
}

TEST_CASE("alike stages are one") {
  PlanLock was = Lock(), now = Lock();
  was.bytes = {1, 5, 5, 5};
  now.bytes = {1, 6, 6, 5};
  const LockChanges changes = CompareLocks(was, now, {});
  REQUIRE(changes.numbers.size() == 1);
  CHECK(changes.numbers[0].what == "bytes of stages 1 to 2");
}

TEST_CASE("under other costs the step is shown and not held, bytes are held") {
  for (const bool version : {true, false}) {
    PlanLock now = Lock();
    now.step_seconds = 9;
    now.bytes[1] = 3000;
    if (version) {
      now.costs.version = 2;
    } else {
      now.costs.fingerprint[0] = 'f';
    }
    const LockChanges changes = Compare(now);
    CHECK(!changes.step_held);
    CHECK(changes.above.size() == 1);
    CHECK(changes.above[0].starts_with("bytes of stage 1"));
    const Report report = LockChangesReport(changes);
    CHECK(report.text.find(version ? "ours changed, version 1 -> 2: the step is not held"
                                   : "rates of h100 changed: the step is not held") !=
          std::string::npos);
    CHECK(report.text.find("graph             the same\n") != std::string::npos);
    CHECK(report.text.find("step              1.000 s -> 9.000 s") != std::string::npos);
    CHECK(!report.json["step_held"].get<bool>());
    CHECK(report.json["costs"]["was"]["version"] == 1);
  }
}

TEST_CASE("choices say which bits they move") {
  PlanLock now = Lock();
  now.choices["prefetch"] = "3";
  CHECK(Compare(now).bits == LockChanges::Bits::kSame);
  now.choices["mesh"] = "pipe=3,data=2";  // bits are those of any number of stages
  CHECK(Compare(now).bits == LockChanges::Bits::kSame);
  now.choices["mesh"] = "data=4";
  now.choices["micro_batches"] = "8";
  LockChanges changes = Compare(now);
  CHECK(changes.bits == LockChanges::Bits::kSums);
  CHECK(changes.moving == Strings{"mesh", "micro_batches"});
  CHECK(LockChangesReport(changes).text.find(
            "A -> B, within rounding: sums are made in another order (mesh, micro_batches)") !=
        std::string::npos);
  now.choices["precision"] = "bf16";
  CHECK(Compare(now).bits == LockChanges::Bits::kValues);
  now = Lock();
  now.graph[0] = 'f';
  CHECK(Compare(now).bits == LockChanges::Bits::kValues);
  now = Lock();
  now.bits[0] = 'f';
  CHECK(Compare(now).bits == LockChanges::Bits::kValues);
  now = Lock();
  now.imbalance = 1.25;
  REQUIRE(Compare(now).choices.size() == 1);
  CHECK(Compare(now).choices[0].name == "imbalance");
}

TEST_CASE("a choice that the lock does not know had its default") {
  PlanLock now = Lock();
  now.choices["documents"] = "false";
  now.choices["made_up"] = "1";
  const LockChanges changes = Compare(now);
  CHECK(changes.bits == LockChanges::Bits::kSame);
  REQUIRE(changes.choices.size() == 1);
  CHECK(changes.choices[0].was == "none");
}

TEST_CASE("limits are shares, or numbers with a unit") {
  const LockLimits limits = Limits("bytes:1%,step:5ms,exchanges:100MiB");
  CHECK(limits.bytes->share == 0.01);
  CHECK(limits.step->most == 0.005);
  CHECK(limits.exchanges->most == 100 << 20);
  CHECK(Limits("step:0.5s").step->most == 0.5);
  CHECK(Limits("step:5us").step->most == Approx(5e-6));
  CHECK(Limits("bytes:0%").bytes->share == 0);
  CHECK(!Limits("bytes:0").step);
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "names no bytes, step or exchanges"},
           {"byte:1%", "--fail_above=byte:1%: names no bytes, step or exchanges"},
           {"bytes:1%,", "names no bytes"},
           {"bytes", "has no limit"},
           {"bytes:1%,bytes:2%", "is given twice"},
           {"bytes:x%", "is no share"},
           {"bytes:-1%", "is no share"},
           {"bytes:inf%", "is no share"},
           {"bytes:", "--fail_above=bytes:"},
           {"bytes:-5", "--fail_above=bytes:-5"},
           {"bytes:5ms", "--fail_above=bytes:5ms"},
           {"step:5", "is no share and no time"},
           {"step:nans", "is no share and no time"},
           {"step:-5ms", "is no share and no time"},
           {"step:5MB", "is no share and no time"}}) {
    const auto read = ParseLockLimits(text);
    INFO(text);
    REQUIRE(!read.ok());
    CHECK(read.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(read.status().message()).find(words) != std::string::npos);
  }
}

}  // namespace oneflow
