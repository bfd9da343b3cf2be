// PeerBeats: the state machine by which a process finds out that its link to another one carries
// nothing any more. Peers send each other beats, whatever else they send, and each judges by its
// listening clock (job/listening_clock.h) whether the other one is silent. It has no thread, no
// clock and no socket.
//
//   PeerBeats beats;
//   beats.Watch({1, 3}, silence, now);
//   beats.Heard(3);                               whenever anything of process 3 arrives
//   if (auto silent = beats.Tick(now, send)) ...  at next_tick(), or as soon after it as possible
//
// Guarantees:
//  1. A peer of which something arrives at least once in `silence` of this process's listening is
//     not silent. One of which nothing arrives is, at most a beat after that.
//  2. Tick returns a silent peer once, and none after it.
//  3. Heard is one write; a tick is O(peers), and comes twenty times in `silence`. Neither
//     allocates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "oneflow_core/base/listening_clock.h"

namespace oneflow {

class PeerBeats {
 public:
  struct Silent {
    int process = -1;  // the one that has been silent for longest
    JobTime time = 0;  // how long
    int others = 0;    // as silent, up to two beats
  };

  // Nobody is watched. Requires numbers of peers below `processes`.
  explicit PeerBeats(int processes) : heard_(processes, 0) {}

  // From now on these are expected to be heard, and to expect it.
  void Watch(const std::vector<int>& peers, JobTime silence, JobTime now);
  void Heard(int process) { heard_[process] = 1; }

  // Calls send(process) for each peer to which a beat is due. Does nothing before next_tick().
  std::optional<Silent> Tick(JobTime now, absl::FunctionRef<void(int process)> send);

  bool IsWatching() const { return silence_ > 0; }
  JobTime next_tick() const { return next_tick_; }

 private:
  struct Peer {
    int process = 0;
    JobTime heard = 0;  // by clock_
  };

  std::vector<char> heard_;  // by process: since the last tick
  std::vector<Peer> peers_;
  JobTime silence_ = 0, beat_ = 0;
  JobTime ticked_ = 0, next_tick_ = 0, beat_at_ = 0;
  ListeningClock clock_;
  bool reported_ = false;
};

// UNAVAILABLE, a consequence (cause.h): "it has not heard host d (process 3, rank 3) on the data
// network for 5.2 s".
absl::Status SilenceError(const PeerBeats::Silent& silent, const std::string& name);

}  // namespace oneflow
