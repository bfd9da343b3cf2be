// The member's machine one event at a time: streams, breaks, clocks.
#include "training/job/member_state.h"

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/base/cause.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

using proto::JobToMember;

constexpr JobTime kStart = 1000 * kJobSecond;

JobIdentity Identity(int process, int processes) {
  return {.process = process,
          .processes = processes,
          .host = "h" + std::to_string(process),
          .ranks = {process, 1},
          .token = "secret"};
}

TEST_CASE("A process tries again until it is accepted, then never") {
  MemberState member({.self = Identity(1, 2), .coordinator = "c:1"}, kStart);
  std::vector<MemberAction> actions;
  const auto emit = [&](MemberAction action) { actions.push_back(std::move(action)); };
  JobTime now = kStart;
  member.Start(now, emit);
  for (uint64_t stream = 1; stream <= 5; ++stream) {
    REQUIRE(actions.size() == 2);
    CHECK(actions[0].kind == MemberAction::kConnect);
    CHECK(actions[0].stream == stream);
    actions.clear();
    member.Lose(stream, "no route", now, emit);
    member.Lose(stream, "no route", now, emit);
    member.Tick(now, emit);
    CHECK(actions.empty());
    now += MemberState::kRetry;
    member.Tick(now, emit);
  }
  actions.clear();
  JobToMember accepted;
  accepted.mutable_accepted()->set_silence(5 * kJobSecond);
  accepted.mutable_accepted()->set_beat(kJobSecond / 2);
  accepted.mutable_accepted()->set_host("h0");
  member.Receive(5, accepted, now, emit);  // of the stream before: changes nothing
  CHECK(member.LeaseUntil() == 0);
  member.Receive(6, accepted, now, emit);
  CHECK(member.LeaseUntil() == now + 5 * kJobSecond);
  member.Lose(6, "reset", now, emit);
  REQUIRE(actions.size() == 1);
  CHECK(std::string(actions[0].status.message()) ==
        "host h0 (process 0): its connection broke: it was killed, or exited without a word");
  CHECK(FindCause(actions[0].status).process == 0);
  CHECK_FALSE(FindCause(actions[0].status).is_decided);
}

// A member that tries several addresses, and what it does.
struct Seeker {
  explicit Seeker(std::vector<int> other_ports)
      : member(
            {.self = Identity(1, 2), .coordinator = "c:1", .other_ports = std::move(other_ports)},
            kStart) {
    member.Start(now, Emit());
  }
  void Tick(JobTime later) {
    now += later;
    member.Tick(now, Emit());
  }
  void Lose() { member.Lose(tried.size(), "no route", now, Emit()); }
  void Refuse(const absl::Status& why, bool other_job) {
    JobToMember message;
    WriteError(why, message.mutable_refused()->mutable_error());
    message.mutable_refused()->set_other_job(other_job);
    member.Receive(tried.size(), message, now, Emit());
  }
  void Accept() {
    JobToMember accepted;
    accepted.mutable_accepted()->set_silence(5 * kJobSecond);
    accepted.mutable_accepted()->set_beat(kJobSecond / 2);
    accepted.mutable_accepted()->set_host("h0");
    member.Receive(tried.size(), accepted, now, Emit());
  }
  std::function<void(MemberAction)> Emit() {
    return [this](const MemberAction& action) {
      if (action.kind == MemberAction::kConnect) tried.push_back(action.value);
      if (action.kind == MemberAction::kEnd) end = std::string(action.status.message());
    };
  }

  JobTime now = kStart;
  std::vector<std::string> tried;
  std::string end;
  MemberState member;
};

using Names = std::vector<std::string>;

TEST_CASE("A process tries each address in turn, and passes other jobs and other programs") {
  Seeker seeker({2, 3});
  seeker.Lose();
  seeker.Tick(0);
  CHECK(seeker.tried == Names{"c:1", "c:2"});
  seeker.Refuse(absl::InvalidArgumentError("plan c082, process 0 on host h0 has 41ad"), true);
  seeker.Tick(0);
  CHECK(seeker.tried.back() == "c:3");
  // A program that says nothing is left after a while.
  seeker.Tick(MemberState::kPatience / 2);
  for (int i = 0; i < 30; ++i) seeker.Tick(kJobSecond / 2);
  CHECK(seeker.tried == Names{"c:1", "c:2", "c:3", "c:1"});
  seeker.Refuse(absl::PermissionDeniedError("refused"), false);  // another user's
  seeker.Tick(0);
  CHECK(seeker.tried.back() == "c:2");
  seeker.Accept();
  CHECK(seeker.member.Address() == "c:2");
  for (int i = 0; i < 8; ++i) seeker.Tick(kJobSecond / 2);
  CHECK(seeker.tried.size() == 5);
  CHECK(seeker.end.empty());
}

TEST_CASE("A process whose place is taken looks for its own job at the other addresses") {
  const auto taken = absl::AlreadyExistsError("host h1 (process 1): there is a process 1 already");
  Seeker seeker({2});
  seeker.Refuse(taken, false);
  seeker.Tick(0);
  CHECK(seeker.tried == Names{"c:1", "c:2"});
  seeker.Accept();
  CHECK(seeker.end.empty());

  for (const Names& addresses : {Names{"c:1"}, Names{"c:1", "c:2"}}) {
    Seeker lost(addresses.size() == 1 ? std::vector<int>{} : std::vector<int>{2});
    for (int i = 0; i < 100 && lost.end.empty(); ++i) {
      lost.Refuse(taken, false);
      lost.Tick(kJobSecond / 2);
    }
    CHECK(lost.end == taken.message());
    CHECK((lost.tried.size() == 1) == (addresses.size() == 1));
  }
}

TEST_CASE("A process waits for another job to leave its address, and then says whose it is") {
  Seeker seeker({});
  for (int i = 0; i < 100 && seeker.end.empty(); ++i) {
    seeker.Refuse(absl::InvalidArgumentError("plan c082, process 0 on host h0 has 41ad"), true);
    seeker.Tick(MemberState::kRetry);
  }
  CHECK(seeker.now >= kStart + MemberState::kPatience);
  CHECK(
      seeker.end ==
      "host h1 (process 1, rank 1): another job is at c:1: plan c082, process 0 on host h0 has "
      "41ad; give each job a --coordinator of its own, and all processes of a job the same build, "
      "files and flags");
  // An address that is free for a moment may become ours.
  Seeker hopes({});
  for (int i = 0; i < 100; ++i) {
    hopes.Refuse(absl::InvalidArgumentError("plan"), true);
    hopes.Tick(MemberState::kRetry);
    if (i % 10 == 9) hopes.Lose();
    hopes.Tick(MemberState::kRetry);
  }
  CHECK(hopes.end.empty());
  // At the only address another token is a mistake, and said at once.
  Seeker denied({});
  denied.Refuse(absl::PermissionDeniedError("refused"), false);
  CHECK(denied.end.find("refuses it; give all processes of the job the same token") !=
        std::string::npos);
}

TEST_CASE("A process says for whom it waits, until all have joined") {
  MemberState member({.self = Identity(1, 3), .coordinator = "c:1", .join = 500 * kJobSecond},
                     kStart);
  std::vector<std::string> waits;
  const auto emit = [&](const MemberAction& action) {
    if (action.kind == MemberAction::kWaits) waits.push_back(action.value);
  };
  member.Start(kStart, emit);
  member.Lose(1, "no route", kStart, emit);
  for (JobTime t = 0; t <= 71; ++t) member.Tick(kStart + t * kJobSecond, emit);
  CHECK(waits == std::vector<std::string>(3, "process 0 at c:1 (no route)"));
  waits.clear();
  const JobTime now = kStart + 71 * kJobSecond;
  const uint64_t stream = 2;
  JobToMember accepted, missing;
  accepted.mutable_accepted()->set_silence(5 * kJobSecond);
  accepted.mutable_accepted()->set_beat(kJobSecond / 2);
  accepted.mutable_accepted()->set_host("h0");
  member.Receive(stream, accepted, now, emit);
  CHECK(member.WaitsFor() == "all processes to join");
  missing.set_waits_for("process 2 (host c)\n");
  member.Receive(stream, missing, now, emit);
  CHECK(waits == std::vector<std::string>{"process 2 (host c)\\n"});
  CHECK(member.WaitsFor() == "process 2 (host c)\\n to join");
}

TEST_CASE("A process tells why the connection to process 0 broke, not what came of it") {
  JobToMember accepted;
  accepted.mutable_accepted()->set_silence(5 * kJobSecond);
  accepted.mutable_accepted()->set_beat(kJobSecond / 2);
  accepted.mutable_accepted()->set_host("h0");
  accepted.mutable_accepted()->mutable_ranks()->set_count(1);
  const std::string broke =
      "host h0 (process 0, rank 0): its connection broke: it was killed, or exited without a word";
  JobTime now = kStart;
  const auto end_of = [&](auto happens) {
    MemberState member({.self = Identity(1, 2), .coordinator = "c:1"}, kStart);
    absl::Status end;
    const auto emit = [&](MemberAction action) { end.Update(action.status); };
    now = kStart;
    member.Start(now, emit);
    member.Receive(1, accepted, now, emit);
    happens(member, emit);
    member.Lose(1, "reset", now, emit);
    return std::string(end.message());
  };
  // A break explains a report about another process; a failure of this process stays the cause.
  CHECK(end_of([&](MemberState& member, auto& emit) {
          member.Fail(MarkConsequence(0, absl::UnavailableError("the link to process 0 failed")),
                      now, emit);
        }) == broke);
  CHECK(end_of([&](MemberState& member, auto& emit) {
          member.Fail(absl::DataLossError("a disk failed"), now, emit);
        }) == "host h1 (process 1, rank 1): a disk failed");
  // A process that was stopped for nearly as long as the others bear says so, ticked or not.
  const std::string stopped =
      "host h1 (process 1, rank 1) was stopped, or had no processor, for 4.5 s; then: ";
  CHECK(end_of([&](MemberState&, auto&) { now += 9 * kJobSecond / 2; }) == stopped + broke);
  CHECK(end_of([&](MemberState& member, auto& emit) {
          now += 9 * kJobSecond / 2;
          member.Tick(now, emit);
          now += kJobSecond / 100;
        }) == stopped + broke);
  CHECK(end_of([&](MemberState& member, auto& emit) {
          now += 3 * kJobSecond;
          member.Tick(now, emit);
        }) == broke);
}

TEST_CASE("Nobody there: the address and the reason are named") {
  MemberState member({.self = Identity(1, 2), .coordinator = "c:1"}, kStart);
  absl::Status end;
  const auto emit = [&](MemberAction action) { end.Update(action.status); };
  member.Start(kStart, emit);
  member.Lose(1, "connection refused", kStart, emit);
  member.Tick(kStart + 60 * kJobSecond, emit);
  CHECK(end.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(std::string(end.message()) ==
        "host h1 (process 1, rank 1): no coordinator at c:1 within 60.0 s: connection refused");
}

TEST_CASE("The other clock is known to half of a round trip") {
  MemberState member({.self = Identity(1, 2), .coordinator = "c:1"}, kStart);
  const auto ignore = [](MemberAction) {};
  member.Start(kStart, ignore);
  JobToMember message;
  message.mutable_accepted()->set_silence(5 * kJobSecond);
  message.mutable_accepted()->set_beat(kJobSecond / 2);
  member.Receive(1, message, kStart, ignore);
  CHECK(member.clock_offset().error < 0);
  // Process 0 is 1000 s ahead; 2 ms there and 8 ms back, then 1 ms and 1 ms, then a slow round
  // trip.
  const JobTime ms = kJobSecond / 1000, ahead = 1000 * kJobSecond;
  const JobTime there[] = {2 * ms, ms, 20 * ms}, back[] = {8 * ms, ms, 3 * ms};
  for (int i = 0; i < 3; ++i) {
    const JobTime sent = kStart + (i + 1) * kJobSecond;
    message.mutable_beat()->set_echo(sent);
    message.mutable_beat()->set_sent(sent + there[i] + ahead);
    member.Receive(1, message, sent + there[i] + back[i], ignore);
    const auto offset = member.clock_offset();
    CHECK(std::abs(offset.offset - ahead) <= offset.error);
    CHECK(offset.error == (i == 0 ? 5 * ms : ms));
  }
}

}  // namespace
}  // namespace oneflow
