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

TEST_CASE("few blocks stay as they are") {
  SimulationSummary summary = Alternating(10);
  const Condensation condensed = Condense(&summary, 40);
  CHECK(condensed.seconds == 0);
  CHECK(condensed.blocks == 40);
  CHECK(summary.stages[0].streams[0].blocks.size() == 40);
  CHECK(summary.stages[0].streams[1].blocks.size() == 20);
  CHECK(summary.critical_path.size() == 2);
}

TEST_CASE("many become few, with the same time, and never of two steps") {
  SimulationSummary summary = Alternating(10000);
  const Condensation condensed = Condense(&summary, 500);
  CHECK(condensed.blocks == 40000);
  REQUIRE(condensed.seconds > 0);
  const auto& blocks = summary.stages[0].streams[0].blocks;
  CHECK(blocks.size() <= 500);
  CHECK(blocks.size() > 100);
  CHECK(summary.stages[0].streams[1].blocks.empty());
  double busy = 0, end = 0;
  int64_t stand_for = 0;
  for (const auto& block : blocks) {
    CHECK(block.segment == "F");  // takes most of each
    CHECK(block.end - block.begin <= condensed.seconds);
    double parts = 0;
    for (const auto& [segment, seconds] : block.parts) parts += seconds;
    CHECK(std::abs(parts - block.busy) < 1e-6);
    CHECK(block.begin >= end);
    CHECK((block.step == 0) == (block.end <= summary.seconds / 2));
    end = block.end;
    busy += block.busy;
    stand_for += block.blocks;
  }
  CHECK(std::abs(busy - 60000) < 1e-6);
  CHECK(stand_for == 40000);
}

TEST_CASE("condensed blocks know whether the critical path leads through them") {
  SimulationSummary summary = Alternating(1000);
  const Condensation condensed = Condense(&summary, 100);
  const auto& blocks = summary.stages[0].streams[0].blocks;
  CHECK(std::count_if(blocks.begin(), blocks.end(), [](const auto& b) { return b.critical; }) == 2);
  CHECK(blocks.front().critical);
  CHECK(blocks.back().critical);
  CHECK(condensed.pieces == 1);  // of the last step
  REQUIRE(summary.critical_path.size() == 1);
  CHECK(summary.critical_path[0].block.step == 1);
}

TEST_CASE("a bound below one block a stream and step is not reached, and ends") {
  SimulationSummary summary = Alternating(100);
  Condense(&summary, 1);
  CHECK(summary.stages[0].streams[0].blocks.size() == 2);
}

TEST_CASE("JSON tells condensed blocks by their length") {
  SimulationSummary summary = Alternating(1000);
  CHECK(SummaryJson(summary).find("\"F\",0,0,0.0,2.0]") != std::string::npos);
  Condense(&summary, 2);
  CHECK(SummaryJson(summary).find(
            "\"F\",0,0,0.0,3999.0,2000,3000.0,true,{\"B\":1000.0,\"F\":2000.0}]") !=
        std::string::npos);
}

}  // namespace
}  // namespace oneflow
