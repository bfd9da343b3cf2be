#include "actor_runtime/network/ucx_network.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/spin.h"
#include "actor_runtime/network/shared_communicator.h"
#include "actor_runtime/network/wire.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr unsigned kMessageId = 1;
// Payloads up to here travel with their header. Larger ones wait at the sender until the receiver
// has said where they land, so that nothing lies in buffers of UCX's.
constexpr int64_t kEagerBytes = 4096;
// Rows shorter than this are packed by us: UCX needs some 30 ns for each.
constexpr size_t kShortRow = 512;
// Of a list of rows that UCX gathers.
constexpr size_t kMostRows = 1024;
// UCX cannot sleep while a peer has no room for what is to be sent. So often the core is given away
// at once, for the peer may want it; then the peer is waited for in naps, for it may be long before
// it has a core, and whoever looks all the time takes one from kernels.
constexpr int kYields = 8;
constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 50'000};

absl::Status UcxError(const std::string& what, ucs_status_t status) {
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

// A user's own choice in the environment stands, but for what an option says.
void Prefer(const char* name, const std::string& value) { setenv(name, value.c_str(), 0); }

// UCX reads its settings from the environment, but for those of the library as a whole, which it
// has read before main.
void SetEnvironment(const UcxOptions& options) {
  // Where a peer that dies should be told, UCX uses shared memory only if asked.
  Prefer("UCX_MM_ERROR_HANDLING", "y");
  Prefer("UCX_KEEPALIVE_INTERVAL", "1s");
  Prefer("UCX_WARN_UNUSED_ENV_VARS", "n");
  if (!options.interface.empty()) setenv("UCX_NET_DEVICES", options.interface.c_str(), 1);
  if (!options.transports.empty()) setenv("UCX_TLS", options.transports.c_str(), 1);
  // What fails is told once, by us.
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

// UCX prints stack traces on these, in the place of what the process would do.
void RestoreSignals() {
  if (std::getenv("UCX_HANDLE_ERRORS") != nullptr) return;
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, SIG_DFL);
}

// A message that a worker, or the network itself, wants sent.
struct Outgoing {
  int to_process = 0;
  FarAction action = {};
  std::shared_ptr<FarCommunicator> from;
};

}  // namespace

// Invariants:
//  1. All but `outgoing`, `communicators`, `broken` and the totals belongs to the driving thread
//     once it runs.
//  2. A Sending or Landing is in its list of free ones or in UCX's hands: then its callback comes,
//     once, with an error where the link is closed by force.
//  3. Sent follows each piece that was emitted, Landed each that was given a place: a communicator
//     lets go of memory only when it has counted them all.
struct UcxNetwork::Impl {
  // A message in UCX's hands: what must stay until it is sent.
  struct Sending {
    Impl* network = nullptr;
    WireHeader header;
    std::vector<ucp_dt_iov_t> rows;
    std::vector<std::byte> packed;
    std::shared_ptr<FarCommunicator> from;  // null: no piece
    int to_process = 0;
  };
  // A piece on its way into memory of ours.
  struct Landing {
    Impl* network = nullptr;
    FarMessage message;
    std::shared_ptr<FarCommunicator> to;
  };
  struct Peer {
    Impl* network = nullptr;
    int process = 0;
    ucp_ep_h endpoint = nullptr;
  };

  UcxOptions options;
  OnBroken on_broken;
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  int worker_fd = -1, wake_fd = -1;
  std::string own_address;
  std::vector<Peer> peers;  // by process
  std::vector<std::unique_ptr<Sending>> sendings;
  std::vector<Sending*> free_sendings;
  std::vector<std::unique_ptr<Landing>> landings;
  std::vector<Landing*> free_landings;
  std::vector<Outgoing> taken;  // of `outgoing`, by the driving thread
  int broken_process = -1;      // that UCX has told of, and we have not yet
  ucs_status_t broken_status = UCS_OK;
  bool told = false;  // on_broken
  int yields = 0;     // since something was done

  std::mutex mutex;
  std::vector<Outgoing> outgoing;                                      // under mutex
  std::map<uint64_t, std::shared_ptr<FarCommunicator>> communicators;  // under mutex
  absl::Status broken;                                                 // under mutex
  std::atomic<bool> has_outgoing{false}, is_broken{false}, asleep{false}, closing{false};
  std::atomic<bool> let_go{false};  // broken, and nobody's memory is touched
  std::atomic<int64_t> messages_sent{0}, messages_received{0}, bytes_sent{0}, bytes_received{0},
      refused{0}, pending{0};
  std::jthread thread;

  ~Impl() {
    closing = true;
    if (thread.joinable()) {
      thread.request_stop();
      Wake();
      thread.join();
    }
    CloseEndpoints();
    if (worker != nullptr) ucp_worker_destroy(worker);
    if (context != nullptr) ucp_cleanup(context);
    if (wake_fd >= 0) close(wake_fd);
  }

  absl::Status Open() {
    SetEnvironment(options);
    ucp_config_t* config = nullptr;
    ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return UcxError("UCX cannot read its settings", status);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.estimated_num_eps = static_cast<size_t>(options.processes);
    status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    if (status != UCS_OK) return UcxError("UCX cannot start", status);
    RestoreSignals();

    ucp_worker_params_t of_worker{};
    of_worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    of_worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    status = ucp_worker_create(context, &of_worker, &worker);
    if (status != UCS_OK) return UcxError("UCX cannot make a worker", status);
    status = ucp_worker_get_efd(worker, &worker_fd);
    if (status != UCS_OK) return UcxError("UCX has nothing to sleep on", status);
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0) return absl::InternalError("eventfd failed");

    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    handler.id = kMessageId;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.arg = this;
    handler.cb = [](void* network, const void* header, size_t header_bytes, void* data,
                    size_t length, const ucp_am_recv_param_t* param) {
      return static_cast<Impl*>(network)->Arrived(
          {static_cast<const std::byte*>(header), header_bytes}, data, length, *param);
    };
    status = ucp_worker_set_am_recv_handler(worker, &handler);
    if (status != UCS_OK) return UcxError("UCX takes no handler of messages", status);

    ucp_address_t* bytes = nullptr;
    size_t length = 0;
    status = ucp_worker_get_address(worker, &bytes, &length);
    if (status != UCS_OK) return UcxError("UCX has no address", status);
    own_address.assign(reinterpret_cast<const char*>(bytes), length);
    ucp_worker_release_address(worker, bytes);
    peers.resize(options.processes);
    return absl::OkStatus();
  }

  absl::Status Connect(int process, const std::string& address) {
    if (process < 0 || process >= options.processes || process == options.process) {
      return absl::InvalidArgumentError(absl::StrCat("there is no other process ", process));
    }
    // UCX believes what it reads there.
    if (address.size() < 16) {
      return absl::InvalidArgumentError(absl::StrCat("process ", process, " has no address"));
    }
    Peer& peer = peers[process];
    peer.network = this;
    peer.process = process;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.arg = &peer;
    params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t status) {
      const Peer& lost = *static_cast<Peer*>(arg);
      if (lost.network->broken_process >= 0) return;
      lost.network->broken_process = lost.process;
      lost.network->broken_status = status;
    };
    const ucs_status_t status = ucp_ep_create(worker, &params, &peer.endpoint);
    return status == UCS_OK ? absl::OkStatus()
                            : UcxError(absl::StrCat("no link to process ", process), status);
  }

  // By force: all that is in UCX's hands comes back.
  void CloseEndpoints() {
    for (Peer& peer : peers) {
      if (peer.endpoint == nullptr) continue;
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_EP_CLOSE_FLAG_FORCE;
      ucs_status_ptr_t request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
      if (request == nullptr || UCS_PTR_IS_ERR(request)) continue;
      while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
      ucp_request_free(request);
    }
  }

  // Any thread.
  void Send(Outgoing message) {
    pending.fetch_add(1);
    {
      const std::lock_guard lock(mutex);
      outgoing.push_back(std::move(message));
      has_outgoing.store(true);
    }
    Wake();
  }

  // The driving thread says asleep and looks once more; whoever has news writes it and looks then.
  // Both sequentially consistent, so one of them sees the other.
  void Wake() {
    if (!asleep.load()) return;
    const uint64_t one = 1;
    if (write(wake_fd, &one, sizeof(one)) < 0) PCHECK(errno == EAGAIN);
  }

  void Break(const absl::Status& why) {
    {
      const std::lock_guard lock(mutex);
      if (!broken.ok()) return;
      broken = why;
      is_broken.store(true);
    }
    Wake();
  }

  std::shared_ptr<FarCommunicator> Find(uint64_t number) {
    const std::lock_guard lock(mutex);
    const auto found = communicators.find(number);
    return found == communicators.end() ? nullptr : found->second;
  }

  // What comes of this attempt and does not belong is a bug there or here.
  void Refuse(const WireHeader& header, const absl::Status& why) {
    refused.fetch_add(1);
    Break(absl::InternalError(
        absl::StrCat("a message of process ", header.from_process, ": ", why.message())));
  }

  ucs_status_t Arrived(std::span<const std::byte> bytes, void* data, size_t length,
                       const ucp_am_recv_param_t& param) {
    const std::optional<WireHeader> header =
        WireHeaderFrom(bytes, options.job, options.attempt, options.processes);
    if (!header) {
      refused.fetch_add(1);
      return UCS_OK;
    }
    messages_received.fetch_add(1);
    const absl::StatusOr<FarMessage> message = FarMessageFrom(
        {reinterpret_cast<const std::byte*>(&header->message), sizeof(header->message)});
    const std::shared_ptr<FarCommunicator> to =
        message.ok() ? Find(message->communicator) : nullptr;
    if (to == nullptr) {
      Refuse(*header, message.ok() ? absl::NotFoundError(absl::StrCat("there is no communicator ",
                                                                      message->communicator))
                                   : message.status());
      return UCS_OK;
    }
    if (message->length != static_cast<int64_t>(length)) {
      Refuse(*header, absl::DataLossError(
                          absl::StrCat("it says ", message->length, " bytes and has ", length)));
      return UCS_OK;
    }
    if (message->kind != FarMessage::kPiece) {
      const absl::Status status = to->Receive(*message);
      if (!status.ok()) Refuse(*header, status);
      return UCS_OK;
    }
    const absl::StatusOr<std::span<std::byte>> place = to->Land(*message);
    if (!place.ok()) {
      Refuse(*header, place.status());
    } else if (!place->empty()) {
      bytes_received.fetch_add(static_cast<int64_t>(length));
      return LandAt(*message, to, *place, data, param);
    }
    return UCS_OK;
  }

  ucs_status_t LandAt(const FarMessage& message, const std::shared_ptr<FarCommunicator>& to,
                      std::span<std::byte> place, void* data, const ucp_am_recv_param_t& param) {
    if ((param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
      std::memcpy(place.data(), data, place.size());
      to->Landed(message);
      return UCS_OK;
    }
    Landing* landing = Take(landings, free_landings);
    pending.fetch_add(1);
    landing->message = message;
    landing->to = to;
    ucp_request_param_t receive{};
    receive.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    receive.user_data = landing;
    receive.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* user) {
      auto* of = static_cast<Landing*>(user);
      ucp_request_free(request);
      of->network->Landed(of, status);
    };
    const ucs_status_ptr_t request =
        ucp_am_recv_data_nbx(worker, data, place.data(), place.size(), &receive);
    if (UCS_PTR_IS_ERR(request)) Landed(landing, UCS_PTR_STATUS(request));
    return UCS_INPROGRESS;
  }

  void Landed(Landing* landing, ucs_status_t status) {
    // Half a piece must not count: the communicator ends before it hears of it.
    if (status != UCS_OK) {
      landing->to->Abort(UcxError("a piece did not arrive", status));
      Break(UcxError("a piece did not arrive", status));
    }
    landing->to->Landed(landing->message);
    landing->to.reset();
    free_landings.push_back(landing);
    pending.fetch_sub(1);
  }

  template <typename T>
  T* Take(std::vector<std::unique_ptr<T>>& all, std::vector<T*>& free) {
    if (free.empty()) {
      all.push_back(std::make_unique<T>());
      all.back()->network = this;
      free.reserve(all.size());
      return all.back().get();
    }
    T* taken_one = free.back();
    free.pop_back();
    return taken_one;
  }

  void Post(Outgoing& message) {
    const FarMessage& of = message.action.message;
    const bool is_piece = of.kind == FarMessage::kPiece;
    const ucp_ep_h endpoint = peers[message.to_process].endpoint;
    if (endpoint == nullptr || is_broken.load()) {
      if (is_piece) message.from->Sent();
      pending.fetch_sub(1);
      return;
    }
    Sending* sending = Take(sendings, free_sendings);
    sending->header = {options.job, options.attempt, options.process, of};
    sending->to_process = message.to_process;
    if (is_piece) sending->from = std::move(message.from);
    sending->rows.clear();
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
    param.user_data = sending;
    param.flags = of.length <= kEagerBytes ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
    param.datatype = ucp_dt_make_contig(1);
    param.cb.send = [](void* request, ucs_status_t status, void* user) {
      auto* done = static_cast<Sending*>(user);
      ucp_request_free(request);
      done->network->Sent(done, status);
    };
    const void* buffer = nullptr;
    size_t count = 0;
    if (is_piece && of.length > 0) {
      Gather(message.action, sending);
      if (!sending->packed.empty()) {
        buffer = sending->packed.data();
        count = sending->packed.size();
      } else if (sending->rows.size() == 1) {
        buffer = sending->rows[0].buffer;
        count = sending->rows[0].length;
      } else {
        buffer = sending->rows.data();
        count = sending->rows.size();
        param.datatype = UCP_DATATYPE_IOV;
      }
      bytes_sent.fetch_add(of.length);
    }
    messages_sent.fetch_add(1);
    const ucs_status_ptr_t request = ucp_am_send_nbx(
        endpoint, kMessageId, &sending->header, sizeof(sending->header), buffer, count, &param);
    if (request == nullptr || UCS_PTR_IS_ERR(request)) Sent(sending, UCS_PTR_STATUS(request));
  }

  // The payload as a list of rows, or packed, where rows are short or many.
  static void Gather(const FarAction& action, Sending* sending) {
    sending->packed.clear();
    ForPayload(action, [&](const std::byte* row, size_t bytes) {
      std::vector<ucp_dt_iov_t>& rows = sending->rows;
      auto* at = const_cast<std::byte*>(row);
      if (!rows.empty() && static_cast<std::byte*>(rows.back().buffer) + rows.back().length == at) {
        rows.back().length += bytes;
      } else {
        rows.push_back({at, bytes});
      }
    });
    const size_t n = sending->rows.size();
    if (n == 1 ||
        (n <= kMostRows && action.message.length >= static_cast<int64_t>(n * kShortRow))) {
      return;
    }
    sending->packed.reserve(action.message.length);
    for (const ucp_dt_iov_t& row : sending->rows) {
      const auto* begin = static_cast<const std::byte*>(row.buffer);
      sending->packed.insert(sending->packed.end(), begin, begin + row.length);
    }
  }

  void Sent(Sending* sending, ucs_status_t status) {
    if (status != UCS_OK && broken_process < 0) {
      broken_process = sending->to_process;
      broken_status = status;
    }
    if (sending->from != nullptr) {
      if (status != UCS_OK) sending->from->Abort(UcxError("a piece was not sent", status));
      sending->from->Sent();
      sending->from.reset();
    }
    free_sendings.push_back(sending);
    pending.fetch_sub(1);
  }

  bool Progress() {
    if (told) return false;
    bool worked = false;
    if (has_outgoing.load()) {
      {
        const std::lock_guard lock(mutex);
        std::swap(taken, outgoing);
        has_outgoing.store(false);
      }
      worked = !taken.empty();
      for (Outgoing& message : taken) Post(message);
      taken.clear();
    }
    worked |= ucp_worker_progress(worker) > 0;
    if (broken_process >= 0) {
      Break(
          UcxError(absl::StrCat("the link to process ", broken_process, " failed"), broken_status));
    }
    if (is_broken.load()) EndAll();
    return worked;
  }

  // Nothing is sent or received any more, and nobody's memory is touched.
  void EndAll() {
    told = true;
    absl::Status why;
    std::vector<std::shared_ptr<FarCommunicator>> all;
    {
      const std::lock_guard lock(mutex);
      why = broken;
      for (const auto& [number, communicator] : communicators) all.push_back(communicator);
    }
    for (const auto& communicator : all) communicator->Abort(why);
    CloseEndpoints();
    // What was emitted meanwhile.
    std::vector<Outgoing> left;
    {
      const std::lock_guard lock(mutex);
      left.swap(outgoing);
    }
    for (Outgoing& message : left) Post(message);
    let_go = true;
    let_go.notify_all();
    if (!closing.load()) on_broken(broken_process, why);
  }

  void Drive(const std::stop_token& stop) {
    auto idle_since = std::chrono::steady_clock::now();
    const auto spin = options.spin ? kSpin : std::chrono::nanoseconds{0};
    while (!stop.stop_requested()) {
      if (Progress()) {
        yields = 0;
        idle_since = std::chrono::steady_clock::now();
        continue;
      }
      if (std::chrono::steady_clock::now() - idle_since < spin) {
        Relax();
        continue;
      }
      Sleep(stop);
    }
  }

  void Sleep(const std::stop_token& stop) {
    asleep.store(true);
    const bool armed = told || ucp_worker_arm(worker) == UCS_OK;
    const bool news = has_outgoing.load() || (is_broken.load() && !told) || stop.stop_requested();
    pollfd fds[] = {{wake_fd, POLLIN, 0}, {worker_fd, POLLIN, 0}};
    if (!news && !armed && ++yields <= kYields) {
      std::this_thread::yield();
    } else if (!news) {
      ppoll(fds, armed && !told ? 2 : 1, armed ? nullptr : &kNap, nullptr);
      uint64_t count = 0;
      if (read(wake_fd, &count, sizeof(count)) < 0) PCHECK(errno == EAGAIN);
    }
    asleep.store(false);
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

const std::string& UcxNetwork::address() const { return impl_->own_address; }

absl::Status UcxNetwork::Connect(int process, const std::string& address) {
  return impl_->Connect(process, address);
}

void UcxNetwork::Start() {
  impl_->thread =
      std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->Drive(stop); });
}

bool UcxNetwork::Progress() { return impl_->Progress(); }

std::unique_ptr<Communicator> UcxNetwork::MakeCommunicator(const FarGroup& group) {
  // The communicator's own pointer, for Sent.
  struct Route {
    std::weak_ptr<FarCommunicator> of;
    std::vector<int> process;
  };
  auto route = std::make_shared<Route>();
  route->process = group.process;
  auto made =
      std::make_shared<FarCommunicator>(group, [impl = impl_.get(), route](const FarAction& a) {
        impl->Send({route->process[a.message.to], a, route->of.lock()});
      });
  route->of = made;
  absl::Status broken;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->communicators[group.communicator] = made;
    impl_->outgoing.reserve(64 * impl_->communicators.size());
    broken = impl_->broken;
  }
  if (!broken.ok()) made->Abort(broken);
  return std::make_unique<SharedCommunicator>(std::move(made));
}

void UcxNetwork::Break(const absl::Status& why) { impl_->Break(why); }
void UcxNetwork::LetGo(const absl::Status& why) {
  impl_->Break(why);
  impl_->let_go.wait(false);
}
void UcxNetwork::Close() { impl_->closing = true; }

NetworkTotals UcxNetwork::totals() const {
  return {impl_->messages_sent,  impl_->messages_received, impl_->bytes_sent,
          impl_->bytes_received, impl_->refused,           impl_->pending};
}

}  // namespace oneflow
