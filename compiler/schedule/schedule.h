// Pipeline schedules. A schedule is nothing but the order in which each stage takes its forward (F)
// and backward (B) segments in one step; everything else of the compiler treats all schedules
// alike.
//
//   gpipe   F×M  B×M                      all forwards, then all backwards
//   1f1b    F×w  (B F)×(M−w)  B×w         w = min(M, P − s): at most w micro-batches in flight
//
// A new schedule is one function in a file of its own and one row in the table of schedule.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

enum class Part : uint8_t { kForward, kBackward };

// `parts` in this order, `repeat` times over (never 0).
struct PartRun {
  std::vector<Part> parts;
  int64_t repeat = 1;
  bool operator==(const PartRun&) const = default;
};
using StageOrder = std::vector<PartRun>;

struct PipelineShape {
  int stages = 1;             // P
  int stage = 0;              // s
  int64_t micro_batches = 1;  // M
};

StageOrder GPipeOrder(const PipelineShape& shape);     // gpipe.cc
StageOrder OneFOneBOrder(const PipelineShape& shape);  // one_f_one_b.cc

struct Schedule {
  std::string name;
  StageOrder (*order)(const PipelineShape&);
};

// "" is 1f1b. An unknown name is an input error that lists the known ones.
absl::StatusOr<Schedule> FindSchedule(std::string_view name);

// "F×3 (B F)×5 B×3".
std::string ToString(const StageOrder& order);

}  // namespace oneflow
