// The simulated network of exchanges: it delays each message and piece on its own, so any of them
// may pass any other; the payload of a piece is read late and in parts. Over a link that is cut
// nothing arrives, and nobody is told: the processes find out by their beats, as in programs
// (actor_runtime/network/peer_beats.h). It keeps UcxNetwork's contract
// (actor_runtime/network/ucx_network.h), but for what a real network would assume of memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actor_runtime/exchange/far_communicator.h"
#include "actor_runtime/network/peer_beats.h"
#include "actor_runtime/network/wire.h"
#include "tests/cluster/faults.h"
#include "tests/cluster/host.h"

namespace oneflow::cluster {

class Endpoint;

// Delays, drawn once for a cluster.
struct NetworkDelays {
  JobTime least = 10 * kMicrosecond, most = kMillisecond;
  uint64_t late_once_in = 50;          // messages: takes ten times as long
  JobTime notice = 50 * kMillisecond;  // that a process is gone, over a link that is up
};

// Endpoints by process; that of the newest attempt has the address.
class Network {
 public:
  // A message needs both: `links` are those of the control plane, too, `data_links` are not.
  Network(Simulation& simulation, const Links& links, const Links& data_links, int processes,
          NetworkDelays delays, const Faults& faults)
      : simulation_(simulation),
        links_(links),
        data_links_(data_links),
        delays_(delays),
        faults_(faults),
        endpoints_(processes) {}

  Simulation& simulation() { return simulation_; }
  bool AreUp(int a, int b) const { return links_.AreUp(a, b) && data_links_.AreUp(a, b); }
  const NetworkDelays& delays() const { return delays_; }
  const Faults& faults() const { return faults_; }
  JobTime DrawDelay();
  // Null where there is none yet.
  const std::shared_ptr<Endpoint>& at(int process) const { return endpoints_[process]; }
  void Add(const std::shared_ptr<Endpoint>& endpoint);
  int processes() const { return static_cast<int>(endpoints_.size()); }

 private:
  Simulation& simulation_;
  const Links &links_, &data_links_;
  const NetworkDelays delays_;
  const Faults faults_;
  std::vector<std::shared_ptr<Endpoint>> endpoints_;
};

// The network as one process sees it.
class Endpoint : public std::enable_shared_from_this<Endpoint> {
 public:
  // Called once: why it broke, and which process's link did, or who is silent.
  using OnBroken = std::function<void(int process, const absl::Status& why)>;
  Endpoint(Network& network, Life& life, int process, uint64_t job, uint32_t attempt,
           OnBroken on_broken);

  std::unique_ptr<Communicator> MakeCommunicator(const Group& group, const ExchangeBounds& bounds);
  // The process's member of a group enters with this window for pulls of so many bytes each.
  void SetWindow(uint64_t group, std::span<std::byte> window, int64_t pull_bytes);
  // As UcxNetwork's.
  void Watch(JobTime silence);
  // True if it exchanges anything with that process.
  bool SpeaksTo(int process) const { return spoken_to_[process]; }
  // As UcxNetwork's; all is over when it returns. Safe after the process's death, too.
  void Break(const absl::Status& why);
  void Close() { closing_ = true; }
  int process() const { return process_; }
  uint32_t attempt() const { return attempt_; }
  // The process is gone: its memory is read and written no more, and the others will notice.
  void Disappear();

  bool broken() const { return !broken_.ok(); }
  bool gone() const { return gone_; }
  int64_t foreign() const { return foreign_; }  // messages of other attempts, dropped
  // True if a piece is in transit from or to memory of the process.
  bool TouchesMemory() const;

 private:
  struct Flight;
  // What planted faults need to know of a communicator.
  struct Seen {
    uint64_t first = 0;                                        // exchange of the run
    std::map<std::pair<int, int>, std::deque<int64_t>> pulls;  // packets, by reader and source
    std::map<int, uint64_t> entered;                           // number after the last, by process
    std::span<std::byte> window;
    int64_t pull_bytes = 0;  // of the window
  };
  void Send(int to, const FarAction& action, std::shared_ptr<FarCommunicator> from);
  void LinkFails(int process, const absl::Status& why);
  void Tick();
  void Carry(int to, const WireHeader& header, std::shared_ptr<Flight> flight);
  void Arrive(WireHeader header, std::shared_ptr<Flight> flight);
  void Distort(FarMessage* message, int from_process);
  std::span<std::byte> NextPullsPart(const FarMessage& message, std::span<std::byte> target);
  void Copy(std::shared_ptr<Flight> flight);
  void Refuse(const WireHeader& header, const absl::Status& why);
  bool Reaches(const Endpoint& other) const;

  Network& network_;
  Life& life_;
  const int process_;
  const uint64_t job_;
  const uint32_t attempt_;
  const OnBroken on_broken_;
  bool closing_ = false, gone_ = false;
  absl::Status broken_;
  int64_t foreign_ = 0;
  std::map<uint64_t, std::shared_ptr<FarCommunicator>> communicators_;
  std::map<uint64_t, Seen> seen_;                 // by communicator
  std::vector<std::shared_ptr<Flight>> flights_;  // from here or to here, not over
  std::vector<bool> spoken_to_;                   // by process: a link is there
  PeerBeats beats_;
};

}  // namespace oneflow::cluster
