// Trace: records when each firing ran, in buffers made before the run, and which firings follow
// from which. For an asynchronous device it records the device's times, by the device's events,
// from the moment at which the launch waited for nothing. It writes a message, from which
// trace_perfetto.h and trace_json.h make files.
//
//   Trace trace(/*events_per_stream=*/100000);
//   trace.Begin(net, /*first_step=*/0, steps);    // before the workers start
//   trace.buffer(stream)->Add({...});             // the stream's worker
//   proto::ProcessTrace part = trace.ToProto(plan);  // after the run
//
// Its size is bounded over all runs of a program: events that do not fit are counted, and the file
// says so. Arrows and memory cost nothing during the run: they follow from the firing numbers and
// the rates.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actor_runtime/exec/net.h"
#include "proto/plan.pb.h"
#include "proto/trace.pb.h"

namespace oneflow {

struct TraceEvent {
  int64_t begin_ns = 0, end_ns = 0;  // of one monotonic clock
  int64_t firing = 0;
  int32_t actor = 0;  // concrete
};

class TraceBuffer {
 public:
  explicit TraceBuffer(int64_t capacity) : capacity_(static_cast<size_t>(capacity)) {
    events_.reserve(capacity_);
  }
  // Allocates nothing.
  void Add(const TraceEvent& event) {
    if (events_.size() < capacity_) {
      events_.push_back(event);
    } else {
      ++dropped_;
    }
  }
  // True if it takes one more event. An event that it does not take is counted, and need not be
  // added.
  bool TakesMore() {
    if (events_.size() < capacity_) return true;
    ++dropped_;
    return false;
  }
  const std::vector<TraceEvent>& events() const { return events_; }
  int64_t dropped() const { return dropped_; }

 private:
  size_t capacity_;
  std::vector<TraceEvent> events_;
  int64_t dropped_ = 0;
};

class Trace {
 public:
  explicit Trace(int64_t events_per_stream) : events_per_stream_(events_per_stream) {}

  // Begins a new run of a net, which must outlive the trace. Requires that no worker runs.
  // `first_step`: number of the run's first step, for people. Makes room for the firings of `steps`
  // steps, within the part of events_per_stream that earlier runs of the net left.
  void Begin(const ActorNet& net, int64_t first_step, int64_t steps);
  // The buffer of a stream of the net that runs.
  TraceBuffer* buffer(int stream) { return &runs_.back().buffers[stream]; }
  // Requires that no worker runs. `plan`: the plan of the nets. The process number is not set.
  proto::ProcessTrace ToProto(const proto::Plan& plan) const;
  int64_t dropped() const;

 private:
  friend class TraceCopier;
  struct TracedRun {
    const ActorNet* net;
    int64_t first_step;
    std::vector<TraceBuffer> buffers;  // by stream
  };
  const int64_t events_per_stream_;
  std::vector<TracedRun> runs_;
  std::map<const ActorNet*, std::vector<int64_t>>
      left_;  // the rest of events_per_stream_, by stream
};

}  // namespace oneflow
