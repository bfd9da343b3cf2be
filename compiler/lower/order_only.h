// Control: registers of no bytes, and actors without a kernel that fill and read them. They keep an
// order and carry no data. Part of lowering: the program has segments, but no streams yet.
#pragma once

#include <string>

#include "compiler/lower/lowered.h"

namespace oneflow {

// A register of no bytes, one fill a firing of its writer.
proto::Register* AddControlRegister(Lowered* lowered, const std::string& name, int stage);

// Stands in no segment yet.
proto::Actor* AddOrderOnlyActor(Lowered* lowered, const std::string& name, int stage);

// Reads register `control`, a fill a firing.
void AddControlInput(int control, proto::Actor* reader);

// The first segment of a stage's update on its compute stream; null if there is none.
proto::Segment* FirstUpdate(Lowered* lowered, int stage);

// As many stages as segments name.
int StageCount(const Lowered& lowered);

}  // namespace oneflow
