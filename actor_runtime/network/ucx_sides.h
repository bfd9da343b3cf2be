// UcxSides: the two workers of UCX that a process has, and its links to those of others.
//
// Pieces leave by one worker and arrive at the other one of their receiver, so each connection
// carries pieces in one direction. What asks for more of them goes in the other direction, and
// waits behind none. On one connection for all, each direction of a link of 500 Mbit/s gets half of
// it (docs/performance.md).
//
// Requires: one thread at a time calls it, and what it calls back runs in that thread.
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
  // kIn: where pieces arrive, and from where they are asked for. kOut: from where they leave.
  enum Side { kIn, kOut };
  // The link to a process failed.
  using OnLost = std::function<void(int process, ucs_status_t status)>;

  UcxSides() = default;
  UcxSides(const UcxSides&) = delete;
  UcxSides& operator=(const UcxSides&) = delete;
  // Callbacks may come, as of Shut.
  ~UcxSides() { Shut(); }

  // Once. `arrived`: by Side, called with `arg` for messages of this id.
  absl::Status Open(const UcxOptions& options, unsigned id,
                    const std::array<ucp_am_recv_callback_t, 2>& arrived, void* arg,
                    OnLost on_lost);
  // Bytes for Connect elsewhere.
  std::string Address() const;
  absl::Status Connect(int process, const std::string& address);
  // By force: all that is in UCX's hands comes back, with an error.
  void CloseEndpoints();
  // CloseEndpoints, and the end of the workers. Callbacks come for what they still have.
  void Shut();

  // Whether anything was done.
  bool Progress();
  // Whether the thread may sleep until one of `event_fd` is readable.
  bool Arm();
  int event_fd(Side side) const { return workers_[side].event_fd; }
  ucp_worker_h worker(Side side) const { return workers_[side].worker; }
  // From our side to the other one of that process; null: there is no link.
  ucp_ep_h endpoint(int process, Side side) const { return peers_[process].endpoints[side]; }
  // That became resident in Open.
  int64_t private_bytes() const;

 private:
  struct Peer {
    UcxSides* sides = nullptr;
    int process = 0;
    std::array<ucp_ep_h, 2> endpoints = {};  // by our Side
  };

  int self_ = 0;
  OnLost on_lost_;
  std::array<UcxWorker, 2> workers_;  // by Side
  std::vector<Peer> peers_;           // by process
};

}  // namespace oneflow
