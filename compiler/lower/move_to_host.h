// Copies between a device's memory and its host's, for all that rests in the host's memory.
//
// Each actor computes on one side and each register is on one side; where an actor accesses a
// register of the other side, a copy goes between:
//
//   written in F, read in B (to_host)   x -> copy_out -> x.host -> copy_in -> x.copy -> readers
//   a variable of the host, read        w -> copy_in -> w.copy -> readers
//   one that a device updates in place  m -> copy_in -> m.copy -> adamw -> m.next -> copy_out -> m
//   what a host's actor reads           dw -> copy_out -> dw.host -> adamw (host)
//
// A copy into the device's memory is for one use: a block of the model in a task (an update: some
// variables one after the other); or, of registers in Lowered::copied_once, for a step, in P.
// Copies have a lane for each direction, on which they stand in the order in which compute needs
// them; schedule/bound_copies.h orders those of an update, and bounds all.
//
// An op that updates in place what is elsewhere gets the old values as further inputs, behind all
// others, and writes the new ones into other registers; the attribute `apart` lists which.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// Requires a program without streams. `persistent`: registers of the plan that outlive programs.
// Fills Lowered::copies_out and copies_in.
void MoveToHost(const google::protobuf::RepeatedPtrField<proto::Register>& persistent,
                Lowered* lowered);

}  // namespace oneflow
