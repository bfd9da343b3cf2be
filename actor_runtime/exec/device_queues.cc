#include "actor_runtime/exec/device_queues.h"

#include <algorithm>

#include "oneflow_core/base/status.h"

namespace oneflow {

DeviceQueues::DeviceQueues(const LoadedProgram& program, std::span<const int32_t> streams,
                           int queue, bool timed)
    : queue_(queue),
      timed_(timed),
      launches_(streams.size() * queue),
      waits_(static_cast<int>(streams.size()), queue) {
  const ActorNet& net = program.net;
  size_t most_peers = 0;
  for (const int32_t s : streams) {
    const StreamOrder& order = net.streams[s];
    Stream& stream = streams_.emplace_back();
    stream.table = &order.table;
    stream.stream = program.device_streams[s];
    for (const ActorPeer& far_end : order.table.far_ends) {
      const int32_t of_peer = net.stream_of[net.Find(static_cast<int>(order.rank), far_end.actor)];
      const auto at = std::find(streams.begin(), streams.end(), of_peer);
      stream.stream_of_peer.push_back(
          at == streams.end() ? -1 : static_cast<int32_t>(at - streams.begin()));
    }
    for (const ActorTable::Actor& actor : order.table.actors) {
      most_peers = std::max<size_t>(most_peers, actor.end_peer - actor.first_peer);
    }
  }
  tokens_.reserve(most_peers);
  needs_.reserve(most_peers);
}

bool DeviceQueues::IsEmpty() const {
  for (int s = 0; s < std::ssize(streams_); ++s) {
    if (InFlight(s) > 0) return false;
  }
  return true;
}

absl::Status DeviceQueues::Begin(int s, int32_t index, const ActorStates& states) {
  const Stream& stream = streams_[s];
  tokens_.clear();
  needs_.clear();
  AddNeeds(*stream.table, states, index, &tokens_);
  for (const EventNeed& token : tokens_) {
    needs_.push_back({stream.stream_of_peer[token.peer], token.stamp});
  }
  waits_.Reduce(s, &needs_);
  for (const LaunchNeed& need : needs_) {
    RETURN_IF_ERROR(stream.stream->WaitFor(*streams_[need.stream].stream, need.launch));
  }
  return timed_ ? stream.stream->Begin(waits_.launched(s)) : absl::OkStatus();
}

absl::StatusOr<int64_t> DeviceQueues::End(int s, int32_t index, bool ends_step) {
  const int64_t launch = waits_.launched(s);
  RETURN_IF_ERROR(streams_[s].stream->Record(launch));
  launches_[s * queue_ + launch % queue_] = {index, ends_step, {}};
  return waits_.Launched(s);
}

absl::StatusOr<std::optional<DeviceQueues::Launched>> DeviceQueues::TakeOver(int s) {
  if (InFlight(s) == 0) return std::optional<Launched>();
  ASSIGN_OR_RETURN(const bool over, streams_[s].stream->IsOver(waits_.completed(s)));
  if (!over) return std::optional<Launched>();
  Launched launched = Oldest(s);
  if (timed_) {
    ASSIGN_OR_RETURN(launched.times, streams_[s].stream->ReadTimes(waits_.completed(s)));
  }
  waits_.Completed(s);
  return std::optional<Launched>(launched);
}

}  // namespace oneflow
