// A search finds the same in each run, however its threads are scheduled.
#include <google/protobuf/util/message_differencer.h>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "planning/search/draw_for_test.h"
#include "planning/search/search.h"

namespace oneflow {
namespace {

SearchSpec MakeSpec(int64_t memory) {
  return SpecForTest("layers: 4 heads: 4 hidden: 128 vocab: 512 sequence: 128", "a100", "--batch=8",
                     /*devices=*/2, memory);
}

SearchResult Run(const SearchSpec& spec, int threads) {
  absl::StatusOr<SearchResult> result =
      Search(spec, {.budget_seconds = 600, .threads = threads, .top = 3});
  INFO(result.status().message());
  REQUIRE(result.ok());
  CHECK(result->complete);
  REQUIRE(!result->found.empty());
  return *std::move(result);
}

std::vector<std::string> Flags(const SearchResult& result) {
  std::vector<std::string> flags;
  for (const FoundPlan& plan : result.found) flags.push_back(CandidateFlags(plan.candidate));
  return flags;
}

std::vector<double> Numbers(const SearchResult& result) {
  std::vector<double> numbers = {result.bound_seconds};
  for (const FoundPlan& plan : result.found) {
    numbers.push_back(plan.step_seconds);
    numbers.push_back(static_cast<double>(plan.bytes));
  }
  const SearchCounts& counts = result.counts;
  for (const int64_t n : {counts.groups, counts.refused, counts.too_large, counts.too_slow,
                          counts.compiled, counts.did_not_fit, counts.open}) {
    numbers.push_back(static_cast<double>(n));
  }
  return numbers;
}

void CompareRuns(const SearchSpec& spec) {
  const SearchResult result = Run(spec, 2), again = Run(spec, 2), alone = Run(spec, 1);
  INFO(result.counts.groups << " groups, " << result.counts.compiled << " compiled");
  CHECK(result.counts.groups >= 20);
  CHECK(Flags(result) == Flags(again));
  // What one thread measures while another does, too, is counted twice: short plans are left out.
  CHECK(Numbers(result) == Numbers(again));
  CHECK(google::protobuf::util::MessageDifferencer::Equals(result.best, again.best));
  // Other plans may fill the lower rows.
  CHECK(result.found[0].step_seconds == alone.found[0].step_seconds);
  CHECK(result.bound_seconds == alone.bound_seconds);
}

TEST_CASE("search: runs with as many threads find the same, others as fast a plan") {
  CompareRuns(MakeSpec(int64_t{1} << 36));
}

TEST_CASE("search: runs find the same where memory is short") {
  SearchSpec spec = MakeSpec(int64_t{1} << 36);
  const int64_t ample = Run(spec, 2).found[0].bytes;
  CompareRuns(MakeSpec(ample * 9 / 10));
}

}  // namespace
}  // namespace oneflow
