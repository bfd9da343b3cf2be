// LaunchWaits: for which events a launch on a stream of a device waits, of all those that it must
// come after. An event is left out where it has come, or where another says that it has.
//
// Streams run what they are given in order; launch n of a stream is the n-th that it was given in a
// run. A stream that waits for an event of another knows of all that the other knew when it was
// given that launch: vector clocks (Fidge, Mattern 1988), kept for the last `queue` launches.
//
//   waits.Reduce(stream, &needs);              // what remains is to be waited for
//   ... cudaStreamWaitEvent for each, launch, cudaEventRecord ...
//   const int64_t n = waits.Launched(stream);  // its number
//   waits.Completed(stream);                   // when the oldest one's event has come
//
// Pure state: no event, no device, no allocation after it is made.
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

// Launch `launch` of a stream.
struct LaunchNeed {
  int32_t stream = 0;
  int64_t launch = 0;
  bool operator==(const LaunchNeed&) const = default;
};

class LaunchWaits {
 public:
  // Requires that no stream has more than `queue` launches that have not completed.
  LaunchWaits(int streams, int queue);

  // Drops the needs of the next launch on `stream` that are met without waiting, and counts the
  // others as waited for. Requires launches that have been given, of other streams.
  void Reduce(int32_t stream, std::vector<LaunchNeed>* needs);
  int64_t Launched(int32_t stream);
  void Completed(int32_t stream) { ++completed_[stream]; }
  int64_t launched(int32_t stream) const { return launched_[stream]; }
  int64_t completed(int32_t stream) const { return completed_[stream]; }

 private:
  // Of each stream so many launches are known to be over.
  int64_t* Known(int32_t stream) { return &known_[stream * streams_]; }
  // What `stream` knew when it was given `launch`.
  const int64_t* KnownAt(int32_t stream, int64_t launch) const {
    return &history_[(stream * queue_ + launch % queue_) * streams_];
  }

  const int streams_, queue_;
  std::vector<int64_t> launched_, completed_;  // by stream
  std::vector<int64_t> known_;                 // by stream, stream
  std::vector<int64_t> history_;               // by stream, launch in the queue, stream
};

}  // namespace oneflow
