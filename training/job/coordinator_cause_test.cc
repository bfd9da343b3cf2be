// The end of an attempt: by a failure, or by what others notice of one.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "oneflow_core/base/cause.h"
#include "training/job/coordinator_for_test.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

JobFromMember Fails(const absl::Status& why) {
  JobFromMember message;
  WriteError(why, message.mutable_failed());
  return message;
}
JobFromMember Notices(int of) {
  return Fails(MarkConsequence(of, absl::AbortedError("an exchange has ended")));
}

// All four hear the coordinator, and say so.
void HearAll(Table& table) {
  for (const int p : {1, 3, 2, 0}) {
    table.Tick(kJobSecond / 2);
    CHECK(table.coordinator.status().ok());
    JobFromMember beat;
    beat.mutable_beat()->set_echo(table.now);
    table.Say(p, beat);
  }
  table.Tick(kJobSecond / 2);
}

TEST_CASE("A failure wins over what others notice of it") {
  for (const int after : {0, 1, 2, 3}) {  // so many reports of others
    CAPTURE(after);
    Table table(4);
    table.JoinAll();
    if (after > 0) table.Say(1, Notices(2));
    if (after > 1) table.Say(3, Notices(1));
    if (after > 2) table.Say(0, Notices(-1));
    table.Tick(kJobSecond / 2);
    CHECK(table.coordinator.status().ok());
    table.Say(2, Fails(absl::UnavailableError("no space left")));  // whatever its code
    CHECK(table.End(3) == "host h2 (process 2, rank 2): no space left");
    const Cause cause = FindCause(ReadError(table.Last(3).end()));
    CHECK((cause.process == 2 && cause.rank == 2 && cause.host == "h2"));
  }
  Table table(4);
  table.JoinAll();
  table.Say(1, Notices(2));
  table.coordinator.Close(2, table.now, table.Emit());
  CHECK(absl::StrContains(table.End(3), "host h2 (process 2, rank 2): its connection broke"));
}

TEST_CASE("If nobody reports a failure, the process that the others report is the cause") {
  const std::string two = "host h2 (process 2, rank 2), as host h1 (process 1, rank 1) reports: ";
  const std::vector<std::pair<std::vector<std::pair<int, int>>, std::string>> cases = {
      {{{1, 2}}, two},
      {{{3, 1}, {1, 2}}, two},                       // 3 noticed what 1 did of it
      {{{3, 77}}, "host h3 (process 3, rank 3): "},  // the cause is an unknown process
      {{{1, 2}, {2, 3}, {3, 0}, {0, 1}}, two},       // all: there is nothing to wait for
  };
  for (const auto& [notices, sentence] : cases) {
    Table table(4);
    table.JoinAll();
    for (const auto& [by, of] : notices) table.Say(by, Notices(of));
    if (notices.size() < 4) HearAll(table);
    CHECK(table.End(1) == sentence + "an exchange has ended");
  }
  // A process that has noticed something is not the cause, even if it goes.
  Table table(4);
  table.JoinAll();
  table.Say(1, Notices(2));
  table.coordinator.Close(1, table.now, table.Emit());
  HearAll(table);
  CHECK(table.End(3) == two + "an exchange has ended");
  CHECK(FindCause(ReadError(table.Last(3).end())).rank == 2);
}

TEST_CASE("A process 0 that was stopped is no cause of another one's failure") {
  Table table(3);
  table.JoinAll();
  table.Tick(kJobSecond / 4);
  table.now += 8 * kJobSecond;
  table.Say(1, Fails(absl::InternalError("a kernel failed")));
  CHECK(table.End(2) == "host h1 (process 1, rank 1): a kernel failed");
}

}  // namespace
}  // namespace oneflow
