#include "planning/simulate/measured_use.h"

#include <catch2/catch.hpp>

#include <string>

namespace oneflow {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TraceFacts Facts() {
  TraceFacts facts;
  facts.stage_of = {0, 1};
  facts.actors["train"]["f"] = {TraceFacts::Part::kForward};
  facts.actors["train"]["sum"] = {TraceFacts::Part::kExchange};
  facts.actors["train"]["send"] = {TraceFacts::Part::kExchange, /*between_stages=*/true};
  return facts;
}

void Fire(int name, int64_t step, int64_t begin, int64_t ready, int64_t end,
          proto::ProcessTrace::Firings* to) {
  to->add_name(name);
  to->add_step(step);
  to->add_firing(step);
  to->add_begin(begin * kSecond);
  to->add_ready(ready * kSecond);
  to->add_end(end * kSecond);
}

// In each step of 10 seconds a device computes for 4, sums for 2, of which 1 overlaps the compute,
// and sends for 1 after it has waited for 2.
proto::ProcessTrace Trace(int steps) {
  proto::ProcessTrace trace;
  for (const char* name : {"f", "sum", "send"}) trace.add_name(name);
  for (int rank = 0; rank < 2; ++rank) {
    for (const char* stream : {"compute", "exchange"}) {
      proto::ProcessTrace::Track* track = trace.add_track();
      track->set_rank(rank);
      track->set_name(stream);
      proto::ProcessTrace::Firings* to = trace.add_firings();
      to->set_track(trace.track_size() - 1);
      to->set_program("train");
      for (int64_t s = 0; s < steps; ++s) {
        const int64_t at = 10 * s;
        if (stream == std::string("compute")) {
          Fire(0, s, at, at, at + 4, to);
        } else {
          Fire(1, s, at + 3, at + 3, at + 5, to);
          Fire(2, s, at + 5, at + 7, at + 8, to);
        }
      }
    }
  }
  return trace;
}

TEST_CASE("time of steps is compute, exposed exchange and idle; what waits for others is idle") {
  const auto use = MeasureUse(Trace(6), Facts());
  REQUIRE(use.has_value());
  CHECK(use->first_step == 1);
  CHECK(use->steps == 4);
  CHECK(use->step_seconds == Approx(10));
  CHECK(use->mean.compute == Approx(4));
  CHECK(use->mean.exposed == Approx(2));
  CHECK(use->mean.hidden == Approx(1));
  CHECK(use->mean.idle == Approx(4));
  CHECK(use->bubble == Approx(.5));
}

TEST_CASE("copies are a part of their own, and what the host computes for a device is none") {
  proto::ProcessTrace trace = Trace(6);
  TraceFacts facts = Facts();
  facts.actors["train"]["out"].part = TraceFacts::Part::kCopy;
  facts.actors["train"]["update"] = {TraceFacts::Part::kHost};
  trace.add_name("out");
  trace.add_name("update");
  for (int rank = 0; rank < 2; ++rank) {
    for (const int name : {3, 4}) {
      proto::ProcessTrace::Track* track = trace.add_track();
      track->set_rank(rank);
      proto::ProcessTrace::Firings* to = trace.add_firings();
      to->set_track(trace.track_size() - 1);
      to->set_program("train");
      // From 3 to 6 of the step the device computes and exchanges until 5.
      for (int64_t s = 0; s < 6; ++s) {
        const int64_t at = 10 * s;
        name == 3 ? Fire(3, s, at + 3, at + 3, at + 6, to) : Fire(4, s, at, at, at + 10, to);
      }
    }
  }
  const auto use = MeasureUse(trace, facts);
  REQUIRE(use.has_value());
  CHECK(use->mean.compute == Approx(4));
  CHECK(use->mean.exposed == Approx(2));
  CHECK(use->mean.exposed_copy == Approx(1));
  CHECK(use->mean.hidden_copy == Approx(2));
  CHECK(use->mean.idle == Approx(3));
}

TEST_CASE("few steps count all") {
  const auto use = MeasureUse(Trace(1), Facts());
  REQUIRE(use.has_value());
  CHECK(use->steps == 1);
  CHECK(use->step_seconds == Approx(8));
  CHECK(use->mean.idle == Approx(2));
}

TEST_CASE("steps that a stream has no room for do not count") {
  proto::ProcessTrace trace = Trace(9);
  proto::ProcessTrace::Firings* last = trace.mutable_firings(3);
  while (last->step(last->step_size() - 1) > 5) {
    last->mutable_step()->RemoveLast();
  }
  const auto use = MeasureUse(trace, Facts());
  REQUIRE(use.has_value());
  CHECK(use->steps == 4);
}

TEST_CASE("host streams, other programs and later runs do not count") {
  proto::ProcessTrace trace = Trace(6);
  trace.mutable_track(0)->set_host(true);
  trace.mutable_track(1)->set_host(true);
  *trace.add_firings() = trace.firings(2);
  for (int64_t& step : *trace.mutable_firings(4)->mutable_step()) step += 6;
  for (int64_t& end : *trace.mutable_firings(4)->mutable_end()) end += 1000 * kSecond;
  const auto use = MeasureUse(trace, Facts());
  REQUIRE(use.has_value());
  CHECK(use->steps == 4);
  CHECK(use->mean.compute == Approx(4));
  CHECK_FALSE(MeasureUse({}, Facts()).has_value());
  for (auto& firings : *trace.mutable_firings()) firings.set_program("eval");
  CHECK_FALSE(MeasureUse(trace, Facts()).has_value());
}

}  // namespace
}  // namespace oneflow
