// Trace: when each firing ran, in buffers made before the run (of a device that runs by itself:
// when it ran there, by the device's events, from the moment at which it waited for nothing), and
// which firings follow from which; written out as a message, which trace_json.h makes
// Chrome/Perfetto JSON of.
//
//   Trace trace(/*events_per_stream=*/100000);
//   trace.Begin(net, /*first_step=*/0, steps);    // before the workers start
//   trace.buffer(stream)->Add({...});             // the stream's worker
//   proto::ProcessTrace part = trace.ToProto(plan);  // after the run
//
// Bounded over all runs of a program: what does not fit is counted, and the JSON says so. Arrows
// and memory cost nothing while it runs: they follow from the firing numbers and the rates.
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
  // Whether it takes one more; one that it does not take is counted, and need not be added.
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

  // A new run of a net, which must outlive the trace. No worker runs. `first_step`: number of the
  // run's first step, for people. Makes room for what `steps` steps fire, within what earlier runs
  // of the net left of events_per_stream.
  void Begin(const ActorNet& net, int64_t first_step, int64_t steps);
  // Of a stream of the net that runs.
  TraceBuffer* buffer(int stream) { return &runs_.back().buffers[stream]; }
  // No worker runs. Without what says which process of many it is. `plan`: whose nets ran.
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
  std::map<const ActorNet*, std::vector<int64_t>> left_;  // of events_per_stream_, by stream
};

}  // namespace oneflow
