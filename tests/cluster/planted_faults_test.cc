// The simulated cluster finds each of eleven faults (faults.h) within 200 runs.
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/cluster/training.h"

namespace oneflow::cluster {
namespace {

constexpr uint64_t kSeeds = 200;

struct Planted {
  std::string name;
  bool Faults::*fault;
  uint64_t first = 0;  // seed; those before it are known to find nothing, and take long
};

std::vector<Planted> AllPlanted() {
  return {
      {"done said before the last piece", &Faults::arrived_early},
      {"links taken for ordered", &Faults::ordered_links},
      {"a piece pulled twice", &Faults::pull_twice},
      {"an entry matched by number across runs", &Faults::match_across_runs},
      {"a window reused before its sum", &Faults::share_window},
      {"a failure not reported to members that have not entered", &Faults::abort_entered_only, 45},
      {"an older attempt accepted", &Faults::accept_older_attempts, 7},
      {"a stop that is not agreed", &Faults::stop_unagreed, 42},
      {"a stopped process that writes on", &Faults::write_without_lease},
      {"a network of exchanges that nobody watches", &Faults::no_data_beats},
      {"a manifest before the sync", &Faults::manifest_before_sync, 30},
  };
}

TEST_CASE("each planted fault is found") {
  const auto subjects = MakeSubjects();
  for (const Planted& planted : AllPlanted()) {
    Faults faults;
    faults.*planted.fault = true;
    Coverage coverage;
    std::string found;
    uint64_t seed = planted.first;
    while (found.empty() && seed < kSeeds) {
      found = RunSeed(subjects, seed++, faults, &coverage);
    }
    INFO(planted.name);
    CHECK(!found.empty());
    WARN(planted.name << ": found by seed " << seed - 1 << ": " << found);
  }
}

}  // namespace
}  // namespace oneflow::cluster
