// What a program's boxing is for people: for each place where a tensor does not lie as its reader
// needs it, why, by which primitives, and what one firing of all of them moves and takes.
#pragma once

#include <string>

#include "proto/plan.pb.h"

namespace oneflow {

// One line a place; places that differ in their numbers only (of layers and stages) share one, with
// how many they are. Bytes are those that a device receives, of the device that receives most;
// seconds are those of the compiler's prices, left out where it has none. "" without boxing.
//
//   boxing of program train, each time it fires:
//       h.*.mlp.proj.product is P on tensor; h.*.mlp.proj needs B: all_reduce, 524,288 bytes, 55
//       us; 4 times
std::string BoxingTable(const proto::Plan& plan, const proto::Program& program);

}  // namespace oneflow
