// Parts of several processes become one trace.
#include "actor_runtime/exec/trace_json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "actor_runtime/exec/trace_events.h"

namespace oneflow {
namespace {

// A process with one stream that fires one exchange, entered at `begin` and over at `end` of a
// clock that is `offset` behind the common clock.
proto::ProcessTrace MakeTracePart(int process, int64_t offset, int64_t begin, int64_t end,
                                  bool sends) {
  proto::ProcessTrace part;
  part.set_process(process);
  part.set_host("h");
  part.set_clock_offset(offset);
  part.set_clock_error(1000 * process);
  proto::ProcessTrace::Track* track = part.add_track();
  track->set_rank(process);
  track->set_name("exchange");
  part.add_name("g");
  proto::ProcessTrace::Firings* firings = part.add_firings();
  firings->set_program("train");
  firings->add_name(0);
  firings->add_begin(begin);
  firings->add_end(end);
  firings->add_step(3);
  firings->add_firing(7);
  proto::ProcessTrace::Joint* joint = part.mutable_joint();
  joint->add_run(2);
  joint->add_rank(0);
  joint->add_actor(5);
  joint->add_firing(7);
  joint->add_track(0);
  joint->add_begin(begin);
  joint->add_end(end);
  joint->add_sends(sends);
  return part;
}

nlohmann::json Join(const std::vector<proto::ProcessTrace>& parts, int processes) {
  return nlohmann::json::parse(TraceJson(parts, processes));
}

std::vector<nlohmann::json> EventsInPhase(const nlohmann::json& trace, const std::string& phase) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

TEST_CASE("moments of all processes are of one clock") {
  // At 5000 and 7000 of the clock of all.
  const auto trace = Join({MakeTracePart(0, 0, 5000, 9000, false),
                           MakeTracePart(1, -1'000'000, 1'007'000, 1'009'000, false)},
                          2);
  const auto slices = EventsInPhase(trace, "X");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0]["ts"] == 0);
  CHECK(slices[1]["ts"] == 2);
  CHECK(slices[1]["dur"] == 2);
  CHECK(slices[1]["pid"] == 1);
  CHECK(slices[0]["tid"] != slices[1]["tid"]);
  CHECK(slices[1]["args"]["step"] == 3);
  CHECK(trace["otherData"]["processes"] == "2");
  CHECK(trace["otherData"]["clock_error_us"] == "1");
  CHECK_FALSE(trace["otherData"].contains("missing_processes"));
}

TEST_CASE("an arrow leads from the member that entered last to those that waited for it") {
  const auto trace =
      Join({MakeTracePart(0, 0, 5000, 9000, false), MakeTracePart(1, 0, 8000, 9500, false),
            MakeTracePart(2, 0, 6000, 9600, false)},
           3);
  const auto from = EventsInPhase(trace, "s"), to = EventsInPhase(trace, "f");
  REQUIRE(from.size() == 2);
  REQUIRE(to.size() == 2);
  for (const auto& start : from) {
    CHECK(start["pid"] == 1);
    CHECK(start["ts"] == 3);
  }
  CHECK(to[0]["pid"] == 0);
  CHECK(to[0]["ts"] == 3.999);
  CHECK(to[1]["pid"] == 2);
  CHECK(to[0]["id"] == from[0]["id"]);
  CHECK(to[0]["id"] != to[1]["id"]);
}

TEST_CASE("an arrow of a transfer leads from the send, even if it entered first") {
  const auto trace =
      Join({MakeTracePart(0, 0, 5000, 9000, true), MakeTracePart(1, 0, 8000, 9500, false)}, 2);
  const auto from = EventsInPhase(trace, "s");
  REQUIRE(from.size() == 1);
  CHECK(from[0]["pid"] == 0);
}

TEST_CASE("other firings and members of one process are joined by no arrow") {
  proto::ProcessTrace other = MakeTracePart(1, 0, 6000, 9000, false);
  other.mutable_joint()->set_firing(0, 8);
  CHECK(EventsInPhase(Join({MakeTracePart(0, 0, 5000, 9000, false), other}, 2), "s").empty());
  CHECK(EventsInPhase(Join({MakeTracePart(0, 0, 5000, 9000, false)}, 2), "s").empty());
}

TEST_CASE("processes that are missing are named") {
  const auto trace = Join({MakeTracePart(1, 0, 5000, 9000, false)}, 4);
  CHECK(trace["otherData"]["missing_processes"] == "0, 2, 3");
}

TEST_CASE("predicted parts are separate processes, on the time axis of the measured ones") {
  proto::ProcessTrace measured = MakeTracePart(0, 0, 5000, 9000, false);
  CHECK(StepBegin({&measured, 1}, "train", 3) == 5000);
  CHECK_FALSE(StepBegin({&measured, 1}, "train", 4).has_value());
  CHECK_FALSE(StepBegin({&measured, 1}, "eval", 3).has_value());
  proto::ProcessTrace predicted = MakeTracePart(0, 5000, 0, 3000, false);
  predicted.clear_joint();
  predicted.set_predicted(true);
  predicted.add_memory()->set_rank(0);
  predicted.mutable_memory(0)->add_time(1000);
  predicted.mutable_memory(0)->add_bytes(64);
  CHECK_FALSE(StepBegin({&predicted, 1}, "train", 3).has_value());
  const auto trace = Join({measured, predicted}, 1);
  const auto slices = EventsInPhase(trace, "X");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0]["ts"] == slices[1]["ts"]);
  CHECK(slices[0]["pid"] != slices[1]["pid"]);
  std::vector<std::string> names;
  for (const auto& event : EventsInPhase(trace, "M")) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
  }
  CHECK(names == std::vector<std::string>{"rank 0", "predicted: stage 0"});
  const auto counters = EventsInPhase(trace, "C");
  REQUIRE(counters.size() == 1);
  CHECK(counters[0]["ts"] == 1);
  CHECK(counters[0]["pid"] == slices[1]["pid"]);
  CHECK(counters[0]["args"]["bytes"] == 64);
}

TEST_CASE("inconsistent events of a part are left out") {
  proto::ProcessTrace part = MakeTracePart(0, 0, 5000, 9000, false);
  part.mutable_firings(0)->add_begin(6000);  // a row that is not there in other columns
  part.add_firings()->set_track(9);
  proto::ProcessTrace::Firings* nameless = part.add_firings();
  nameless->add_name(4);
  nameless->add_begin(1);
  nameless->add_end(2);
  nameless->add_step(0);
  nameless->add_firing(0);
  part.mutable_joint()->set_track(0, -1);
  part.mutable_arrows()->add_from_track(0);
  part.set_process(77);
  CHECK(EventsInPhase(Join({part}, 2), "X").size() == 1);
}

}  // namespace
}  // namespace oneflow
