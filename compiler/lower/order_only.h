// Control: registers of no bytes, and actors without a kernel that fill and read them. They keep an
// order and carry no data. Part of lowering: the program has segments, but no streams yet.
#pragma once

#include <string>

#include "compiler/lower/lowered.h"

namespace oneflow {

// Adds a register of no bytes; each firing of its writer fills it once.
proto::Register* AddControlRegister(Lowered* lowered, const std::string& name, int stage);

// Adds an actor without a kernel; it is in no segment yet.
proto::Actor* AddOrderOnlyActor(Lowered* lowered, const std::string& name, int stage);

// Makes `reader` read register `control`, one fill a firing.
void AddControlInput(int control, proto::Actor* reader);

// The first segment of a stage's update on its compute stream; null if there is none.
proto::Segment* FirstUpdate(Lowered* lowered, int stage);

// The number of stages that segments name.
int StageCount(const Lowered& lowered);

}  // namespace oneflow
