// UcxSides: the two UCX workers of a process, and its links to those of other processes.
//
// Pieces leave by one worker and arrive at the other worker of their receiver, so each connection
// carries pieces in one direction. Requests for more pieces go in the other direction, and wait
// behind no piece. On one connection for both, each direction of a link of 500 Mbit/s gets half of
// it (docs/performance.md).
//
// Requires that one thread at a time calls it; callbacks run in that thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "actor_runtime/network/ucx_network.h"
#include "actor_runtime/network/ucx_worker.h"

namespace oneflow {

class UcxSides {
 public:
  // kIn: pieces arrive there, and requests for them leave there. kOut: pieces leave there.
  enum Side { kIn, kOut };
  // Called when the link to a process fails.
  using OnLost = std::function<void(int process, ucs_status_t status)>;

  UcxSides() = default;
  UcxSides(const UcxSides&) = delete;
  UcxSides& operator=(const UcxSides&) = delete;
  // Callbacks may come, as in Shut.
  ~UcxSides() { Shut(); }

  // Called once. `arrived`: by Side, called with `arg` for messages of this id.
  absl::Status Open(const UcxOptions& options, unsigned id,
                    const std::array<ucp_am_recv_callback_t, 2>& arrived, void* arg,
                    OnLost on_lost);
  // The bytes for Connect in other processes.
  std::string Address() const;
  // `name`: for sentences; empty: its number.
  absl::Status Connect(int process, const std::string& address, const std::string& name);
  std::vector<int> Connected() const;
  const std::string& name(int process) const { return peers_[process].name; }
  // That the link to a process has failed: a consequence (cause.h).
  absl::Status LinkError(int process, ucs_status_t status) const;
  // Closes by force: UCX returns all that it owns, with an error.
  void CloseEndpoints();
  // CloseEndpoints, and the end of the workers. Callbacks come for all that UCX still owns.
  void Shut();

  // Returns true if anything was done.
  bool Progress();
  // Returns true if the thread may sleep until one of `event_fd` is readable.
  bool Arm();
  int event_fd(Side side) const { return workers_[side].event_fd; }
  ucp_worker_h worker(Side side) const { return workers_[side].worker; }
  // The link from our side to the other side of that process; null: there is no link.
  ucp_ep_h endpoint(int process, Side side) const { return peers_[process].endpoints[side]; }
  // Private memory that became resident in Open.
  int64_t private_bytes() const;

 private:
  struct Peer {
    UcxSides* sides = nullptr;
    int process = 0;
    std::string name;                        // empty: not connected
    std::array<ucp_ep_h, 2> endpoints = {};  // by our Side
  };

  int self_ = 0;
  OnLost on_lost_;
  std::array<UcxWorker, 2> workers_;  // by Side
  std::vector<Peer> peers_;           // by process
};

}  // namespace oneflow
