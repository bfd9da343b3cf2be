#include "actor_runtime/network/ucx_sides.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using Side = UcxSides::Side;
constexpr Side kSides[] = {UcxSides::kIn, UcxSides::kOut};

// The addresses of both sides, by Side; nothing if the text does not parse.
std::optional<std::array<std::string, 2>> SplitAddress(const std::string& both) {
  uint32_t bytes = 0;
  if (both.size() < sizeof(bytes)) return std::nullopt;
  std::memcpy(&bytes, both.data(), sizeof(bytes));
  if (both.size() - sizeof(bytes) < bytes) return std::nullopt;
  return {{both.substr(sizeof(bytes), bytes), both.substr(sizeof(bytes) + bytes)}};
}

}  // namespace

absl::Status UcxSides::LinkError(int process, ucs_status_t status) const {
  return MarkConsequence(process,
                         UcxError(absl::StrCat("the link to ", name(process), " failed"), status));
}

absl::Status UcxSides::Open(const UcxOptions& options, unsigned id,
                            const std::array<ucp_am_recv_callback_t, 2>& arrived, void* arg,
                            OnLost on_lost) {
  self_ = options.process;
  on_lost_ = std::move(on_lost);
  peers_.resize(options.processes);
  for (const Side side : kSides) {
    RETURN_IF_ERROR(workers_[side].Open(options));
    RETURN_IF_ERROR(workers_[side].Listen(id, arrived[side], arg));
  }
  return absl::OkStatus();
}

std::string UcxSides::Address() const {
  const auto bytes = static_cast<uint32_t>(workers_[kIn].address.size());
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes)) + workers_[kIn].address +
         workers_[kOut].address;
}

absl::Status UcxSides::Connect(int process, const std::string& address, const std::string& name) {
  if (process < 0 || process >= std::ssize(peers_) || process == self_) {
    return absl::InvalidArgumentError(absl::StrCat("there is no other process ", process));
  }
  const std::string link = absl::StrCat("no link to process ", process);
  const auto addresses = SplitAddress(address);
  if (!addresses) return absl::InvalidArgumentError(link + ": it has no address");
  Peer& peer = peers_[process] = {
      this, process, name.empty() ? absl::StrCat("process ", process) : name, {}};
  const auto failed = [](void* arg, ucp_ep_h, ucs_status_t status) {
    const Peer& lost = *static_cast<Peer*>(arg);
    lost.sides->on_lost_(lost.process, status);
  };
  for (const Side side : kSides) {
    const Side there = side == kIn ? kOut : kIn;
    RETURN_IF_ERROR(Annotate(
        workers_[side].Connect((*addresses)[there], {failed, &peer}, &peer.endpoints[side]), link));
  }
  return absl::OkStatus();
}

std::vector<int> UcxSides::Connected() const {
  std::vector<int> connected;
  for (const Peer& peer : peers_) {
    if (!peer.name.empty()) connected.push_back(peer.process);
  }
  return connected;
}

void UcxSides::CloseEndpoints() {
  for (Peer& peer : peers_) {
    for (const Side side : kSides) {
      if (peer.endpoints[side] == nullptr) continue;
      workers_[side].Close(std::exchange(peer.endpoints[side], nullptr));
    }
  }
}

void UcxSides::Shut() {
  CloseEndpoints();
  for (UcxWorker& worker : workers_) worker.Shut();
}

bool UcxSides::Progress() {
  bool worked = false;
  for (UcxWorker& worker : workers_) worked |= ucp_worker_progress(worker.worker) > 0;
  return worked;
}

bool UcxSides::Arm() {
  bool armed = true;
  for (UcxWorker& worker : workers_) armed = armed && ucp_worker_arm(worker.worker) == UCS_OK;
  return armed;
}

int64_t UcxSides::private_bytes() const {
  return workers_[kIn].private_bytes + workers_[kOut].private_bytes;
}

}  // namespace oneflow
