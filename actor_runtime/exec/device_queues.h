// DeviceQueues: the launches of a run that a worker has given to the streams of its device and that
// are not yet over, and the events that launches wait for.
//
//   RETURN_IF_ERROR(queues.Begin(s, index, states));          // requires CanFire, !IsFull(s)
//   ... Issue, the kernel ...
//   ASSIGN_OR_RETURN(int64_t stamp, queues.End(s, index, ends_step));
//   ... Announce, with the stamp ...
//   ASSIGN_OR_RETURN(auto over, queues.TakeOver(s));          // Complete the actor at over->index
//
// It fires nothing and decides nothing. Nothing is allocated after it is made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/actor/launch_waits.h"
#include "actor_runtime/exec/loaded_plan.h"

namespace oneflow {

class DeviceQueues {
 public:
  struct Launched {
    int32_t index = 0;  // in StreamOrder::actors
    bool ends_step = false;
    LaunchTimes times;  // of a timed stream, once the launch is over
  };

  // `streams`: all device streams of one rank in the program's net; `s` below is an index into it.
  // `timed`: the streams have times.
  DeviceQueues(const LoadedProgram& program, std::span<const int32_t> streams, int queue,
               bool timed);

  DeviceStream* stream(int s) const { return streams_[s].stream; }
  bool IsFull(int s) const { return InFlight(s) >= queue_; }
  bool IsEmpty() const;
  int64_t InFlight(int s) const { return waits_.launched(s) - waits_.completed(s); }
  // The oldest launch that is not over. Requires one.
  const Launched& Oldest(int s) const { return At(s, waits_.completed(s)); }

  // Begins a launch: makes the stream wait for the events that the next firing of an actor must
  // come after.
  absl::Status Begin(int s, int32_t index, const ActorStates& states);
  // Ends a launch. Returns its stamp, for the peers that are notified.
  absl::StatusOr<int64_t> End(int s, int32_t index, bool ends_step);
  // The oldest launch, if it is over.
  absl::StatusOr<std::optional<Launched>> TakeOver(int s);

 private:
  const Launched& At(int s, int64_t launch) const {
    return launches_[s * queue_ + launch % queue_];
  }

  struct Stream {
    const ActorTable* table = nullptr;
    DeviceStream* stream = nullptr;
    std::vector<int32_t>
        stream_of_peer;  // index in `streams` by peer of the table; -1: a stream of the host
  };
  const int queue_;
  const bool timed_;
  std::vector<Stream> streams_;
  std::vector<Launched> launches_;  // by stream, launch in the queue
  LaunchWaits waits_;
  std::vector<EventNeed> tokens_;
  std::vector<LaunchNeed> needs_;
};

}  // namespace oneflow
