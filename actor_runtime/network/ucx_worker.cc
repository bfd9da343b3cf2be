#include "actor_runtime/network/ucx_worker.h"

#include <sys/ipc.h>
#include <sys/shm.h>
#include <ucs/config/global_opts.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// The library's own settings, which it has read from the environment before main. All workers of a
// process share them.
void SetGlobalOptions() {
  static std::once_flag once;
  std::call_once(once, [] {
    // We report failures ourselves, once.
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  });
}

// Settings of one worker. The environment stays as it is: other threads may read it.
absl::StatusOr<ucp_config_t*> MakeConfig(const UcxOptions& options) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  const auto set = [&](const char* name, const std::string& value) {
    if (status == UCS_OK) status = ucp_config_modify(config, name, value.c_str());
  };
  // A setting of the user stays, unless an option overrides it.
  const auto prefer = [&](const char* name, const std::string& value) {
    if (std::getenv(absl::StrCat("UCX_", name).c_str()) == nullptr) set(name, value);
  };
  // UCX uses shared memory beside its watch for dead peers only if asked.
  prefer("MM_ERROR_HANDLING", "y");
  // We watch the peers ourselves (peer_beats.h), also while data is unacknowledged.
  prefer("KEEPALIVE_INTERVAL", "inf");
  if (!options.interface.empty()) set("NET_DEVICES", options.interface);
  if (!options.transports.empty()) set("TLS", options.transports);
  if (status == UCS_OK) return config;
  if (config != nullptr) ucp_config_release(config);
  return UcxError("UCX cannot read its settings", status);
}

// On these signals UCX prints stack traces, instead of the process's own handling.
void RestoreSignals() {
  if (std::getenv("UCX_HANDLE_ERRORS") != nullptr) return;
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, SIG_DFL);
}

// Resident memory that this process shares with nobody.
int64_t PrivateBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0, shared = 0;
  file >> all >> resident >> shared;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

struct Segment {
  int64_t bytes = 0;
  int id = -1;  // System V's
};

// Those that this process has mapped.
std::vector<Segment> Segments() {
  std::ifstream file("/proc/self/maps");
  std::vector<Segment> segments;
  for (std::string line; std::getline(file, line);) {
    const bool is_system_v = line.find(" /SYSV") != line.npos;
    if (!is_system_v && line.find("/ucx_shm_") == line.npos) continue;
    unsigned long begin = 0, end = 0;
    int id = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %d", &begin, &end, &id) != 3) continue;
    segments.push_back({static_cast<int64_t>(end - begin), is_system_v ? id : -1});
  }
  return segments;
}

// UCX lets the user's group write to its segments.
void CloseToGroup() {
  for (const Segment& segment : Segments()) {
    shmid_ds facts;
    if (segment.id < 0 || shmctl(segment.id, IPC_STAT, &facts) != 0) continue;
    if (facts.shm_cpid != getpid() || (facts.shm_perm.mode & 077) == 0) continue;
    facts.shm_perm.mode = 0600;
    shmctl(segment.id, IPC_SET, &facts);
  }
}

// " (System V's shared memory: kernel.shmmni is 4096, ...)"
std::string SharedMemoryLimits() {
  std::string text;
  for (const char* name : {"shmmni", "shmall", "shmmax"}) {
    std::string value;
    std::ifstream(absl::StrCat("/proc/sys/kernel/", name)) >> value;
    absl::StrAppend(&text, text.empty() ? " (System V's shared memory: " : ", ", "kernel.", name,
                    " is ", value);
  }
  return text + ")";
}

}  // namespace

int64_t SharedSegmentBytes() {
  int64_t bytes = 0;
  for (const Segment& segment : Segments()) bytes += segment.bytes;
  return bytes;
}

absl::Status UcxError(absl::string_view what, ucs_status_t status) {
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

ucs_status_t UcxSend(ucp_ep_h endpoint, unsigned id, std::span<const std::byte> header,
                     const UcxPayload& payload, ucp_send_nbx_callback_t done, void* user) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  param.cb.send = done;
  param.user_data = user;
  param.flags = payload.eager ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  param.datatype = payload.type;
  const ucs_status_ptr_t request = ucp_am_send_nbx(endpoint, id, header.data(), header.size(),
                                                   payload.buffer, payload.count, &param);
  return UCS_PTR_IS_PTR(request) ? UCS_INPROGRESS : UCS_PTR_STATUS(request);
}

ucs_status_t UcxReceive(ucp_worker_h worker, void* data, std::span<std::byte> target,
                        ucp_am_recv_data_nbx_callback_t done, void* user) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv_am = done;
  param.user_data = user;
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(worker, data, target.data(), target.size(), &param);
  return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_INPROGRESS;
}

UcxWorker::~UcxWorker() { Shut(); }

void UcxWorker::Shut() {
  if (worker != nullptr) ucp_worker_destroy(std::exchange(worker, nullptr));
  if (context != nullptr) ucp_cleanup(std::exchange(context, nullptr));
}

absl::Status UcxWorker::Open(const UcxOptions& options) {
  const int64_t before = PrivateBytes();
  SetGlobalOptions();
  ASSIGN_OR_RETURN(ucp_config_t* const config, MakeConfig(options));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = static_cast<size_t>(options.processes);
  ucs_status_t status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  if (status != UCS_OK) return UcxError("UCX cannot start", status);
  RestoreSignals();

  ucp_worker_params_t of_worker{};
  of_worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  of_worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(context, &of_worker, &worker);
  if (status == UCS_ERR_NO_MEMORY || status == UCS_ERR_NO_RESOURCE) {
    return UcxError("UCX gets no memory" + SharedMemoryLimits(), status);
  }
  if (status != UCS_OK) return UcxError("UCX cannot make a worker", status);
  CloseToGroup();
  status = ucp_worker_get_efd(worker, &event_fd);
  if (status != UCS_OK) return UcxError("UCX has nothing to sleep on", status);

  ucp_address_t* bytes = nullptr;
  size_t length = 0;
  status = ucp_worker_get_address(worker, &bytes, &length);
  if (status != UCS_OK) return UcxError("UCX has no address", status);
  address.assign(reinterpret_cast<const char*>(bytes), length);
  ucp_worker_release_address(worker, bytes);
  private_bytes = PrivateBytes() - before;
  return absl::OkStatus();
}

absl::Status UcxWorker::Listen(unsigned id, ucp_am_recv_callback_t arrived, void* arg) const {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = id;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.arg = arg;
  handler.cb = arrived;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(worker, &handler);
  return status == UCS_OK ? absl::OkStatus() : UcxError("UCX takes no handler of messages", status);
}

absl::Status UcxWorker::Connect(const std::string& peer, const ucp_err_handler_t& failed,
                                ucp_ep_h* endpoint) const {
  // UCX trusts these bytes, so their length is checked here.
  if (peer.size() < 16) return absl::InvalidArgumentError("it has no address");
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = failed;
  const ucs_status_t status = ucp_ep_create(worker, &params, endpoint);
  if (status == UCS_ERR_UNREACHABLE) {
    return absl::FailedPreconditionError("no network device of this process leads to it");
  }
  return status == UCS_OK ? absl::OkStatus() : UcxError("UCX makes no endpoint", status);
}

void UcxWorker::Close(ucp_ep_h endpoint) const {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) return;
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
  ucp_request_free(request);
}

}  // namespace oneflow
