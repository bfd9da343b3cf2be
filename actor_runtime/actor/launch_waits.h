// LaunchWaits: the events that a launch on a stream of a device waits for, out of all launches that
// it must come after. An event is left out if it has come, or if another event implies it.
//
// A stream runs its launches in the order given; launch n of a stream is the n-th launch that it
// was given in a run. A stream that waits for an event of another stream knows all that the other
// knew when it was given that launch. These are vector clocks (Fidge, Mattern 1988), kept for the
// last `queue` launches.
//
//   waits.Reduce(stream, &needs);              // the rest is to be waited for
//   ... cudaStreamWaitEvent for each, launch, cudaEventRecord ...
//   const int64_t n = waits.Launched(stream);  // its number
//   waits.Completed(stream);                   // when the oldest one's event has come
//
// It is pure state: it has no event and no device, and it allocates nothing after it is made.
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

// A launch of a stream, named by its number.
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
  // others as waited for. Requires launches that were given to other streams.
  void Reduce(int32_t stream, std::vector<LaunchNeed>* needs);
  int64_t Launched(int32_t stream);
  void Completed(int32_t stream) { ++completed_[stream]; }
  int64_t launched(int32_t stream) const { return launched_[stream]; }
  int64_t completed(int32_t stream) const { return completed_[stream]; }

 private:
  // By stream: the number of its launches that are known to be over.
  int64_t* Known(int32_t stream) { return &known_[stream * streams_]; }
  // The clock of `stream` when it was given `launch`.
  const int64_t* KnownAt(int32_t stream, int64_t launch) const {
    return &history_[(stream * queue_ + launch % queue_) * streams_];
  }

  const int streams_, queue_;
  std::vector<int64_t> launched_, completed_;  // by stream
  std::vector<int64_t> known_;                 // by stream, stream
  std::vector<int64_t> history_;               // by stream, launch in the queue, stream
};

}  // namespace oneflow
