// The coordinator and its members under drawn delays, deaths, stops and disconnected links, in
// virtual time.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/cause.h"
#include "tests/cluster/control_cluster.h"

#include <catch2/catch.hpp>

namespace oneflow::cluster {
namespace {

using Node = ControlCluster::Node;

bool IsFull() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

// Conditions that hold for any node at any time.
void CheckNode(const Node& node) {
  CHECK(node.ends.size() <= 1);
  CHECK_FALSE((node.left && !node.ends.empty()));
  for (const absl::Status& end : node.ends) {
    CHECK_FALSE(end.ok());
    CHECK_FALSE(end.message().empty());
  }
}

void CheckAllLeft(ControlCluster& cluster) {
  CHECK(cluster.violation().empty());
  for (const Node& node : cluster.nodes()) {
    CAPTURE(node.process, node.control->status());
    CheckNode(node);
    CHECK(node.left);
  }
}

TEST_CASE("Without a loss all join, take all steps and leave, however messages are delayed") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    ControlCluster cluster({.processes = 1 + static_cast<int>(seed % 9),
                            .seed = seed,
                            .most_delay = kJobSecond * static_cast<int64_t>(seed % 4) / 4,
                            .start_spread = 20 * kJobSecond,
                            .all_report = true});
    cluster.StartAttempt(0);
    cluster.RunUntil(60 * kJobSecond);
    CheckAllLeft(cluster);
    for (const Node& node : cluster.nodes()) CHECK(node.position == StepPosition{0, 100});
    CHECK(cluster.node(0).reports == 100 * static_cast<int64_t>(cluster.nodes().size()));
  }
}

enum class Fault { kKill, kStop, kStopAndContinue, kDisconnect, kFail };

// Which nodes have a sentence that does not name `lost`, how late the last one heard, and whether
// the lost one wrote after others had given it up.
struct Loss {
  int unnamed = 0, differing = 0;
  JobTime latest = 0;
  bool wrote_late = false;
};
Loss RunLoss(Fault fault, uint64_t seed, const Faults& faults = {}) {
  const int processes = 2 + static_cast<int>(seed % 7);
  ControlCluster cluster({.processes = processes,
                          .seed = seed,
                          .most_delay = kJobSecond / 5,
                          .steps = 1000,
                          .faults = faults});
  cluster.StartAttempt(0);
  const int lost = static_cast<int>(cluster.Draw(processes - 1));
  const JobTime at = 4 * kJobSecond + cluster.Draw(20 * kJobSecond);
  cluster.At(at, [&] {
    if (fault == Fault::kKill) cluster.Kill(lost);
    if (fault == Fault::kStop || fault == Fault::kStopAndContinue) cluster.Stop(lost);
    if (fault == Fault::kDisconnect) cluster.Disconnect(lost);
    if (fault == Fault::kFail) cluster.Fail(lost, absl::UnavailableError("no space left"));
  });
  // The others notice it, of it or of one another, perhaps before it is known.
  for (int p = 0; p < processes && fault == Fault::kFail; ++p) {
    const int of = (p + 1 + static_cast<int>(cluster.Draw(processes - 2))) % processes;
    cluster.At(at - 3 * kJobSecond / 10 + cluster.Draw(6 * kJobSecond / 10), [&, p, of] {
      if (p != lost) cluster.Fail(p, MarkConsequence(of, absl::AbortedError("an exchange ended")));
    });
  }
  if (fault == Fault::kStopAndContinue) {
    cluster.At(at + 6 * kJobSecond + cluster.Draw(9 * kJobSecond), [&] { cluster.Continue(lost); });
  }
  cluster.RunUntil(at + 40 * kJobSecond);
  Loss loss;
  JobTime given_up = at + 40 * kJobSecond;
  std::string sentence;
  for (int p = 0; p < processes; ++p) {
    const Node& node = cluster.node(p);
    CheckNode(node);
    if (p == lost && fault != Fault::kDisconnect && fault != Fault::kFail) continue;
    if (node.ends.empty()) {
      ++loss.unnamed;
      continue;
    }
    loss.latest = std::max(loss.latest, node.ended - at);
    if (p == lost) continue;
    given_up = std::min(given_up, node.ended);
    const std::string heard(node.ends[0].message());
    loss.unnamed += !absl::StrContains(heard, absl::StrCat("(process ", lost, ")"));
    // A lost process 0 is noticed by each for itself, a little sooner or later.
    if (sentence.empty()) sentence = heard;
    loss.differing += lost != 0 && heard != sentence;
  }
  loss.wrote_late = cluster.node(lost).wrote > given_up;
  return loss;
}

TEST_CASE("A loss ends the attempt everywhere, in time, by name; who is given up writes no more") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const Fault fault :
         {Fault::kKill, Fault::kStop, Fault::kStopAndContinue, Fault::kDisconnect, Fault::kFail}) {
      CAPTURE(seed, static_cast<int>(fault));
      const Loss loss = RunLoss(fault, seed);
      CHECK(loss.unnamed == 0);
      CHECK(loss.differing == 0);
      CHECK_FALSE(loss.wrote_late);
      const bool is_told = fault == Fault::kKill || fault == Fault::kFail;
      CHECK(loss.latest <= (is_told ? 2 : 9) * kJobSecond);
    }
  }
}

TEST_CASE("A planted bug is found: a process that was stopped writes on") {
  int found = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    found += RunLoss(Fault::kStopAndContinue, seed, {.write_without_lease = true}).wrote_late;
  }
  CHECK(found > 0);
}

TEST_CASE("Short stops and short disconnections are no loss") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    ControlCluster cluster({.processes = 4, .seed = seed, .most_delay = kJobSecond / 10});
    cluster.StartAttempt(0);
    for (int i = 0; i < 3; ++i) {
      const JobTime at = (2 + 5 * i) * kJobSecond;
      const int p = static_cast<int>(cluster.Draw(3));
      const JobTime length = cluster.Draw(7 * kJobSecond / 2);
      cluster.At(at, [&, p, i] { i % 2 == 0 ? cluster.Stop(p) : cluster.Disconnect(p); });
      cluster.At(at + length,
                 [&, p, i] { i % 2 == 0 ? cluster.Continue(p) : cluster.Reconnect(p); });
    }
    cluster.RunUntil(60 * kJobSecond);
    CheckAllLeft(cluster);
  }
}

TEST_CASE("Processes slowed to a tenth are no loss") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    ControlCluster cluster({.processes = 4, .seed = seed, .steps = 500});
    cluster.StartAttempt(0);
    // Two of them, process 0 in half of the runs, run 0.1 s of each second, for a minute.
    for (int i = 0; i < 60; ++i) {
      for (const int p : {static_cast<int>(seed % 2), 2}) {
        const JobTime at = (3 + i) * kJobSecond + p * kJobSecond / 3;
        cluster.At(at, [&, p] { cluster.Stop(p); });
        cluster.At(at + 9 * kJobSecond / 10, [&, p] { cluster.Continue(p); });
      }
    }
    cluster.RunUntil(150 * kJobSecond);
    CheckAllLeft(cluster);
  }
}

// The greatest minus the least number of steps after a stop that `askers` processes asked for.
int64_t SpreadAfterStop(uint64_t seed, int askers, const Faults& faults = {}) {
  ControlCluster cluster({.processes = 5,
                          .seed = seed,
                          .most_delay = kJobSecond / 5,
                          .steps = 1000,
                          .faults = faults});
  cluster.StartAttempt(0);
  for (int i = 0; i < askers; ++i) {
    cluster.At(4 * kJobSecond + cluster.Draw(kJobSecond),
               [&cluster, i] { cluster.AskStop(4 - i); });
  }
  cluster.RunUntil(30 * kJobSecond);
  int64_t least = 1000, most = 0;
  for (const Node& node : cluster.nodes()) {
    CheckNode(node);
    CHECK(node.left);
    CHECK(node.end.has_value());
    least = std::min(least, node.position.steps);
    most = std::max(most, node.position.steps);
  }
  CHECK(most < 1000);
  return most - least;
}

TEST_CASE("Stop is agreed: all end after the same step, for any asker") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    CHECK(SpreadAfterStop(seed, 1 + static_cast<int>(seed % 3)) == 0);
  }
}

TEST_CASE("A planted bug is found: stop is not agreed") {
  int64_t spread = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    spread = std::max(spread, SpreadAfterStop(seed, 1, {.stop_unagreed = true}));
  }
  CHECK(spread > 0);
}

TEST_CASE("A planted bug is found: a process that says nothing is taken for lost") {
  ControlCluster cluster({.faults = {.suspend_beats = true}});
  cluster.StartAttempt(0);
  cluster.RunUntil(20 * kJobSecond);
  CHECK(cluster.node(1).ends.size() == 1);
}

// Process 1 of attempt 0 comes while attempt 1 gathers, before or after process 1 of attempt 1.
bool OlderTakesPart(uint64_t seed, const Faults& faults = {}) {
  ControlCluster cluster(
      {.processes = 3, .seed = seed, .start_spread = 2 * kJobSecond, .faults = faults});
  const int older = cluster.StartNode(0, 1, cluster.Draw(2 * kJobSecond));
  cluster.StartAttempt(1);
  cluster.RunUntil(100 * kJobSecond);
  const Node& node = cluster.node(older);
  CheckNode(node);
  if (!faults.accept_older_attempts) {
    CHECK(absl::StrContains(node.ends.at(0).message(), "is of attempt 0; attempt 1 is under way"));
    for (const Node& one : cluster.nodes()) CHECK((one.attempt == 0 || one.left));
  }
  return node.began;
}

TEST_CASE("An older attempt is refused, and does no harm") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    CHECK_FALSE(OlderTakesPart(seed));
  }
}

TEST_CASE("A planted bug is found: an older attempt takes part") {
  int found = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    found += OlderTakesPart(seed, {.accept_older_attempts = true});
  }
  CHECK(found > 0);
}

TEST_CASE("A newer attempt ends an older one that is still there, and replaces it") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    ControlCluster cluster({.processes = 3, .seed = seed, .steps = 1000});
    cluster.StartAttempt(0);
    // Its process 0 starts when the port is free: as soon as the older one has gone.
    cluster.StartNode(1, 1, 5 * kJobSecond);
    cluster.StartNode(1, 2, 6 * kJobSecond);
    cluster.StartNode(1, 0, 8 * kJobSecond);
    cluster.RunUntil(200 * kJobSecond);
    for (const Node& node : cluster.nodes()) {
      CheckNode(node);
      if (node.attempt == 1) {
        CHECK(node.left);
      } else {
        REQUIRE(node.ends.size() == 1);
        CHECK(absl::StrContains(node.ends[0].message(), "attempt 0 is over"));
        CHECK(node.ended < 8 * kJobSecond);
      }
    }
  }
}

TEST_CASE("A process that never comes is named to the others") {
  ControlCluster cluster({.processes = 3});
  for (const int p : {0, 2}) cluster.StartNode(0, p, 0);
  cluster.RunUntil(100 * kJobSecond);
  for (const Node& node : cluster.nodes()) {
    CHECK(absl::IsDeadlineExceeded(node.ends.at(0)));
    CHECK(std::string(node.ends[0].message()) == "process 1 has not joined within 60.0 s");
  }
}

TEST_CASE("The same seed gives the same run") {
  const auto run = [](uint64_t seed) {
    ControlCluster cluster({.processes = 5, .seed = seed, .most_delay = kJobSecond / 5});
    cluster.StartAttempt(0);
    cluster.At(6 * kJobSecond, [&] { cluster.Stop(3); });
    cluster.RunUntil(30 * kJobSecond);
    std::vector<int64_t> trace = {cluster.events()};
    for (const Node& node : cluster.nodes()) {
      trace.insert(trace.end(), {node.ended, node.wrote, node.position.steps});
    }
    return trace;
  };
  CHECK(run(3) == run(3));
  CHECK(run(3) != run(4));
}

TEST_CASE("Many processes: join, a thousand steps, ten losses, each a new attempt") {
  const int processes = IsFull() ? 4096 : 256;
  const auto began = std::chrono::steady_clock::now();
  ControlCluster cluster({.processes = processes,
                          .seed = 1,
                          .start_spread = 5 * kJobSecond,
                          .step = kJobSecond / 4,
                          .steps = 100,
                          .all_report = true});
  for (int attempt = 0; attempt <= 10; ++attempt) {
    CAPTURE(attempt);
    const int first = cluster.StartAttempt(attempt);
    const JobTime limit = cluster.now() + 200 * kJobSecond;
    // Attempts 0 to 9 lose a process in their last step.
    REQUIRE(cluster.RunUntilDone(limit, [&] {
      const Node& node = cluster.node(first);
      return attempt < 10 ? node.position.steps == 99 : node.left;
    }));
    if (attempt == 10) break;
    const int lost = 1 + static_cast<int>(cluster.Draw(processes - 2));
    attempt % 2 == 0 ? cluster.Kill(first + lost) : cluster.Stop(first + lost);
    const JobTime at = cluster.now();
    REQUIRE(cluster.RunUntilDone(limit, [&] { return !cluster.node(first).life.alive(); }));
    CHECK(cluster.now() - at < 10 * kJobSecond);
    CHECK(absl::StrContains(cluster.node(first).ends.at(0).message(),
                            absl::StrCat("(process ", lost, ")")));
    cluster.RunUntil(cluster.now() + kJobSecond);
    for (int p = 0; p < processes; ++p) {
      if (p != lost) CHECK(cluster.node(first + p).ends.size() == 1);
    }
  }
  cluster.RunUntil(cluster.now() + kJobSecond);
  for (int p = 0; p < processes; ++p) {
    CHECK(cluster.node(static_cast<int>(cluster.nodes().size()) - 1 - p).left);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (IsFull())
    WARN(processes << " processes, " << cluster.events() << " events, " << took.count() << " s");
}

}  // namespace
}  // namespace oneflow::cluster
