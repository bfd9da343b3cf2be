// The two machines one event at a time: refusals, agreement, what is malformed.
#include "training/job/coordinator.h"

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "training/job/coordinator_for_test.h"
#include "training/job/member_state.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

TEST_CASE("Those that have joined hear who has not, less and less often") {
  Table table(8, {"n0", "n0", "n1", "n1", "n2", "n2"});
  for (const int p : {0, 3}) table.Join(p);
  std::vector<JobTime> heard;
  for (int second = 1; second < 60; ++second) {
    const size_t before = table.said[3].size();
    table.Say(3, [] {
      JobFromMember beat;
      beat.mutable_beat()->set_sent(1);
      return beat;
    }());
    table.Tick(kJobSecond);
    if (!table.Last(3).has_waits_for()) continue;
    REQUIRE(table.said[3].size() == before + 2);
    heard.push_back(second);
    CHECK(table.Last(0).waits_for() == table.Last(3).waits_for());
    CHECK(table.Last(3).waits_for() ==
          "processes 1 (host n0), 2 (host n1), 4 (host n2), 5 (host n2) and 2 more");
  }
  CHECK(heard == std::vector<JobTime>{10, 30});
  for (const int p : {1, 2, 4, 5, 7}) table.Join(p);
  table.Tick(kJobSecond);
  CHECK(table.End(3) == "process 6 has not joined within 60.0 s");
}

TEST_CASE("An empty token is nobody's") {
  JobIdentity self = Identity(0, 2);
  self.token.clear();
  Coordinator coordinator({.self = self}, kStart);
  std::string refusal;
  coordinator.Open(1, kStart);
  coordinator.Receive(1, Presents(self), kStart, [&](const CoordinatorAction& action) {
    if (action.message.has_refused()) refusal = action.message.refused().error().message();
  });
  CHECK(refusal == "refused");
}

TEST_CASE("A connection without the token learns and changes nothing") {
  Table table(2);
  table.Join(0);
  const size_t said = table.said[0].size();
  JobIdentity stranger = Identity(1, 2);
  for (const char* token : {"", "s", "secreT", "secretsecret", "wrong!"}) {
    stranger.token = token;
    const uint64_t connection = 100 + table.closed.size();
    table.Present(connection, stranger);
    CHECK(table.Refusal(connection) == "refused");
    // All further messages are ignored.
    JobFromMember stop;
    stop.mutable_ask_stop();
    table.Say(connection, stop);
    table.coordinator.Close(connection, table.now, table.Emit());
  }
  // Nor may it leave the presenting out.
  table.Open(200);
  table.Say(200, {});
  CHECK(table.Refusal(200) == "refused");
  // A connection does not wait forever either; messages after the close are ignored.
  table.Open(201);
  table.Tick(11 * kJobSecond);
  CHECK(table.closed[201]);
  table.Say(201, Presents(Identity(1, 2)));
  CHECK(table.said[201].empty());
  CHECK(table.Last(0).waits_for() == "process 1");
  CHECK(table.said[0].size() == said + 1);
  table.Join(1);
  CHECK(table.Last(1).has_welcome());
}

TEST_CASE("A difference is refused by name, on both sides") {
  struct Case {
    std::function<void(JobIdentity&)> change;
    std::string sentence;
  };
  const std::vector<Case> cases = {
      {[](JobIdentity& self) { self.facts[0].value = "c082"; },
       "plan c082, process 0 on host h0 has 41ad; start all processes with the same build, files "
       "and flags"},
      {[](JobIdentity& self) { self.facts[1].name = "colour"; },
       "presents colour where process 0 on host h0 presents build; start the same build "
       "everywhere"},
      {[](JobIdentity& self) { self.facts.pop_back(); },
       "presents 1 facts, process 0 on host h0 2; start the same build everywhere"},
      {[](JobIdentity& self) {
         self.facts.push_back({"seed", "1"});
       },
       "presents 3 facts, process 0 on host h0 2; start the same build everywhere"},
      {[](JobIdentity& self) { self.processes = 4; },
       "was started as one of 4 processes, process 0 on host h0 as one of 3; start all with the "
       "same number"}};
  for (const Case& one : cases) {
    JobIdentity differs = Identity(1, 3);
    one.change(differs);
    const std::string sentence = "host h1 (process 1, rank 1): " + one.sentence;
    Table table(3);
    table.Join(0);
    table.Join(2);
    table.Present(7, differs);
    CHECK(table.Refusal(7) == sentence);
    CHECK(table.End(2) == sentence);
    CHECK_FALSE(table.Last(0).has_end());  // Process 0 hears last: others may be on their way.
    table.Tick(Coordinator::kGrace);
    CHECK(table.End(0) == sentence);
    CHECK(ReadError(table.Last(0).end()).code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("A value that a process does not know is process 0's") {
  Table table(2);
  table.Join(0);
  JobIdentity open = Identity(1, 2);
  open.facts[0].value.clear();
  table.Present(1, open);
  CHECK(table.Last(1).has_welcome());
}

TEST_CASE("A process that cannot join says why, and ends an attempt that gathers, no other") {
  JobIdentity fails = Identity(1, 2);
  fails.facts.clear();
  fails.failed = absl::NotFoundError("text.txt: no such file");
  const std::string refusal = "host h1 (process 1, rank 1): text.txt: no such file";
  Table gathers(2);
  gathers.Join(0);
  gathers.Present(1, fails);
  CHECK(gathers.Refusal(1) == refusal);
  gathers.Tick(kJobSecond);
  CHECK(gathers.End(0) == refusal);
  CHECK(gathers.Last(0).end().code() == static_cast<int>(absl::StatusCode::kNotFound));

  Table trains(2);
  trains.JoinAll();
  trains.Present(2, fails);
  CHECK(trains.Refusal(2) == refusal);
  trains.Tick(kJobSecond);
  CHECK_FALSE(trains.Last(0).has_end());

  // The failure of process 0: a process that connects while it is there hears the cause.
  fails.process = 0;
  Table first(2);
  first.Present(0, fails);
  first.Join(1);
  CHECK(first.Refusal(1) == "host h1 (process 0, rank 1): text.txt: no such file");
}

TEST_CASE("A process that comes late, twice or with a wrong index is refused and changes nothing") {
  Table table(2);
  table.Join(0);
  table.Present(5, Identity(0, 2));
  CHECK(absl::StrContains(table.Refusal(5), "there is a process 0 already, on host h0"));
  CHECK(absl::IsAlreadyExists(ReadError(table.Last(5).refused().error())));
  for (const int index : {-1, 2, 1 << 30}) {
    table.Present(10 + (index & 7), Identity(index, 2));
    CHECK(absl::StrContains(table.Refusal(10 + (index & 7)), "there is no such process among 2"));
  }
  table.Join(1);
  CHECK(table.Last(1).has_welcome());
  JobIdentity late = Identity(1, 2);
  late.facts[0].value = "c082";
  table.Present(20, late);
  CHECK(absl::StrContains(table.Refusal(20), "plan c082"));
  CHECK(table.Last(20).refused().other_job());
  table.Present(21, Identity(1, 2));
  CHECK(absl::StrContains(table.Refusal(21), "there is a process 1 already"));
  CHECK(table.coordinator.status().ok());
}

TEST_CASE("Attempts: the older is refused, the newer ends this one") {
  Table table(2);
  table.JoinAll();
  JobIdentity other = Identity(1, 2);
  other.attempt = 2;
  table.Present(5, other);
  CHECK(table.Refusal(5) == "host h1 (process 1, rank 1) is of attempt 2; attempt 3 is under way");
  CHECK_FALSE(table.Last(5).refused().again());
  CHECK(table.coordinator.status().ok());
  other.attempt = 4;
  table.Present(6, other);
  CHECK(table.Last(6).refused().again());
  CHECK(table.End(1) == "attempt 3 is over: host h1 (process 1, rank 1) is of attempt 4");
}

TEST_CASE(
    "A process of another job changes nothing, whatever its attempt, and hears how they differ") {
  struct Case {
    std::function<void(JobIdentity&)> change;
    std::string sentence;
  };
  const auto newer = [](JobIdentity& self) { self.attempt = 4; };
  const std::vector<Case> cases = {
      {[&](JobIdentity& self) {
         newer(self);
         self.facts[0].value = "c082";
       },
       "plan c082, process 0 on host h has 41ad"},
      {[](JobIdentity& self) {
         self.attempt = 2;
         self.facts[1].value = "8";
       },
       "build 8, process 0 on host h has 7"},
      {[&](JobIdentity& self) {
         newer(self);
         self.folder = "/b";
       },
       "folder /b, process 0 on host h has /a"},
      {[](JobIdentity& self) { self.folder = "/b"; }, "folder /b, process 0 on host h has /a"},
      {[](JobIdentity& self) {
         self.folder = "/b";
         self.facts.clear();
         self.failed = absl::NotFoundError("text.txt: no such file");
       },
       "folder /b, process 0 on host h has /a"},
      {[&](JobIdentity& self) {
         newer(self);
         self.processes = 8;
         self.facts[0].value = "c082";
       },
       "plan c082, process 0 on host h has 41ad"}};
  const auto of_job = [](int process) {
    JobIdentity self = Identity(process, 3);
    self.host = "h";
    self.folder = "/a";
    self.names_folder = true;
    return self;
  };
  for (const Case& one : cases) {
    for (const bool gathers : {true, false}) {
      Table table(3, {}, of_job(0));
      for (int p = 0; p < (gathers ? 2 : 3); ++p) table.Present(p, of_job(p));
      JobIdentity stranger = of_job(2);
      one.change(stranger);
      table.Present(7, stranger);
      CHECK(table.Refusal(7) == one.sentence);
      CHECK(table.Last(7).refused().other_job());
      CHECK_FALSE(table.Last(7).refused().again());
      CHECK_FALSE(table.coordinator.IsOver());
      if (gathers) table.Present(2, of_job(2));
      for (int p = 0; p < 3; ++p) CHECK(table.Last(p).has_welcome());
    }
  }
  // Paths of another host may lead to the same folder, and a later attempt of the job to its end.
  Table table(3, {}, of_job(0));
  for (int p = 0; p < 2; ++p) table.Present(p, of_job(p));
  JobIdentity elsewhere = of_job(2);
  elsewhere.host = "i";
  elsewhere.folder = "/b";
  table.Present(2, elsewhere);
  CHECK(table.Last(2).has_welcome());
  JobIdentity later = of_job(1);
  later.attempt = 4;
  later.processes = 6;
  later.failed = absl::NotFoundError("text.txt: no such file");
  table.Present(8, later);  // replaces nobody
  CHECK(table.Last(8).refused().again());
  CHECK_FALSE(table.coordinator.IsOver());
  later.failed = absl::OkStatus();
  table.Present(9, later);
  CHECK(table.Last(9).refused().again());
  CHECK(table.coordinator.IsOver());
}

TEST_CASE("In an attempt that gathers, flags of a place that is taken are those of another job") {
  Table table(3);
  for (int p = 0; p < 2; ++p) table.Join(p);
  JobIdentity stranger = Identity(1, 3);
  stranger.facts[0].value = "c082";
  table.Present(7, stranger);
  CHECK(table.Last(7).refused().other_job());
  table.Join(2);
  CHECK(table.Last(2).has_welcome());
}

JobFromMember Begins(uint64_t run, const char* program, int64_t first, int64_t steps) {
  JobFromMember message;
  message.mutable_begin()->set_run(run);
  message.mutable_begin()->set_program(program);
  message.mutable_begin()->set_first_step(first);
  message.mutable_begin()->set_steps(steps);
  return message;
}

TEST_CASE("Processes that begin different things end the attempt, by name") {
  Table table(3);
  table.JoinAll();
  for (const int p : {2, 0, 1}) table.Say(p, Begins(0, "train", 0, 20));
  table.Say(1, Begins(1, "eval", 0, 4));
  table.Say(1, Begins(2, "train", 20, 20));
  table.Say(0, Begins(1, "eval", 0, 4));
  CHECK(table.coordinator.status().ok());
  table.Say(2, Begins(1, "train", 20, 20));
  CHECK(table.End(1) ==
        "host h2 (process 2, rank 2) begins run 1, program train, 20 steps from step 20; "
        "host h1 (process 1, rank 1) begins run 1, program eval, 4 steps from step 0");
}

TEST_CASE("Posts go to who asks, before or after; a key is posted once") {
  Table table(3);
  table.JoinAll();
  JobFromMember fetch, post;
  fetch.set_fetch("address 1");
  post.mutable_post()->set_key("address 1");
  post.mutable_post()->set_value("x");
  table.Say(0, fetch);
  CHECK(table.Last(0).has_welcome());
  table.Say(1, post);
  CHECK(table.Last(0).value().value() == "x");
  CHECK(table.Last(1).has_welcome());
  CHECK(table.Last(2).has_welcome());
  table.Say(2, fetch);
  CHECK(table.Last(2).value().key() == "address 1");
  table.Say(2, post);
  CHECK(absl::StrContains(table.End(1), "posts address 1, which host h1 (process 1, rank 1) has"));
}

JobFromMember MakePart(uint64_t number, const char* name, const char* part) {
  JobFromMember message;
  message.mutable_part()->set_number(number);
  message.mutable_part()->set_name(name);
  message.mutable_part()->set_part(part);
  return message;
}

TEST_CASE("A round takes all parts by process and gives all one answer") {
  Table table(3);
  table.JoinAll();
  for (const int p : {2, 0}) table.Say(p, MakePart(0, "commit", p == 0 ? "a" : "c"));
  CHECK(table.rounds.empty());
  table.Say(1, MakePart(0, "commit", "b"));
  REQUIRE(table.rounds.size() == 1);
  CHECK(table.rounds[0].parts == std::vector<std::string>{"a", "b", "c"});
  table.coordinator.AnswerRound(0, "complete", table.now, table.Emit());
  table.coordinator.AnswerRound(0, "again", table.now, table.Emit());
  for (int p = 0; p < 3; ++p) CHECK(table.Last(p).answer().answer() == "complete");
  table.Say(2, MakePart(1, "commit 2", ""));
  table.Say(1, MakePart(1, "outcome", ""));
  CHECK(table.End(2) ==
        "host h1 (process 1, rank 1) is in round outcome, host h2 (process 2, "
        "rank 2) in round commit 2");
}

TEST_CASE("A process 0 that was stopped says so, despite reports of others") {
  Table table(3);
  table.JoinAll();
  table.Tick(kJobSecond / 4);
  table.now += 8 * kJobSecond;
  table.coordinator.Close(2, table.now, table.Emit());
  CHECK(table.End(1) ==
        "host h0 (process 0, rank 0) was stopped, or had no processor, for 8.0 s; then: host h2 "
        "(process 2, rank 2): its connection broke: it was killed, or exited without a word");
}

TEST_CASE("A message that no process of this build sends ends the attempt, by name") {
  std::vector<JobFromMember> messages(8);
  messages[1] = Presents(Identity(1, 2));
  messages[2].mutable_frozen()->set_steps(3);
  messages[3].mutable_beat()->set_echo(kStart + kJobSecond);
  messages[4].mutable_beat()->set_echo(-1);
  messages[5] = MakePart(7, "x", "");
  messages[6] = MakePart(~0ull, "x", "");
  messages[7].mutable_failed()->set_code(999);
  for (const JobFromMember& message : messages) {
    CAPTURE(message.ShortDebugString());
    Table table(2);
    table.JoinAll();
    table.Say(1, message);
    CHECK(absl::StrContains(table.End(1), "host h1 (process 1, rank 1)"));
  }
}

// A message whose fields are drawn, and whose bytes are often damaged.
template <typename Message>
Message Draw(std::mt19937_64& random, const std::vector<Message>& samples) {
  Message message = samples[random() % samples.size()];
  std::string bytes = message.SerializeAsString();
  for (uint64_t i = random() % 4; i > 0 && !bytes.empty(); --i) {
    bytes[random() % bytes.size()] = static_cast<char>(random());
  }
  // Bytes that do not parse never reach a state machine.
  Message damaged;
  return damaged.ParseFromString(bytes) ? damaged : message;
}

TEST_CASE("Drawn messages never reach a CHECK") {
  std::vector<JobFromMember> up = {Presents(Identity(0, 2)),
                                   Presents(Identity(1, 2)),
                                   Begins(0, "t", 0, 1),
                                   MakePart(0, "r", "p"),
                                   {}};
  up.resize(13);
  up[5].mutable_beat()->set_sent(kStart);
  up[6].mutable_ask_stop();
  up[7].mutable_frozen()->set_run(1);
  up[8].mutable_post()->set_key("k");
  up[9].set_fetch("k");
  up[10].mutable_report()->add_value(1);
  up[11].mutable_leave();
  up[12].mutable_note()->set_name("n");
  std::vector<JobToMember> down(11);
  down[1].mutable_accepted()->set_silence(5 * kJobSecond);
  down[1].mutable_accepted()->set_beat(kJobSecond / 2);
  down[2].mutable_refused()->set_again(true);
  down[3].mutable_welcome()->set_processes_on_host(1);
  down[4].mutable_beat()->set_echo(kStart);
  down[5].mutable_freeze();
  down[6].mutable_stop_at()->set_steps(2);
  down[7].mutable_value()->set_key("k");
  down[8].mutable_answer()->set_answer("a");
  down[9].mutable_farewell();
  down[10].mutable_answer()->mutable_error()->set_code(-7);
  int ended = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    Coordinator coordinator({.self = Identity(0, 2)}, kStart);
    MemberState member({.self = Identity(1, 2), .coordinator = "c:1"}, kStart);
    uint64_t stream = 0;
    int ends = 0;
    const auto emit = [&](MemberAction action) {
      if (action.kind == MemberAction::kConnect) stream = action.stream;
      ends += action.kind == MemberAction::kEnd || action.kind == MemberAction::kLeft;
    };
    const auto ignore = [](CoordinatorAction) {};
    for (uint64_t c = 0; c < 4; ++c) coordinator.Open(c, kStart);
    for (int p = 0; p < 2; ++p) coordinator.Receive(p, up[p], kStart, ignore);
    member.Start(kStart, emit);
    if (seed % 2 == 0) {
      member.Receive(stream, down[1], kStart, emit);
      member.Receive(stream, down[3], kStart, emit);
      member.Fetch("k", emit);
      member.Round("r", "p", emit);
    }
    JobTime now = kStart;
    for (int i = 0; i < 30; ++i) {
      now += static_cast<JobTime>(random() % (2 * kJobSecond));
      coordinator.Receive(random() % 6, Draw(random, up), now, ignore);
      member.Receive(stream, Draw(random, down), now, emit);
      if (random() % 4 == 0) coordinator.Tick(now, ignore);
      if (random() % 4 == 0) member.Tick(now, emit);
    }
    CHECK(ends <= 1);
    CHECK(member.IsOver() == (ends == 1));
    ended += ends;
  }
  CHECK(ended > 1000);
}

}  // namespace
}  // namespace oneflow
