#include "actor_runtime/network/peer_beats.h"

#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/device/counted_allocations.h"

namespace oneflow {
namespace {

constexpr JobTime kSilence = 5 * kJobSecond, kBeat = kSilence / 10;

// Processes on one clock, of which each watches all others; `reaches` says which links work.
struct Scene {
  explicit Scene(int processes) {
    for (int p = 0; p < processes; ++p) {
      std::vector<int> others;
      for (int other = 0; other < processes; ++other) {
        if (other != p) others.push_back(other);
      }
      machines.emplace_back(processes);
      machines.back().Watch(others, kSilence, now);
    }
    reaches.assign(processes, std::vector<bool>(processes, true));
    silent.resize(processes);
  }
  void Tick(int p) {
    const auto found = machines[p].Tick(now, [&](int to) {
      if (reaches[p][to]) machines[to].Heard(p);
    });
    if (found) silent[p] = found;
  }
  void Disconnect(int a, int b) { reaches[a][b] = reaches[b][a] = false; }
  // All run, in steps of a tenth of a beat.
  void Pass(JobTime time) {
    for (const JobTime end = now + time; now < end; now += kBeat / 10) {
      for (int p = 0; p < static_cast<int>(machines.size()); ++p) Tick(p);
    }
  }
  bool NobodyIsSilent() const {
    for (const auto& of_process : silent) {
      if (of_process) return false;
    }
    return true;
  }

  JobTime now = 1000 * kJobSecond;
  std::vector<PeerBeats> machines;
  std::vector<std::vector<bool>> reaches;  // from, to
  std::vector<std::optional<PeerBeats::Silent>> silent;
};

TEST_CASE("who beats is not silent, for as long as it does") {
  Scene scene(4);
  scene.Pass(1000 * kJobSecond);
  CHECK(scene.NobodyIsSilent());
}

TEST_CASE("both ends of a link that carries nothing find out in time, and nobody else does") {
  Scene scene(4);
  scene.Pass(10 * kJobSecond);
  scene.Disconnect(2, 3);
  scene.Pass(kSilence - kBeat);
  CHECK(scene.NobodyIsSilent());
  scene.Pass(3 * kBeat);
  for (const int p : {2, 3}) {
    REQUIRE(scene.silent[p].has_value());
    CHECK(scene.silent[p]->process == 5 - p);
    CHECK(scene.silent[p]->time >= kSilence);
    CHECK(scene.silent[p]->others == 0);
  }
  CHECK_FALSE(scene.silent[0].has_value());
  CHECK_FALSE(scene.silent[1].has_value());
}

TEST_CASE("a link that carries in one direction alone is found by the end that hears nothing") {
  Scene scene(2);
  scene.reaches[0][1] = false;
  scene.Pass(kSilence + 2 * kBeat);
  CHECK_FALSE(scene.silent[0].has_value());
  REQUIRE(scene.silent[1].has_value());
  CHECK(scene.silent[1]->process == 0);
}

TEST_CASE("a host that has lost all others counts them, and says so once") {
  Scene scene(4);
  scene.Pass(10 * kJobSecond);
  for (const int other : {0, 1, 2}) scene.Disconnect(3, other);
  scene.Pass(kSilence + 2 * kBeat);
  REQUIRE(scene.silent[3].has_value());
  CHECK(scene.silent[3]->others == 2);
  scene.silent.assign(4, std::nullopt);
  scene.Pass(2 * kSilence);
  CHECK(scene.NobodyIsSilent());
}

TEST_CASE("a peer of which nothing was ever heard is silent, too") {
  PeerBeats beats(2);
  beats.Watch({1}, kSilence, 0);
  std::optional<PeerBeats::Silent> silent;
  JobTime now = 0;
  while (!silent && now < 2 * kSilence) silent = beats.Tick(now += kBeat / 4, [](int) {});
  REQUIRE(silent.has_value());
  CHECK(now >= kSilence);
  CHECK(now <= kSilence + 2 * kBeat);
}

TEST_CASE("a process that was stopped takes nobody for silent, and is not taken for silent") {
  Scene scene(2);
  scene.Pass(10 * kJobSecond);
  for (const JobTime stopped : {kSilence * 8 / 10, 100 * kSilence}) {
    const JobTime goes_on = scene.now + stopped;
    // The other one goes on beating; this one hears it when it is woken, after its own tick.
    for (; scene.now < goes_on; scene.now += kBeat / 10) {
      if (stopped < kSilence) scene.Tick(1);
    }
    scene.Tick(0);
    scene.Pass(2 * kSilence);
  }
  CHECK(scene.NobodyIsSilent());
}

TEST_CASE("a process that runs a tenth of the time neither is silent nor takes others for it") {
  for (const JobTime period : {kBeat, 4 * kBeat, 8 * kBeat}) {
    Scene scene(2);
    for (const JobTime end = scene.now + 20 * kSilence; scene.now < end;) {
      for (JobTime turn = 0; turn < period; turn += kBeat / 10) {
        scene.Tick(1);
        if (turn < period / 10) scene.Tick(0);
        scene.now += kBeat / 10;
      }
    }
    CHECK(scene.NobodyIsSilent());
  }
}

TEST_CASE("a tick allocates nothing, and sends a beat to each peer ten times in the silence") {
  PeerBeats beats(64);
  std::vector<int> peers;
  for (int p = 1; p < 64; ++p) peers.push_back(p);
  beats.Watch(peers, kSilence, 0);
  int64_t sent = 0;
  const int64_t before = ThreadAllocations();
  for (JobTime now = 0; now < 10 * kSilence; now += kBeat / 50) {
    beats.Tick(now, [&](int process) {
      ++sent;
      beats.Heard(process);
    });
  }
  CHECK(ThreadAllocations() == before);
  CHECK(sent == 63 * 100);
}

}  // namespace
}  // namespace oneflow
