// A program on its way from graph to plan: actors, registers and segments are there; orders, slots
// and offsets are not yet.
#pragma once

#include <vector>

#include "oneflow_core/graph/graph.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The stream that a segment will stand in.
enum class Lane : uint8_t { kCompute, kCopyForward, kCopyBackward, kCopyUpdate, kHostIn, kHostOut };

struct SegmentInfo {
  Lane lane = Lane::kCompute;
  Phase phase = Phase::kForward;
};

struct Lowered {
  proto::Program program;             // without streams; all registers with one slot at offset 0
  std::vector<SegmentInfo> segments;  // of program.segment(i)
};

}  // namespace oneflow
