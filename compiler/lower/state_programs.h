// The programs that only touch persistent registers: init fills them, save gives them to the host,
// load takes them from it. Each stage has one host segment, and one more for each number of slots:
// init and load fill every slot, save gives the newest.
#pragma once

#include "compiler/lower/lowered.h"
#include "proto/plan.pb.h"

namespace oneflow {

Lowered InitProgram(const proto::Plan& plan);
// If several stages hold a variable, the lowest saves it.
Lowered SaveProgram(const proto::Plan& plan);
Lowered LoadProgram(const proto::Plan& plan);

// Mesh axes, the stage axis aside, along which all devices hold the same piece of a register.
std::vector<int64_t> ReplicatedAxes(const proto::Mesh& mesh, int stage_axis,
                                    const proto::Layout& layout);

}  // namespace oneflow
