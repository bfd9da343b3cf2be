// UcxNetwork: carries the messages of far communicators (exchange/far_communicator.h) between
// processes, over UCX active messages: shared memory on one host, TCP or InfiniBand between hosts.
//
//   ASSIGN_OR_RETURN(auto network, UcxNetwork::Open({.process = 0, .processes = 2}, on_broken));
//   ... exchange network->address() with the others ...
//   RETURN_IF_ERROR(network->Connect(1, their_address));
//   network->Start();
//   std::unique_ptr<Communicator> communicator = network->MakeCommunicator(group, bounds);
//   ... once all processes have made theirs: run ...
//
// One separate thread drives all of it, so no worker ever waits for the network, and the network
// never waits for a worker. Payloads go straight from the entered register to their destination.
//
// Guarantees:
//  1. A message is delivered once, or the network breaks, or on_broken is called; no order is
//     promised.
//  2. A message is checked (job, attempt, and all else by the communicator) before it changes any
//     state. Refused bytes are counted and break nothing, unless they come from a process of this
//     attempt: that is a bug, and breaks the network.
//  3. Once broken, all communicators are aborted and release all memory, and on_broken has been
//     called, once.
//  4. Once its communicators are made and Watch was called, it allocates nothing.
//  5. From Watch on, a link that carries nothing any more, whatever is on its way there, is
//  reported
//     by on_broken: after `silence` and at most a beat more (peer_beats.h).
//
// It does not find the other processes, encrypt or authenticate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/exchange/far_exchange.h"
#include "oneflow_core/base/listening_clock.h"

namespace oneflow {

struct UcxOptions {
  int process = 0, processes = 1;
  uint64_t job = 0;  // messages of another job or attempt are dropped
  uint32_t attempt = 0;
  std::string interface;   // the network device that TCP listens on ("lo", "eth0"); empty: all
  std::string transports;  // UCX's names ("tcp,self"); empty: the environment's UCX_TLS
  bool spin = true;        // looks for messages for some microseconds before it sleeps
};

// Values of UcxOptions::transports. System V's shared memory leaves nothing behind when a process
// is killed, unlike POSIX's, which has a name in /dev/shm while it is made. With kSharedMemory no
// socket listens; kNoSharedMemory is for a host whose limits leave no segments.
inline constexpr char kSharedMemory[] = "sysv,self", kAllTransports[] = "^posix",
                      kNoSharedMemory[] = "^posix,sysv";

// Totals since Open, without beats.
struct NetworkTotals {
  int64_t messages_sent = 0, messages_received = 0;
  int64_t bytes_sent = 0, bytes_received = 0;  // of pieces
  int64_t refused = 0;
  int64_t pending = 0;  // now: messages that are not sent, pieces that are not here
};

// Host memory that the network uses.
struct TransportMemory {
  int64_t private_bytes = 0;  // resident after Open, and what is kept for messages at once, at most
  int64_t shared_bytes = 0;   // segments that it shares with processes of this host
};

class UcxNetwork {
 public:
  // Called once: with the process whose link failed, or that is silent, or -1, and the reason. The
  // network's thread calls it; it must not block, and must not end the network. A network with a
  // silent peer is not broken yet, because others would take the links that it closes for the
  // cause: who hears of it is to end the attempt, and break it.
  using OnBroken = std::function<void(int process, const absl::Status& why)>;

  static absl::StatusOr<std::unique_ptr<UcxNetwork>> Open(const UcxOptions& options,
                                                          OnBroken on_broken);
  // Requires that no communicator of the network is in use.
  ~UcxNetwork();

  // The bytes for Connect in other processes.
  std::string address() const;
  // Called before Start, for each process that shares a group with this one. FAILED_PRECONDITION if
  // the network devices of the two do not reach each other. `name`: for sentences; empty: its
  // number.
  absl::Status Connect(int process, const std::string& address, const std::string& name = "");

  // Starts the network's thread, which drives it from now on.
  void Start();
  // One round of that thread's work but for beats, for a network that is not started. True if there
  // was work.
  bool Progress();
  // From now on all connected processes must be heard. Requires Start, here and there; called once,
  // by all of them.
  void Watch(JobTime silence);

  // Requires that all processes of the group are connected. No process may enter an exchange before
  // all have made their communicators. A communicator must not outlive the network, nor be used
  // after a later one with the same number is made.
  std::unique_ptr<Communicator> MakeCommunicator(const Group& group, const ExchangeBounds& bounds);

  // Breaks the network. Any thread; returns at once.
  void Break(const absl::Status& why);
  // Breaks the network, and returns once it accesses no memory of communicators. Any thread but its
  // own; requires Start.
  void LetGo(const absl::Status& why);
  // From now on a failed link is not reported, because the others have said that they leave.
  // on_broken is not called any more once this has returned. Must not be called from on_broken.
  void Close();

  NetworkTotals totals() const;
  TransportMemory memory() const;

 private:
  struct Impl;
  explicit UcxNetwork(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
