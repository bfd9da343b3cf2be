#include "actor_runtime/actor/launch_waits.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <set>
#include <utility>

namespace oneflow {
namespace {

using Needs = std::vector<LaunchNeed>;

Needs Reduced(LaunchWaits* waits, int32_t stream, Needs needs) {
  waits->Reduce(stream, &needs);
  return needs;
}

TEST_CASE("events that completed, were waited for or are implied are left out") {
  LaunchWaits waits(3, 4);
  CHECK(waits.Launched(0) == 0);
  CHECK(waits.Launched(0) == 1);
  CHECK(Reduced(&waits, 1, {{0, 0}, {0, 1}}) == Needs{{0, 1}});
  CHECK(waits.Launched(1) == 0);
  CHECK(Reduced(&waits, 1, {{0, 1}}).empty());
  // Launch 0 of stream 1 came after launch 1 of stream 0.
  CHECK(Reduced(&waits, 2, {{0, 1}, {1, 0}}) == Needs{{1, 0}});
  CHECK(waits.Launched(2) == 0);
  CHECK(waits.Launched(0) == 2);
  waits.Completed(0), waits.Completed(0), waits.Completed(0);
  CHECK(Reduced(&waits, 2, {{0, 2}}).empty());
}

// Streams that are given launches with random needs, some of which complete: whatever is left out
// is implied by what is waited for, and nothing that remains is.
TEST_CASE("random launches: what is waited for implies what is needed, and no wait is idle") {
  using Launch = std::pair<int32_t, int64_t>;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int streams = 2 + random() % 4, queue = 1 + random() % 5;
    LaunchWaits waits(streams, queue);
    std::map<Launch, std::set<Launch>> before;     // all that a launch comes after
    std::vector<std::set<Launch>> known(streams);  // from its waits and its order
    int left_out = 0;
    for (int i = 0; i < 120; ++i) {
      const auto s = static_cast<int32_t>(random() % streams);
      if (random() % 3 == 0 || waits.launched(s) - waits.completed(s) == queue) {
        if (waits.completed(s) == waits.launched(s)) continue;
        // A launch completes after all that it comes after; completions of other launches are
        // reported later.
        waits.Completed(s);
        continue;
      }
      Needs needs;
      for (int n = random() % 4; n > 0; --n) {
        const auto t = static_cast<int32_t>(random() % streams);
        if (t == s || waits.launched(t) == 0) continue;
        const int64_t oldest = std::max<int64_t>(0, waits.launched(t) - queue);
        needs.push_back(
            {t, oldest + static_cast<int64_t>(random() % (waits.launched(t) - oldest))});
      }
      const Needs kept = Reduced(&waits, s, needs);
      left_out += static_cast<int>(needs.size() - kept.size());
      const std::set<Launch> own = known[s];
      for (const LaunchNeed& wait : kept) {
        std::set<Launch> others = own;
        for (const LaunchNeed& other : kept) {
          if (other == wait) continue;
          const Launch l{other.stream, other.launch};
          others.insert(l);
          others.insert(before[l].begin(), before[l].end());
        }
        CHECK_FALSE(others.count({wait.stream, wait.launch}));
        CHECK(wait.launch >= waits.completed(wait.stream));
      }
      for (const LaunchNeed& wait : kept) {
        const Launch l{wait.stream, wait.launch};
        known[s].insert(l);
        known[s].insert(before[l].begin(), before[l].end());
      }
      for (const LaunchNeed& need : needs) {
        const bool is_known = known[s].count({need.stream, need.launch}) > 0;
        CHECK((is_known || need.launch < waits.completed(need.stream)));
      }
      const Launch launch{s, waits.Launched(s)};
      before[launch] = known[s];
      known[s].insert(launch);
    }
    CHECK(left_out > 0);
  }
}

}  // namespace
}  // namespace oneflow
