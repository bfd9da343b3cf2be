// Host actors of devices with memory of their own: they write and read pinned host memory, and
// copies join that to the registers of the device.
//
//   load_tokens -> ids          becomes   load_tokens -> ids.host -> ids.copy_in -> ids
//   loss -> report              becomes   loss -> loss.copy_out -> loss.host -> report
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// The lanes of a program's copies, and the distance by which host actors run ahead of them.
struct HostCopyOptions {
  Lane in = Lane::kCopyIn, out = Lane::kCopyOut;
  // The most copies of a segment, with the host's work for them, that are under way: pinned memory
  // need not hold all that a program moves. 0: no limit.
  int ahead = 0;
};

// Adds the copies and the registers of the host. Requires a program without streams, whose host
// actors are in lanes kHostIn and kHostOut. `persistent`: registers of the plan that outlive
// programs.
void AddHostCopies(const google::protobuf::RepeatedPtrField<proto::Register>& persistent,
                   const HostCopyOptions& options, Lowered* lowered);

}  // namespace oneflow
