#include "actor_runtime/network/peer_beats.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/cause.h"

namespace oneflow {

void PeerBeats::Watch(const std::vector<int>& peers, JobTime silence, JobTime now) {
  peers_.clear();
  for (const int process : peers) peers_.push_back({process, clock_.time()});
  silence_ = silence;
  beat_ = BeatsEvery(silence);
  ticked_ = next_tick_ = beat_at_ = now;
}

std::optional<PeerBeats::Silent> PeerBeats::Tick(JobTime now,
                                                 absl::FunctionRef<void(int process)> send) {
  if (!IsWatching() || now < next_tick_) return std::nullopt;
  clock_.Pass(now - ticked_, beat_);
  ticked_ = now;
  next_tick_ = now + beat_ / 2;
  const bool beats = now >= beat_at_;
  if (beats) beat_at_ = now + beat_;
  Silent silent;
  for (Peer& peer : peers_) {
    if (std::exchange(heard_[peer.process], 0) != 0) peer.heard = clock_.time();
    if (const JobTime time = clock_.time() - peer.heard; time > silent.time) {
      silent.process = peer.process;
      silent.time = time;
    }
    if (beats) send(peer.process);
  }
  if (reported_ || silent.time < silence_) return std::nullopt;
  reported_ = true;
  silent.others =
      static_cast<int>(std::count_if(peers_.begin(), peers_.end(), [&](const Peer& peer) {
        return peer.process != silent.process &&
               clock_.time() - peer.heard >= silent.time - 2 * beat_;
      }));
  return silent;
}

absl::Status SilenceError(const PeerBeats::Silent& silent, const std::string& name) {
  const std::string others = silent.others > 0 ? absl::StrCat(" and ", silent.others, " more") : "";
  return MarkConsequence(silent.process,
                         absl::UnavailableError(absl::StrFormat(
                             "it has not heard %s%s on the data network for %.1f s", name, others,
                             static_cast<double>(silent.time) / kJobSecond)));
}

}  // namespace oneflow
