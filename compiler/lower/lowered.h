// A program between graph and plan: it has actors, registers and segments, but no orders, slots and
// offsets yet.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/lower/order.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The stream that a segment will be in, chosen by the waits that it may cause. Sends and receives
// have one for each stage at their other end.
enum class Lane : uint8_t {
  kCompute,
  kCollective,  // exchanges of a stage that its compute waits for
  kGradient,    // exchanges once a step: of gradients and norms, and gathered weights
  kReduction,   // of gradients that are reduced with every micro-batch
  kGather,      // of weights for one micro-batch, ahead of compute, with casts of their parts
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
  kSendUpdate,
  kReceiveUpdate,
  kCopyIn,   // from the host's memory to the device's
  kCopyOut,  // and back
  kHostIn,
  kHostOut,
  kOffloadOut,  // tensors that rest in the host's memory between uses: from the device's memory
  kOffloadIn,   // and back
  kHostUpdate   // work of the host's processors for a device
};

struct SegmentInfo {
  Lane lane = Lane::kCompute;
  // The part of a step that the segment is, or goes with. A send goes with its writer, a receive
  // with its reader.
  Task task;
  int times = 1;     // in a row, wherever the task stands
  int partner = -1;  // the stage at the other end of a send or receive
};

struct Lowered {
  proto::Program program;             // without streams; all registers with one slot at offset 0
  std::vector<SegmentInfo> segments;  // of program.segment(i)
  proto::ProgramFacts facts;
  // The actors of lane kGather; those of one use are together (gather_uses.h).
  std::vector<std::vector<int>> gather_uses;
  // Registers of the program that a device writes, and that rest in the host's memory until another
  // task reads them.
  std::set<int> to_host;
  // Registers in the host's memory of which devices keep a copy for a step.
  std::set<int> copied_once;
  // The actors of lanes kOffloadOut and kOffloadIn; those of one use are together (move_to_host.h).
  std::vector<std::vector<int>> copies_out, copies_in;
  std::string note;  // for `explain`; empty: none
};

}  // namespace oneflow
