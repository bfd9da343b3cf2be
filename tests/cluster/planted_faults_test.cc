// The simulated cluster finds each of eleven faults that are planted in the protocols, within 200
// runs.
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/cluster/training.h"

namespace oneflow::cluster {
namespace {

constexpr uint64_t kSeeds = 200;

struct Planted {
  std::string name;
  std::function<void(Faults*)> plant;
};

std::vector<Planted> AllPlanted() {
  return {
      {"done said before the last piece", [](Faults* f) { f->exchange.done_early = true; }},
      {"links taken for ordered", [](Faults* f) { f->exchange.ordered_links = true; }},
      {"a piece taken twice", [](Faults* f) { f->exchange.take_twice = true; }},
      {"an entry matched by number across runs",
       [](Faults* f) { f->exchange.match_across_runs = true; }},
      {"a window reused before its sum", [](Faults* f) { f->exchange.reuse_window = true; }},
      {"a failure not reported to members that have not entered",
       [](Faults* f) { f->exchange.abort_entered_only = true; }},
      {"an older attempt accepted", [](Faults* f) { f->job.accept_older_attempts = true; }},
      {"a stop that is not agreed", [](Faults* f) { f->job.stop_unagreed = true; }},
      {"a stopped process that writes on", [](Faults* f) { f->job.write_without_lease = true; }},
      {"a network of exchanges that nobody watches", [](Faults* f) { f->no_data_beats = true; }},
      {"a manifest before the sync", [](Faults* f) { f->checkpoint.manifest_before_sync = true; }},
  };
}

TEST_CASE("each planted fault is found") {
  const auto subjects = MakeSubjects();
  for (const Planted& planted : AllPlanted()) {
    Faults faults;
    planted.plant(&faults);
    Coverage coverage;
    std::string found;
    uint64_t seed = 0;
    while (found.empty() && seed < kSeeds) {
      found = RunSeed(subjects, seed++, faults, &coverage);
    }
    INFO(planted.name);
    CHECK(!found.empty());
    WARN(planted.name << ": found by run " << seed << ": " << found);
  }
}

}  // namespace
}  // namespace oneflow::cluster
