#include "planning/simulate/condense.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

namespace oneflow {
namespace {

// A stage that does F for 2 seconds and B for 1, in turn, with a second of idling after each pair;
// beside it a stream of the host.
SimulationSummary Alternating(int pairs) {
  SimulationSummary summary;
  summary.steps = 2;
  SimulationSummary::Stream compute{.name = "compute"}, host{.name = "host", .host = true};
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < pairs; ++i) {
      const double begin = 4.0 * (step * pairs + i);
      compute.blocks.push_back({"F", i, step, begin, begin + 2, 1, 2});
      compute.blocks.push_back({"B", i, step, begin + 2, begin + 3, 1, 1});
      host.blocks.push_back({"P", i, step, begin, begin + 1, 1, 1});
    }
  }
  summary.seconds = 8.0 * pairs;
  const SimulationSummary::Block& last = compute.blocks.back();
  summary.critical_path.push_back({0, "compute", compute.blocks.front()});
  summary.critical_path.push_back({0, "compute", last});
  SimulationSummary::Device& device = summary.stages.emplace_back();
  device.streams = {std::move(compute), std::move(host)};
  return summary;
}

TEST_CASE("the blocks of the last step stay, if they are few") {
  SimulationSummary summary = Alternating(10);
  summary.stages[0].streams.push_back({.name = "copy.out", .blocks = {{"report", 0, 1, 40, 80}}});
  summary.stages[0].memory = {{0, 1}, {10, 5}, {39, 2}, {41, 3}, {80, 0}};
  const Condensation condensed = Condense(&summary, 40);
  CHECK(condensed.seconds == 0);
  CHECK(condensed.blocks == 20);
  REQUIRE(summary.stages[0].streams[0].blocks.size() == 20);
  CHECK(summary.stages[0].streams[0].blocks[0].begin == 40);
  CHECK(summary.stages[0].streams[1].blocks.empty());
  CHECK(summary.stages[0].streams[2].blocks.empty());  // what the host reads and reports
  using Point = LiveMemory::Point;
  CHECK(summary.stages[0].memory == std::vector<Point>{{39, 2}, {41, 3}, {80, 0}});
}

TEST_CASE("many become few, with the same time") {
  SimulationSummary summary = Alternating(10000);
  const Condensation condensed = Condense(&summary, 500);
  CHECK(condensed.blocks == 20000);
  REQUIRE(condensed.seconds > 0);
  const auto& blocks = summary.stages[0].streams[0].blocks;
  CHECK(blocks.size() <= 500);
  CHECK(blocks.size() > 100);
  double busy = 0, end = 0;
  int64_t stand_for = 0;
  for (const auto& block : blocks) {
    CHECK(block.segment == "F");  // takes most of each
    CHECK(block.step == 1);
    CHECK(block.end - block.begin <= condensed.seconds);
    double parts = 0;
    for (const auto& [segment, seconds] : block.parts) parts += seconds;
    CHECK(std::abs(parts - block.busy) < 1e-6);
    CHECK(block.begin >= end);
    end = block.end;
    busy += block.busy;
    stand_for += block.blocks;
  }
  CHECK(std::abs(busy - 30000) < 1e-6);
  CHECK(stand_for == 20000);
}

TEST_CASE("blocks are as short as the time that is drawn allows") {
  SimulationSummary summary = Alternating(1000), folded = summary;
  const Condensation all = Condense(&summary, 15);
  // Nearly all of the step is a period that repeats itself.
  folded.repeats = {{.begin = 4000, .seconds = 4, .times = 990}};
  auto& blocks = folded.stages[0].streams[0].blocks;
  std::erase_if(blocks, [](const auto& block) { return block.begin > 4008 && block.end < 7960; });
  const Condensation some = Condense(&folded, 15);
  CHECK(some.blocks == 25);
  CHECK(some.seconds > 0);
  CHECK(some.seconds < all.seconds);
  // The period itself stays in full.
  const auto in_period = [](const auto& b) { return b.begin >= 4000 && b.end <= 4004; };
  CHECK(std::count_if(blocks.begin(), blocks.end(), in_period) == 2);
}

TEST_CASE("of too many streams those of compute stay") {
  SimulationSummary summary = Alternating(100);
  auto& streams = summary.stages[0].streams;
  streams.push_back({.name = "send", .blocks = streams[0].blocks});
  SimulationSummary few = summary;
  Condense(&summary, 150);
  CHECK(summary.stages[0].streams[0].blocks.size() > 50);
  CHECK(summary.stages[0].streams[2].blocks.empty());
  Condense(&few, 300);
  CHECK(!few.stages[0].streams[2].blocks.empty());
}

TEST_CASE("blocks know whether the critical path leads through them") {
  SimulationSummary summary = Alternating(1000), full = summary;
  Condense(&summary, 100);
  Condense(&full, 10000);
  for (const SimulationSummary& s : {summary, full}) {
    const auto& blocks = s.stages[0].streams[0].blocks;
    CHECK(std::count_if(blocks.begin(), blocks.end(), [](const auto& b) { return b.critical; }) ==
          1);
    CHECK(blocks.back().critical);
    CHECK(s.critical_path.empty());
  }
}

TEST_CASE("a bound below one block a stream is not reached, and ends") {
  SimulationSummary summary = Alternating(100);
  Condense(&summary, 0);
  CHECK(summary.stages[0].streams[0].blocks.size() == 1);
}

TEST_CASE("JSON tells condensed blocks by their length") {
  SimulationSummary summary = Alternating(1000);
  CHECK(SummaryJson(summary).find("\"F\",0,0,0.0,2.0]") != std::string::npos);
  Condense(&summary, 1);
  CHECK(SummaryJson(summary).find(
            "\"F\",1,0,4000.0,7999.0,2000,3000.0,true,{\"B\":1000.0,\"F\":2000.0}]") !=
        std::string::npos);
}

}  // namespace
}  // namespace oneflow
