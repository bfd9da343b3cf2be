// Describes a program's boxing for people. For each tensor whose layout is not the one that a
// reader needs, it gives the reason, the primitives, and the bytes and seconds of one firing of
// them.
#pragma once

#include <string>

#include "proto/plan.pb.h"

namespace oneflow {

// Prints one line for each tensor and reader. Lines that differ in numbers only (of layers and
// stages) become one, with their count. Bytes are those received by the device that receives most.
// Seconds are those of the compiler's cost model, left out if it has none. "" without boxing.
//
//   boxing of program train, each time it fires:
//       h.*.mlp.proj.product is P on tensor; h.*.mlp.proj needs B: all_reduce, 524,288 bytes, 55
//       us; 4 times
std::string BoxingTable(const proto::Plan& plan, const proto::Program& program);

}  // namespace oneflow
