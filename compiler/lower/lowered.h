// A program on its way from graph to plan: actors, registers and segments are there; orders, slots
// and offsets are not yet.
#pragma once

#include <vector>

#include "compiler/schedule/order.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The stream that a segment will stand in.
enum class Lane : uint8_t { kCompute, kCopyForward, kCopyBackward, kCopyUpdate, kHostIn, kHostOut };

struct SegmentInfo {
  Lane lane = Lane::kCompute;
  Task task;      // the part of a step that it is, or goes with: a copy goes with its reader
  int times = 1;  // in a row, wherever the task stands
};

struct Lowered {
  proto::Program program;             // without streams; all registers with one slot at offset 0
  std::vector<SegmentInfo> segments;  // of program.segment(i)
};

}  // namespace oneflow
