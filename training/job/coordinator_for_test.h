// Table: a coordinator and what it says to each connection, one event at a time.
//
//   Table table(4);
//   table.JoinAll();
//   table.Say(1, message);
//   CHECK(table.End(3) == "host h1 (process 1, rank 1): ...");
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "training/job/coordinator.h"
#include "training/job/member_state.h"

#include <catch2/catch.hpp>

namespace oneflow {

using proto::JobFromMember;
using proto::JobToMember;

inline constexpr JobTime kStart = 50 * kJobSecond;

inline JobIdentity Identity(int process, int processes) {
  return {.process = process,
          .processes = processes,
          .attempt = 3,
          .host = absl::StrCat("h", process),
          .ranks = {process, 1},
          .token = "secret",
          .facts = {{"plan", "41ad"}, {"build", "7"}}};
}

inline JobFromMember Presents(const JobIdentity& self) {
  JobFromMember message;
  MemberState({.self = self, .coordinator = "c:1"}, kStart).Start(kStart, [&](MemberAction action) {
    if (action.kind == MemberAction::kSend) message = action.message;
  });
  return message;
}

// A coordinator and what it has said on each connection; connection p is process p's.
class Table {
 public:
  explicit Table(int processes, std::vector<std::string> hosts = {})
      : Table(processes, std::move(hosts), Identity(0, processes)) {}
  Table(int processes, std::vector<std::string> hosts, JobIdentity self)
      : processes_(processes),
        coordinator({.self = std::move(self), .hosts = std::move(hosts)}, kStart) {}

  void Open(uint64_t connection) { coordinator.Open(connection, now); }
  void Say(uint64_t connection, const JobFromMember& message) {
    coordinator.Receive(connection, message, now, Emit());
  }
  void Join(int process) { Present(process, Identity(process, processes_)); }
  void Present(uint64_t connection, const JobIdentity& self) {
    Open(connection);
    Say(connection, Presents(self));
  }
  void JoinAll() {
    for (int p = 0; p < processes_; ++p) Join(p);
    for (int p = 0; p < processes_; ++p) REQUIRE(Last(p).has_welcome());
  }
  void Tick(JobTime later) {
    now += later;
    coordinator.Tick(now, Emit());
  }
  const JobToMember& Last(uint64_t connection) {
    REQUIRE_FALSE(said[connection].empty());
    return said[connection].back();
  }
  std::string Refusal(uint64_t connection) {
    REQUIRE(Last(connection).has_refused());
    CHECK(closed[connection]);
    return Last(connection).refused().error().message();
  }
  std::string End(uint64_t connection) {
    REQUIRE(Last(connection).has_end());
    return Last(connection).end().message();
  }
  Coordinator::Emit Emit() { return emit_; }

  JobTime now = kStart;
  std::map<uint64_t, std::vector<JobToMember>> said;
  std::map<uint64_t, bool> closed;
  std::vector<CoordinatorAction> rounds;

 private:
  void Take(CoordinatorAction action) {
    switch (action.kind) {
      case CoordinatorAction::kSend:
        CHECK_FALSE(closed[action.connection]);
        return said[action.connection].push_back(action.message);
      case CoordinatorAction::kClose: closed[action.connection] = true; return;
      case CoordinatorAction::kRound: return rounds.push_back(std::move(action));
      case CoordinatorAction::kReport:
      case CoordinatorAction::kNote: return;
    }
  }

  const int processes_;
  const std::function<void(CoordinatorAction)> emit_ = [this](CoordinatorAction action) {
    Take(std::move(action));
  };

 public:
  Coordinator coordinator;
};

}  // namespace oneflow
