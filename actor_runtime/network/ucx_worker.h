// A worker of UCX (https://openucx.readthedocs.io): what it is opened with, and its links to the
// workers of other processes. The network (ucx_network.h) says what is sent over them.
//
// Requires: one thread at a time calls it, and what it calls back runs in that thread.
#pragma once

#include <ucp/api/ucp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/network/ucx_network.h"

namespace oneflow {

// UNAVAILABLE: "what: why".
absl::Status UcxError(const std::string& what, ucs_status_t status);

class UcxWorker {
 public:
  // A link to a process failed.
  using OnLost = std::function<void(int process, ucs_status_t status)>;

  // Messages of this number go to `arrived`, with `arg` first.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Open(const UcxOptions& options,
                                                         unsigned message,
                                                         ucp_am_recv_callback_t arrived, void* arg,
                                                         OnLost on_lost);
  // Closes all links by force.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h worker() const { return worker_; }
  // Readable when there is news, after ucp_worker_arm.
  int fd() const { return fd_; }
  // Where others reach this worker: bytes for Connect.
  const std::string& address() const { return address_; }
  // Opens the link to a process. An error where there is no such process or address.
  absl::Status Connect(int process, const std::string& address);
  // Null: there is no link.
  ucp_ep_h endpoint(int process) const { return peers_[process].endpoint; }
  // By force: all that is in UCX's hands comes back, with an error.
  void CloseEndpoints();

 private:
  struct Peer {
    UcxWorker* worker = nullptr;
    int process = 0;
    ucp_ep_h endpoint = nullptr;
  };

  UcxWorker(const UcxOptions& options, OnLost on_lost);
  absl::Status Start(unsigned message, ucp_am_recv_callback_t arrived, void* arg);

  UcxOptions options_;
  OnLost on_lost_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
  std::string address_;
  std::vector<Peer> peers_;  // by process
};

}  // namespace oneflow
