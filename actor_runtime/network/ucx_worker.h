// UcxWorker: the UCX objects of one process, made with the settings that messages of exchanges
// need.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "actor_runtime/network/ucx_network.h"

namespace oneflow {

// UNAVAILABLE: "what: why".
absl::Status UcxError(absl::string_view what, ucs_status_t status);

// Bytes of the segments that UCX has mapped into this process, its own and those of other processes
// on the host.
int64_t SharedSegmentBytes();

struct UcxPayload {
  const void* buffer = nullptr;
  size_t count = 0;
  ucp_datatype_t type = ucp_dt_make_contig(1);
  bool eager = true;  // travels with its header; otherwise it waits until the receiver asks for it
};
// Both return UCS_INPROGRESS if `done` is still to come, with `user`, and must free its request.
// All else is the outcome.
//
// Sends a message; `header` and payload are read until it is done.
ucs_status_t UcxSend(ucp_ep_h endpoint, unsigned id, std::span<const std::byte> header,
                     const UcxPayload& payload, ucp_send_nbx_callback_t done, void* user);
// Asks for a payload that waits at its sender; `data`: that of the message's callback.
ucs_status_t UcxReceive(ucp_worker_h worker, void* data, std::span<std::byte> target,
                        ucp_am_recv_data_nbx_callback_t done, void* user);

struct UcxWorker {
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  int event_fd = -1;          // the worker's, on which it sleeps
  std::string address;        // the worker's
  int64_t private_bytes = 0;  // that became resident in Open

  UcxWorker() = default;
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  ~UcxWorker();
  // Requires that all endpoints of the worker are closed. Callbacks come for all that UCX still
  // owns.
  void Shut();

  // Called once.
  absl::Status Open(const UcxOptions& options);
  // `arrived`: called with `arg` while the worker is driven, for messages of this id.
  absl::Status Listen(unsigned id, ucp_am_recv_callback_t arrived, void* arg) const;
  // `failed`: called while the worker is driven, when the link fails.
  absl::Status Connect(const std::string& peer, const ucp_err_handler_t& failed,
                       ucp_ep_h* endpoint) const;
  // Closes by force: UCX returns all that it owns.
  void Close(ucp_ep_h endpoint) const;
};

}  // namespace oneflow
