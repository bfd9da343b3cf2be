// Describes a program's boxing for people: for each tensor whose layout is not the one that a
// reader needs, the reason, the primitives, and the bytes and seconds of one firing of them.
#pragma once

#include <string>

#include "proto/plan.pb.h"

namespace oneflow {

// One line for each tensor and reader. Those that differ in numbers only (of layers and stages)
// share a line with their count. Bytes are those that a device receives, of the device that
// receives most; seconds are those of the compiler's prices, left out where it has none. "" without
// boxing.
//
//   boxing of program train, each time it fires:
//       h.*.mlp.proj.product is P on tensor; h.*.mlp.proj needs B: all_reduce, 524,288 bytes, 55
//       us; 4 times
std::string BoxingTable(const proto::Plan& plan, const proto::Program& program);

}  // namespace oneflow
