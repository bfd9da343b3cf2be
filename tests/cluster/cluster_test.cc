// Four processes that train a tiny GPT on a simulated cluster, under losses that a seed draws: see
// cluster.h for what must hold. A failure prints its seed; ONEFLOW_SEED=N runs that one alone.
#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>

#include "tests/cluster/training.h"

namespace oneflow::cluster {
namespace {

uint64_t Seeds() { return std::getenv("ONEFLOW_TEST_FULL") == nullptr ? 40 : 1000; }

TEST_CASE("whatever is lost, the training ends with the bits of an undisturbed run") {
  const auto subjects = MakeSubjects();
  Coverage coverage;
  const char* one = std::getenv("ONEFLOW_SEED");
  const uint64_t first = one == nullptr ? 0 : std::strtoull(one, nullptr, 10);
  for (uint64_t seed = first; seed < (one == nullptr ? Seeds() : first + 1); ++seed) {
    const std::string wrong = RunSeed(subjects, seed, {}, &coverage);
    INFO(wrong);
    REQUIRE(wrong.empty());
  }
  for (const auto& [loss, times] : coverage.losses) UNSCOPED_INFO(loss << ": " << times);
  for (const auto& [loss, times] : coverage.causes)
    UNSCOPED_INFO("cause " << loss << ": " << times);
  UNSCOPED_INFO(coverage.attempts << " attempts, " << coverage.resumed << " resumed; "
                                  << coverage.foreign << " messages of older ones dropped, "
                                  << coverage.painted << " buffers painted");
  CHECK(coverage.painted > 0);
  if (one == nullptr) CHECK(coverage.resumed > 0);
  if (one == nullptr) CHECK(coverage.losses.size() >= 11);
}

}  // namespace
}  // namespace oneflow::cluster
