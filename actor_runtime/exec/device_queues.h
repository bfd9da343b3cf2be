// DeviceQueues: what a worker has given to the streams of its device in a run and has not yet heard
// the end of, and the events that launches wait for.
//
//   RETURN_IF_ERROR(queues.Begin(s, place, states));          // requires CanFire, !IsFull(s)
//   ... Issue, the kernel ...
//   ASSIGN_OR_RETURN(int64_t stamp, queues.End(s, place, ends_step));
//   ... Announce, with the stamp ...
//   ASSIGN_OR_RETURN(auto over, queues.TakeOver(s));          // Complete the actor at over->place
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
    int32_t place = 0;  // in StreamOrder::actors
    bool ends_step = false;
    LaunchTimes times;  // where streams tell them, and it is over
  };

  // `streams`: of the program's net, all device streams of one rank; they are named here by their
  // place in it. `timed`: they tell times.
  DeviceQueues(const LoadedProgram& program, std::span<const int32_t> streams, int queue,
               bool timed);

  DeviceStream* stream(int s) const { return streams_[s].stream; }
  bool IsFull(int s) const { return InFlight(s) >= queue_; }
  bool IsEmpty() const;
  int64_t InFlight(int s) const { return waits_.launched(s) - waits_.completed(s); }
  // The oldest launch that is not over. Requires one.
  const Launched& Oldest(int s) const { return At(s, waits_.completed(s)); }

  // Begins a launch: lets the stream wait for the events that the next firing of an actor must come
  // after.
  absl::Status Begin(int s, int32_t place, const ActorStates& states);
  // Ends a launch: its stamp, for those who are told.
  absl::StatusOr<int64_t> End(int s, int32_t place, bool ends_step);
  // The oldest launch, if it is over.
  absl::StatusOr<std::optional<Launched>> TakeOver(int s);

 private:
  const Launched& At(int s, int64_t launch) const {
    return launches_[s * queue_ + launch % queue_];
  }

  struct Stream {
    const ActorTable* table = nullptr;
    DeviceStream* stream = nullptr;
    std::vector<int32_t> stream_of_peer;  // by peer of the table, among ours; -1: of the host
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
