#include "actor_runtime/network/ucx_network.h"

#include <ucp/api/ucp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/spin.h"
#include "actor_runtime/network/message_pool.h"
#include "actor_runtime/network/peer_beats.h"
#include "actor_runtime/network/shared_communicator.h"
#include "actor_runtime/network/sleeper.h"
#include "actor_runtime/network/ucx_sides.h"
#include "actor_runtime/network/wire.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// UCX cannot sleep while a peer has no room for a message. The thread first yields its core this
// many times, because the peer may need it; then it naps, because spinning would take a core from
// kernels.
constexpr int kYields = 8;
constexpr JobTime kNap = kJobSecond / 20'000;

JobTime Now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// Invariants:
//   1. Except for the fields under the mutex, and the totals, the driving thread owns all once it
//      runs.
//   2. A Sending or Arrival is in its pool or owned by UCX: then its callback comes, once, with an
//      error if the link is closed by force. Pools live as long as the network.
//   3. Sent follows each piece that was emitted, Arrived each that was given memory: a communicator
//      releases memory only when it has counted them all.
struct UcxNetwork::Impl {
  using enum UcxSides::Side;
  using Side = UcxSides::Side;
  // A message that UCX owns: the data that must live until it is sent.
  struct Sending {
    Impl* network = nullptr;
    MessagePool<Sending>* pool = nullptr;
    WireHeader header;
    Payload payload;
    std::shared_ptr<FarCommunicator> from;  // null: no piece
    int to_process = 0;
  };
  // A piece on its way into memory of ours.
  struct Arrival {
    Impl* network = nullptr;
    MessagePool<Arrival>* pool = nullptr;
    FarMessage message;
    std::shared_ptr<FarCommunicator> to;
  };
  // The messages of all communicators of one number.
  struct Pools {
    MessagePool<Sending> words, pieces;
    MessagePool<Arrival> arrivals;
  };
  struct Home {
    std::shared_ptr<FarCommunicator> communicator;
    Pools* pools = nullptr;
  };
  // A message that a worker, or the network itself, wants sent.
  struct Outgoing {
    int to_process = 0;
    FarAction action = {};
    Home from;
  };

  UcxOptions options;
  OnBroken on_broken;  // under mutex; null: closed
  Sleeper sleeper;
  std::vector<Outgoing> taken;  // from `outgoing`, by the driving thread
  std::optional<PeerBeats> beats;
  MessagePool<Sending> beat_pool;  // one for each peer: the next beat waits for the last one
  std::vector<char> beat_pending;  // by process
  int broken_process = -1;         // that UCX has reported, and we have not yet
  ucs_status_t broken_status = UCS_OK;
  bool ended = false;  // all that is broken
  int yields = 0;      // since something was done

  std::mutex mutex;
  std::vector<Outgoing> outgoing;                    // under mutex
  int64_t pool_bytes = 0;                            // under mutex
  size_t most_outgoing = 0;                          // under mutex
  std::map<uint64_t, Home> communicators;            // under mutex
  std::map<uint64_t, std::unique_ptr<Pools>> pools;  // under mutex
  absl::Status broken;                               // under mutex
  std::atomic<JobTime> silence{0};                   // of Watch
  std::atomic<bool> has_outgoing{false}, is_broken{false};
  std::atomic<bool> let_go{false};  // broken, and nobody's memory is touched
  std::atomic<int64_t> messages_sent{0}, messages_received{0}, bytes_sent{0}, bytes_received{0},
      refused{0}, pending{0};
  std::jthread thread;
  UcxSides ucx;  // the last member: its end hands back receives, whose callbacks use the others

  ~Impl() {
    Close();
    if (thread.joinable()) {
      thread.request_stop();
      sleeper.Wake();
      thread.join();
    }
    // UCX returns all that it still owns now, while the owners are alive.
    ucx.Shut();
  }

  absl::Status Open() {
    beat_pending.resize(options.processes);
    beats.emplace(options.processes);
    const auto lost = [this](int process, ucs_status_t status) {
      if (broken_process >= 0) return;
      broken_process = process;
      broken_status = status;
    };
    RETURN_IF_ERROR(ucx.Open(options, kMessageId, {&ArrivedAt<kIn>, &ArrivedAt<kOut>}, this, lost));
    return sleeper.Open();
  }

  template <Side kAt>
  static ucs_status_t ArrivedAt(void* network, const void* header, size_t header_bytes, void* data,
                                size_t length, const ucp_am_recv_param_t* param) {
    return static_cast<Impl*>(network)->Arrived(
        kAt, {static_cast<const std::byte*>(header), header_bytes}, data, length, *param);
  }

  // Any thread.
  void Send(Outgoing message) {
    pending.fetch_add(1);
    {
      const std::lock_guard lock(mutex);
      outgoing.push_back(std::move(message));
      has_outgoing.store(true);
    }
    sleeper.Wake();
  }

  void Break(const absl::Status& why) {
    {
      const std::lock_guard lock(mutex);
      if (!broken.ok()) return;
      broken = why;
      is_broken.store(true);
    }
    sleeper.Wake();
  }

  Home Find(uint64_t number) {
    const std::lock_guard lock(mutex);
    const auto found = communicators.find(number);
    return found == communicators.end() ? Home() : found->second;
  }

  // Under mutex. The driving thread has the pools of an earlier communicator with this number.
  Pools* PoolsFor(const Group& group, const PacketShape& packets) {
    std::unique_ptr<Pools>& made = pools[group.id];
    if (made != nullptr) return made.get();
    made = std::make_unique<Pools>();
    const MessageCounts most = MostMessages(group);
    made->words.Reserve(most.words, [](Sending*) {});
    made->pieces.Reserve(most.pieces, [&](Sending* s) { s->payload.Reserve(packets); });
    made->arrivals.Reserve(most.pieces, [](Arrival*) {});
    most_outgoing += most.words + most.pieces;
    outgoing.reserve(most_outgoing);
    pool_bytes += (most.words + most.pieces) * (sizeof(Sending) + 2 * sizeof(Outgoing)) +
                  most.pieces * (sizeof(Arrival) + Payload::ReservedBytes(packets));
    return made.get();
  }

  void Close() {
    const std::lock_guard lock(mutex);
    on_broken = nullptr;
  }

  // A message of this attempt that is refused is a bug, in this process or the sender.
  void Refuse(const WireHeader& header, const absl::Status& why) {
    refused.fetch_add(1);
    Break(absl::InternalError(
        absl::StrCat("a message of process ", header.from_process, ": ", why.message())));
  }

  ucs_status_t Arrived(Side at, std::span<const std::byte> bytes, void* data, size_t length,
                       const ucp_am_recv_param_t& param) {
    const std::optional<WireHeader> header =
        WireHeaderFrom(bytes, options.job, options.attempt, options.processes);
    if (!header) {
      refused.fetch_add(1);
      return UCS_OK;
    }
    beats->Heard(header->from_process);
    const absl::StatusOr<FarMessage> message = MessageIn(*header, length);
    if (message.ok() && message->kind == FarMessage::kBeat) return UCS_OK;
    messages_received.fetch_add(1);
    const Home home = message.ok() ? Find(message->communicator) : Home();
    const std::shared_ptr<FarCommunicator>& to = home.communicator;
    if (to == nullptr) {
      Refuse(*header, message.ok() ? absl::NotFoundError(absl::StrCat("there is no communicator ",
                                                                      message->communicator))
                                   : message.status());
      return UCS_OK;
    }
    if (message->kind != FarMessage::kPiece) {
      const absl::Status status = to->Receive(*message);
      if (!status.ok()) Refuse(*header, status);
      return UCS_OK;
    }
    const absl::StatusOr<std::span<std::byte>> target = to->Arriving(*message);
    if (!target.ok()) {
      Refuse(*header, target.status());
    } else if (!target->empty()) {
      bytes_received.fetch_add(static_cast<int64_t>(length));
      return Receive(at, *message, home, *target, data, param);
    }
    return UCS_OK;
  }

  ucs_status_t Receive(Side at, const FarMessage& message, const Home& home,
                       std::span<std::byte> target, void* data, const ucp_am_recv_param_t& param) {
    if ((param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
      std::memcpy(target.data(), data, target.size());
      home.communicator->Arrived(message);
      return UCS_OK;
    }
    Arrival* arrival = home.pools->arrivals.Take();
    pending.fetch_add(1);
    arrival->network = this;
    arrival->pool = &home.pools->arrivals;
    arrival->message = message;
    arrival->to = home.communicator;
    const auto done = [](void* request, ucs_status_t status, size_t, void* user) {
      auto* of = static_cast<Arrival*>(user);
      ucp_request_free(request);
      of->network->PayloadArrived(of, status);
    };
    const ucs_status_t status = UcxReceive(ucx.worker(at), data, target, done, arrival);
    if (status != UCS_INPROGRESS) PayloadArrived(arrival, status);
    return UCS_INPROGRESS;
  }

  void PayloadArrived(Arrival* arrival, ucs_status_t status) {
    // A piece of which only a part arrived must not count: the communicator ends before it hears of
    // it.
    if (status != UCS_OK) {
      const absl::Status why = MarkConsequence(-1, UcxError("a piece did not arrive", status));
      arrival->to->Abort(why);
      Break(why);
    }
    arrival->to->Arrived(arrival->message);
    arrival->to.reset();
    arrival->pool->Give(arrival);
    pending.fetch_sub(1);
  }

  void Post(Outgoing& message) {
    const FarMessage& of = message.action.message;
    const bool is_piece = of.kind == FarMessage::kPiece;
    const ucp_ep_h endpoint = ucx.endpoint(message.to_process, is_piece ? kOut : kIn);
    if (endpoint == nullptr || is_broken.load()) {
      if (is_piece) message.from.communicator->Sent();
      pending.fetch_sub(1);
      return;
    }
    MessagePool<Sending>& pool = is_piece ? message.from.pools->pieces : message.from.pools->words;
    Sending* sending = TakeSending(&pool, message.to_process, of);
    if (is_piece) sending->from = std::move(message.from.communicator);
    messages_sent.fetch_add(1);
    UcxPayload payload;
    if (is_piece && of.length > 0) {
      bytes_sent.fetch_add(of.length);
      sending->payload.Gather(message.action);
      payload.eager = of.length <= kEagerBytes;
      payload.buffer = sending->payload.ForUcx(&payload.count, &payload.type);
    }
    Give(endpoint, sending, payload);
  }

  Sending* TakeSending(MessagePool<Sending>* pool, int to_process, const FarMessage& message) {
    Sending* sending = pool->Take();
    sending->network = this;
    sending->pool = pool;
    sending->header = {options.job, options.attempt, options.process, message};
    sending->to_process = to_process;
    return sending;
  }

  void Give(ucp_ep_h endpoint, Sending* sending, const UcxPayload& payload) {
    const auto done = [](void* request, ucs_status_t status, void* user) {
      auto* of = static_cast<Sending*>(user);
      ucp_request_free(request);
      of->network->Sent(of, status);
    };
    const std::span header(reinterpret_cast<const std::byte*>(&sending->header),
                           sizeof(sending->header));
    const ucs_status_t status = UcxSend(endpoint, kMessageId, header, payload, done, sending);
    if (status != UCS_INPROGRESS) Sent(sending, status);
  }

  void Sent(Sending* sending, ucs_status_t status) {
    if (status != UCS_OK && broken_process < 0) {
      broken_process = sending->to_process;
      broken_status = status;
    }
    if (sending->from != nullptr) {
      if (status != UCS_OK) {
        sending->from->Abort(
            MarkConsequence(sending->to_process, UcxError("a piece was not sent", status)));
      }
      sending->from->Sent();
      sending->from.reset();
    }
    if (sending->pool == &beat_pool) {
      beat_pending[sending->to_process] = 0;
    } else {
      pending.fetch_sub(1);
    }
    sending->pool->Give(sending);
  }

  // Beats leave where requests for pieces do: no piece is before them.
  void SendBeat(int process) {
    const ucp_ep_h endpoint = ucx.endpoint(process, kIn);
    if (endpoint == nullptr || std::exchange(beat_pending[process], 1) != 0) return;
    Give(endpoint, TakeSending(&beat_pool, process, {.kind = FarMessage::kBeat}), {});
  }

  bool MustWatch() const { return silence.load() > 0 && !beats->IsWatching(); }

  void Beat(JobTime now) {
    if (MustWatch()) {
      const std::vector<int> peers = ucx.Connected();
      beat_pool.Reserve(peers.size(), [](Sending*) {});
      beats->Watch(peers, silence.load(), now);
    }
    const auto silent = beats->Tick(now, [this](int process) { SendBeat(process); });
    if (silent) Report(silent->process, SilenceError(*silent, ucx.name(silent->process)));
  }

  // The first reason counts.
  void Report(int process, const absl::Status& why) {
    const std::lock_guard lock(mutex);
    if (const OnBroken report = std::exchange(on_broken, nullptr)) report(process, why);
  }

  bool Progress() {
    if (ended) return false;
    bool worked = false;
    if (has_outgoing.load()) {
      {
        const std::lock_guard lock(mutex);
        taken.reserve(most_outgoing);
        std::swap(taken, outgoing);
        has_outgoing.store(false);
      }
      worked = !taken.empty();
      for (Outgoing& message : taken) Post(message);
      taken.clear();
    }
    worked |= ucx.Progress();
    if (broken_process >= 0) Break(ucx.LinkError(broken_process, broken_status));
    if (is_broken.load()) EndAll();
    return worked;
  }

  // No message is sent or received any more, and no memory of communicators is accessed.
  void EndAll() {
    ended = true;
    std::vector<std::shared_ptr<FarCommunicator>> all;
    std::unique_lock lock(mutex);
    const absl::Status why = broken;
    for (const auto& [number, home] : communicators) all.push_back(home.communicator);
    lock.unlock();
    for (const auto& communicator : all) communicator->Abort(why);
    ucx.CloseEndpoints();
    // Messages that were emitted meanwhile.
    lock.lock();
    std::vector<Outgoing> left = std::exchange(outgoing, {});
    lock.unlock();
    for (Outgoing& message : left) Post(message);
    let_go = true;
    let_go.notify_all();
    Report(broken_process, why);
  }

  void Drive(const std::stop_token& stop) {
    JobTime idle_since = Now();
    const JobTime spin = options.spin ? std::chrono::nanoseconds(kSpin).count() : 0;
    while (!stop.stop_requested()) {
      const bool worked = Progress();
      const JobTime now = Now();
      if (!ended) Beat(now);
      if (worked) {
        yields = 0;
        idle_since = now;
      } else if (now - idle_since < spin) {
        Relax();
      } else {
        sleeper.Sleep([&] { return PlanSleep(stop, now); });
      }
    }
  }

  std::optional<Sleeper::Plan> PlanSleep(const std::stop_token& stop, JobTime now) {
    const bool armed = !ended && ucx.Arm();
    if (stop.stop_requested()) return std::nullopt;
    if (ended) return Sleeper::Plan();
    if (has_outgoing.load() || is_broken.load() || MustWatch()) return std::nullopt;
    if (!armed && ++yields <= kYields) return Sleeper::Plan{.yield = true};
    if (!armed) return Sleeper::Plan{.at_most = kNap};
    Sleeper::Plan plan{.fds = {ucx.event_fd(kIn), ucx.event_fd(kOut)}};
    if (beats->IsWatching()) plan.at_most = std::max<JobTime>(beats->next_tick() - now, 0);
    return plan;
  }
};

UcxNetwork::UcxNetwork(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
UcxNetwork::~UcxNetwork() = default;

absl::StatusOr<std::unique_ptr<UcxNetwork>> UcxNetwork::Open(const UcxOptions& options,
                                                             OnBroken on_broken) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->on_broken = std::move(on_broken);
  RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<UcxNetwork>(new UcxNetwork(std::move(impl)));
}

absl::Status UcxNetwork::Connect(int process, const std::string& address, const std::string& name) {
  return impl_->ucx.Connect(process, address, name);
}

void UcxNetwork::Start() {
  impl_->thread =
      std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->Drive(stop); });
}

std::unique_ptr<Communicator> UcxNetwork::MakeCommunicator(const Group& group,
                                                           const ExchangeBounds& bounds) {
  // The communicator's own pointer, for Sent.
  struct Route {
    std::weak_ptr<FarCommunicator> of;
    Impl::Pools* pools = nullptr;
  };
  auto route = std::make_shared<Route>();
  auto made = std::make_shared<FarCommunicator>(
      group, bounds, [impl = impl_.get(), group, route](const FarAction& a) {
        impl->Send({group.FindProcess(a.message.to), a, {route->of.lock(), route->pools}});
      });
  route->of = made;
  absl::Status broken;
  {
    const std::lock_guard lock(impl_->mutex);
    route->pools = impl_->PoolsFor(group, bounds.packets);
    impl_->communicators[group.id] = {made, route->pools};
    broken = impl_->broken;
  }
  if (!broken.ok()) made->Abort(broken);
  return std::make_unique<SharedCommunicator>(std::move(made));
}

void UcxNetwork::Watch(JobTime silence) {
  impl_->silence = silence;
  impl_->sleeper.Wake();
}

std::string UcxNetwork::address() const { return impl_->ucx.Address(); }
bool UcxNetwork::Progress() { return impl_->Progress(); }
void UcxNetwork::Break(const absl::Status& why) { impl_->Break(why); }
void UcxNetwork::LetGo(const absl::Status& why) {
  impl_->Break(why);
  impl_->let_go.wait(false);
}
void UcxNetwork::Close() { impl_->Close(); }

TransportMemory UcxNetwork::memory() const {
  const std::lock_guard lock(impl_->mutex);
  return {impl_->ucx.private_bytes() + impl_->pool_bytes, SharedSegmentBytes()};
}

NetworkTotals UcxNetwork::totals() const {
  return {impl_->messages_sent,  impl_->messages_received, impl_->bytes_sent,
          impl_->bytes_received, impl_->refused,           impl_->pending};
}

}  // namespace oneflow
