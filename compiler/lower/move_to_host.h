// Adds copies between a device's memory and its host's, for all registers that rest in the host's
// memory.
//
// Each actor computes on one side, and each register is on one side. If an actor accesses a
// register of the other side, a copy goes between them:
//
//   written in F, read in B (to_host)   x -> copy_out -> x.host -> copy_in -> x.copy -> readers
//   a variable of the host, read        w -> copy_in -> w.copy -> readers
//   one that a device updates in place  m -> copy_in -> m.copy -> adamw -> m.next -> copy_out -> m
//   data that a host's actor reads      dw -> copy_out -> dw.host -> adamw (host)
//
// A copy into the device's memory serves one use: a block of the model in a task, or in an update
// some variables one after the other. A copy of a register in Lowered::copied_once serves a step,
// in P. Each direction has a lane, on which copies are in the order in which compute needs them.
// schedule/bound_copies.h orders those of an update, and bounds all.
//
// An op that updates in place a register of the other side gets the old values as further inputs,
// behind all others. It writes the new values into other registers; the attribute `apart` lists
// them.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// Requires a program without streams. `persistent`: registers of the plan that outlive programs.
// Fills Lowered::copies_out and copies_in.
void MoveToHost(const google::protobuf::RepeatedPtrField<proto::Register>& persistent,
                Lowered* lowered);

}  // namespace oneflow
