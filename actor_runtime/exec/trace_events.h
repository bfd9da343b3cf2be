// WalkTrace: the events of a trace, as files of any format have them, from what processes have
// traced or the simulator has predicted.
//
//   WalkTrace({&part, 1}, /*processes=*/1, MakeTraceFacts(plan),
//             [&](const TraceItem& item) { std::visit(writer, item); });
//
// There is a device for each rank ("stage 0, rank 1"), a track for each of its streams, a slice for
// each firing, a flow for each fill that went to another stream, and flows between processes: from
// the send, or from the member that entered last, to the members that waited for it; a counter of
// bytes in use of each device; a mark where each device begins a step.
//
// A slice's category is its part of a step ("forward"), or its program's name if no facts are
// known; its arguments are the program, the step, the micro-batch, the firing, and bytes.
//
// What is predicted has devices of its own, on the same time axis. Devices of a stage that are
// simulated do the same at the same time, so one stands for all of them: "predicted: stage 3, ranks
// 96..127 alike (32 devices)".
//
// It is a pure function. Parts may come from other processes: inconsistent events in them are left
// out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "actor_runtime/exec/trace_facts.h"
#include "proto/trace.pb.h"

namespace oneflow {

// Moments are nanoseconds since the first firing. Texts and spans live as long as the call.

// The first item.
struct TraceHeader {
  int64_t dropped = 0;                                     // firings that did not fit
  std::vector<std::pair<std::string, std::string>> facts;  // of a trace of several processes
};
struct TraceDevice {
  int64_t id = 0;
  std::string name;
};
// Comes after its device and before everything else that names it.
struct TraceTrack {
  int id = 0;  // 1, 2, ...
  int64_t device = 0;
  std::string_view name;
};
// An arrow between two moments inside slices. All flows come before the slices.
struct TraceFlow {
  int64_t id = 0;  // 1, 2, ...
  const char* kind = "";
  int from = 0, to = 0;  // tracks
  int64_t from_time = 0, to_time = 0;
};
struct TraceArgument {
  struct Duration {
    int64_t nanoseconds = 0;
  };
  const char* name = "";
  std::variant<int64_t, std::string_view, Duration> value;
};
struct TraceSlice {
  int track = 0;
  int64_t begin = 0, end = 0;
  std::string_view category, name;
  std::span<const TraceArgument> arguments;
};
// The bytes from a moment on.
struct TraceCounter {
  int64_t device = 0;
  const char* name = "";
  int64_t time = 0, bytes = 0;
};
// A step of a device begins, on a track.
struct TraceMark {
  int64_t device = 0;
  int track = 0;
  int64_t time = 0;
  std::string name;
};
using TraceItem = std::variant<TraceHeader, TraceDevice, TraceTrack, TraceFlow, TraceSlice,
                               TraceCounter, TraceMark>;

// `processes`: the number of processes; the header names those whose part is missing.
void WalkTrace(std::span<const proto::ProcessTrace> parts, int processes, const TraceFacts& facts,
               const std::function<void(const TraceItem&)>& take);

// When devices began a step of a program, on the common clock: the first firing of it that is not
// the host's; nothing if none was traced. Predicted parts do not count.
std::optional<int64_t> StepBegin(std::span<const proto::ProcessTrace> parts,
                                 std::string_view program, int64_t step);

}  // namespace oneflow
