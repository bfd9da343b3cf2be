// Pipes of equal blocks, written by hand: plans for tests of exchanges that run ahead of compute or
// behind it. A stage holds one block after another in each of its chunks. The weights of a block
// are split over the devices of the stage and gathered for each use. Its gradient is written in
// full and reduced to parts, and each micro-batch's part is added up.
//
//   ASSIGN_OR_RETURN(const BuiltBlocks built, BuildBlocks({.schedule = *FindSchedule("1f1b")}));
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/schedule/schedule.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The control that keeps the gathers of a stage from running ahead of compute. Uses are counted in
// the order of the compute stream. In all forms but the first two, the gather of use i waits,
// within a segment, for the return of use i - d - 1, by a control register. The forms differ in the
// first d + 1 gathers of a segment.
enum class GatherCredits : uint8_t {
  kComputeStream,  // gathers are on the compute stream, just before their readers
  kUnlimited,      // nothing but the slots of the gathered registers
  kExact,          // an order-only actor for each of them, right behind use i - d - 1
  kAligned,        // the same right behind the last use that takes the same one of d + 1 buffers,
                   // which the uses of a segment take in turn, from an offset of the segment
  kOneActor,       // an order-only actor for the first of them; the others follow it
  kAtFirstUse,     // one for all of them, just before the segment
  kOwnRings        // the return of use i - d - 1 of the same segment, a micro-batch earlier
};

// The position at which a part is added up: its actor waits for the reduction.
enum class PartAdds : uint8_t {
  kExact,       // just before the full gradient of use i + e + 1 is written
  kInSegment,   // the same within a segment; the last e + 1 of a segment at its end
  kNextSegment  // the same within a segment; the last e + 1 just before the next one that reduces
};

// Seconds of one block.
struct BlockSeconds {
  double forward = 1, backward = 2;
  double weights = 1;  // where they are a task of their own
  double gather = 0.5, reduce = 0.5, add = 0.02;
  double link = 0.05;  // of a send
};

struct BlockPipe {
  Schedule schedule;
  int stages = 4, blocks = 8;  // blocks: of a chunk
  int micro_batches = 8;
  BlockSeconds seconds;
  GatherCredits credits = GatherCredits::kExact;
  int ahead = 1;        // d; at least 0
  int credit_late = 0;  // the actors of kExact stand so many uses behind their position
  bool reduces = false;
  PartAdds adds = PartAdds::kExact;
  int reduce_ahead = 1;  // e; at least 0
};

struct BuiltBlocks {
  proto::Plan plan;             // with slots, addresses and orders of issue; not proved
  std::vector<double> seconds;  // by actor
  // For kAligned, by gathered register: its address with d + 1 buffers side by side.
  std::map<int, int64_t> in_turn;
};

// Bytes of a block's weights (four tensors), and of its gradient (one tensor). An activation has 64
// bytes.
inline constexpr int64_t kBlockBytes = 12 * (int64_t{1} << 16);

// Requires at least two stages and, for kOwnRings, more than d + 1 blocks a chunk.
absl::StatusOr<BuiltBlocks> BuildBlocks(const BlockPipe& pipe);

}  // namespace oneflow
