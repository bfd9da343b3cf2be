// Invariants:
//   1. A member's communicator of NCCL is used by one thread at a time, under the member's mutex.
//      Members do not share one. No call under the mutex blocks: communicators are non-blocking.
//   2. While one is in progress, nothing but a query of its state is given to it, and nothing to
//   the
//      member's stream.
//   3. Once failed_ is true nothing more is given to a stream. Communicators of NCCL are aborted
//   and
//      destroyed by NcclComms, which takes them.
#include "actor_runtime/cuda/exchange/nccl_communicator.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "actor_runtime/cuda/status.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kMostCtas = 16;  // more of them do not make one exchange faster

class NcclCommunicator final : public Communicator, public NcclUser {
 public:
  NcclCommunicator(std::shared_ptr<NcclComms> comms, const std::vector<Device*>& of_members)
      : comms_(std::move(comms)), nccl_(comms_->nccl()), members_(of_members.size()) {
    for (std::unique_ptr<Member>& member : members_) member = std::make_unique<Member>();
    std::vector<const Device*> devices;
    for (const Device* device : of_members) {
      if (device != nullptr) devices.push_back(device);
    }
    comms_->Add(this, std::move(devices));
  }

  // Requires that all members are at rest, or that it was aborted.
  ~NcclCommunicator() override { comms_->Remove(this); }

  // While it is being made.
  ncclComm_t* FindComm(size_t member) { return &members_[member]->comm; }
  // True if NCCL has taken all that the member has called.
  absl::StatusOr<bool> IsReady(size_t member) const { return IsReady(*members_[member]); }

  void SetWake(std::function<void(int)> wake) override { wake_ = std::move(wake); }

  void Enter(int index, const ExchangeEntry& entry) override {
    Member& member = *members_[index];
    member.work.store(entry.work);
    member.entered.fetch_add(1);
    member.entry = entry;
    member.stage = 0;
    member.given = false;
  }

  Progress Poll(int index, ThreadPool* /*pool*/) override {
    if (!failed_.load()) {
      const absl::StatusOr<bool> over = GoOn(index);
      if (over.ok()) return *over ? kOver : kWaiting;
      Abort(over.status());
    }
    return aborted_.load() ? kFailed : kWaiting;
  }

  bool CanProgress(int /*member*/) const override { return true; }

  // The entries of members in other processes are unknown; only their streams wait.
  bool HasEntered(int member, int than) const override {
    const Member &one = *members_[member], &other = *members_[than];
    if (one.entered.load() != other.entered.load()) {
      return one.entered.load() > other.entered.load();
    }
    return one.work.load() == other.work.load();
  }

  // The runtime aborts all communicators of a run together; so does NcclComms.
  void Abort(const absl::Status& status) override { comms_->Abort(this, status); }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  bool Fail(const absl::Status& status) override {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return false;
    status_ = status;
    failed_.store(true);
    return true;
  }

  std::vector<ncclComm_t> Take() override {
    std::vector<ncclComm_t> taken;
    for (const std::unique_ptr<Member>& member : members_) {
      const std::lock_guard lock(member->mutex);
      member->here = member->comm != nullptr;
      if (member->here) taken.push_back(std::exchange(member->comm, nullptr));
    }
    return taken;
  }

  void Aborted() override {
    aborted_.store(true);
    for (int m = 0; m < std::ssize(members_); ++m) {
      if (members_[m]->here) wake_(m);
    }
  }

 private:
  struct Member {
    std::mutex mutex;
    ncclComm_t comm = nullptr;  // under mutex; null: in another process, or taken
    bool here = false;          // it had one when it was taken
    std::atomic<int64_t> entered{0};
    std::atomic<const ExchangeWork*> work{nullptr};
    // Of the member's thread: the exchange that it has entered, its next stage, and whether the
    // last one has been called.
    ExchangeEntry entry;
    int stage = 0;
    bool given = true;
  };

  static KernelCall MakeCall(const ExchangeEntry& entry) {
    KernelCall call;
    call.in = {&entry.in, 1};
    call.out = entry.out;
    call.workspace = entry.workspace;
    call.stream = entry.stream->handle();
    call.accumulate = entry.accumulate;
    return call;
  }

  // Calls the stages for which NCCL is ready; true: all of the exchange is on the stream.
  absl::StatusOr<bool> GoOn(int index) {
    Member& member = *members_[index];
    const std::lock_guard lock(member.mutex);
    if (member.comm == nullptr) return false;  // it is being aborted
    while (true) {
      ASSIGN_OR_RETURN(const bool ready, IsReady(member));
      if (!ready || member.given) return ready;
      ASSIGN_OR_RETURN(member.given, member.entry.work->member_launch(index).launch(
                                         MakeCall(member.entry), member.comm, member.stage++));
    }
  }

  // An error is one that NCCL has found since, for example that another process is gone.
  absl::StatusOr<bool> IsReady(const Member& member) const {
    ncclResult_t result = ncclSuccess;
    RETURN_IF_ERROR(
        nccl_.ToStatus(nccl_.CommGetAsyncError(member.comm, &result), "ncclCommGetAsyncError"));
    const absl::Status status = nccl_.ToStatus(result, "an exchange");
    if (result == ncclRemoteError) return MarkConsequence(-1, status);
    RETURN_IF_ERROR(status);
    return result == ncclSuccess;
  }

  const std::shared_ptr<NcclComms> comms_;
  const Nccl& nccl_;
  std::vector<std::unique_ptr<Member>> members_;
  std::function<void(int)> wake_ = [](int) {};
  mutable std::mutex mutex_;
  absl::Status status_;  // under mutex_
  std::atomic<bool> failed_{false}, aborted_{false};
};

absl::StatusOr<ncclUniqueId> FetchId(const Nccl& nccl, const IdExchange& ids,
                                     const std::string& name, bool is_first) {
  ncclUniqueId id{};
  std::optional<std::string> put;
  if (is_first) {
    RETURN_IF_ERROR(nccl.ToStatus(nccl.GetUniqueId(&id), "ncclGetUniqueId"));
    put.emplace(id.internal, sizeof(id.internal));
  }
  ASSIGN_OR_RETURN(const std::string bytes, ids(name, put));
  if (bytes.size() != sizeof(id.internal)) {
    return absl::InternalError("the id of NCCL's communicator \"" + name + "\" has " +
                               std::to_string(bytes.size()) + " bytes");
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

// Few enough that the kernels of all communicators of a device fit on it at once, with room for
// kernels that compute.
absl::StatusOr<int> CountCtas(int communicators) {
  int gpu = 0, processors = 0;
  RETURN_IF_ERROR(ToStatus(cudaGetDevice(&gpu), "cudaGetDevice"));
  RETURN_IF_ERROR(ToStatus(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu),
                           "cudaDeviceGetAttribute"));
  return std::clamp(processors / (2 * std::max(1, communicators)), 1, kMostCtas);
}

// A stream and two small arrays of a member, for its first words.
class FirstWords {
 public:
  FirstWords() = default;
  FirstWords(FirstWords&& other) noexcept
      : device_(other.device_),
        stream_(std::exchange(other.stream_, nullptr)),
        words_(std::exchange(other.words_, nullptr)) {}
  ~FirstWords() {
    if (words_ != nullptr) cudaFree(words_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  absl::Status Make(Device* device, int members) {
    device_ = device;
    RETURN_IF_ERROR(device->Attach());
    RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags"));
    return ToStatus(cudaMalloc(&words_, 2 * members * sizeof(float)), "cudaMalloc");
  }
  cudaStream_t stream() const { return stream_; }
  float* words() const { return words_; }
  absl::StatusOr<bool> IsOver() const {
    RETURN_IF_ERROR(device_->Attach());
    const cudaError_t error = cudaStreamQuery(stream_);
    if (error == cudaSuccess) return true;
    if (error == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // It is no error of a launch.
      return false;
    }
    return ToStatus(error, "the first words of an exchange over NCCL");
  }

 private:
  Device* device_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float* words_ = nullptr;
};

// Makes the members of this process and connects them with all others: by a sum of all, and by
// words between those that will exchange messages.
class Maker {
 public:
  Maker(const Nccl& nccl, const std::string& name, const GroupUse& use,
        std::chrono::milliseconds patience, NcclCommunicator* communicator)
      : nccl_(nccl),
        name_(name),
        use_(use),
        patience_(patience),
        deadline_(std::chrono::steady_clock::now() + patience),
        communicator_(communicator),
        first_(use.devices.size()),
        peers_(use.devices.size()) {
    for (const ExchangeWork* work : use.works) {
      for (size_t m = 0; m < peers_.size(); ++m) {
        if (!work->has_launch(static_cast<int>(m))) continue;
        const std::vector<int>& peers = work->member_launch(static_cast<int>(m)).peers;
        peers_[m].insert(peers.begin(), peers.end());
      }
    }
  }

  absl::Status Make(const ncclUniqueId& id) {
    const int members = static_cast<int>(use_.devices.size());
    std::vector<ncclConfig_t> configs(members, ncclConfig_t NCCL_CONFIG_INITIALIZER);
    for (int m = 0; m < members; ++m) {
      if (use_.devices[m] == nullptr) continue;
      RETURN_IF_ERROR(use_.devices[m]->Attach());
      configs[m].blocking = 0;
      ASSIGN_OR_RETURN(configs[m].maxCTAs, CountCtas(use_.communicators));
    }
    return ForMembers("ncclCommInitRankConfig", [&](int m) {
      return nccl_.CommInitRankConfig(communicator_->FindComm(m), members, id, m, &configs[m]);
    });
  }

  absl::Status Connect() {
    const int members = static_cast<int>(use_.devices.size());
    for (int m = 0; m < members; ++m) {
      if (use_.devices[m] == nullptr) continue;
      RETURN_IF_ERROR(first_[m].Make(use_.devices[m], members));
    }
    RETURN_IF_ERROR(ForMembers("a first sum", [&](int m) {
      float* words = first_[m].words();
      return nccl_.AllReduce(words, words + members, 1, ncclFloat32, ncclSum,
                             *communicator_->FindComm(m), first_[m].stream());
    }));
    const bool messages =
        std::any_of(peers_.begin(), peers_.end(), [](const auto& peers) { return !peers.empty(); });
    if (messages) {
      RETURN_IF_ERROR(ForMembers("first messages", [&](int m) { return SendWords(m); }));
    }
    return Await([&](int m) { return first_[m].IsOver(); });
  }

 private:
  // Calls of all members of this process as one group; `call` returns NCCL's result. Returns once
  // NCCL has taken them.
  template <typename Call>
  absl::Status ForMembers(const char* what, Call call) {
    RETURN_IF_ERROR(nccl_.ToStatus(nccl_.GroupStart(), "ncclGroupStart"));
    absl::Status status;
    for (int m = 0; m < std::ssize(use_.devices) && status.ok(); ++m) {
      if (use_.devices[m] == nullptr) continue;
      status = use_.devices[m]->Attach();
      if (status.ok()) status = nccl_.ToStatus(call(m), what);
    }
    const ncclResult_t end = nccl_.GroupEnd();
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(nccl_.ToStatus(end, what));
    return Await([&](int m) { return communicator_->IsReady(m); });
  }

  ncclResult_t SendWords(int m) const {
    const ncclComm_t comm = *communicator_->FindComm(m);
    for (const int peer : peers_[m]) {
      float *from = first_[m].words() + peer, *to = from + use_.devices.size();
      const cudaStream_t stream = first_[m].stream();
      ncclResult_t result = nccl_.Send(from, 1, ncclFloat32, peer, comm, stream);
      if (result == ncclSuccess || result == ncclInProgress) {
        result = nccl_.Recv(to, 1, ncclFloat32, peer, comm, stream);
      }
      if (result != ncclSuccess && result != ncclInProgress) return result;
    }
    return ncclSuccess;
  }

  // Until `over` holds for each member of this process.
  absl::Status Await(const std::function<absl::StatusOr<bool>(int)>& over) const {
    constexpr int kLooks = 100;  // before it sleeps in between
    for (int m = 0; m < std::ssize(use_.devices); ++m) {
      if (use_.devices[m] == nullptr) continue;
      for (int look = 0;; ++look) {
        ASSIGN_OR_RETURN(const bool is_over, over(m));
        // The exchange of a member may be over while an error of NCCL keeps another one waiting.
        RETURN_IF_ERROR(communicator_->IsReady(m).status());
        if (is_over) break;
        if (std::chrono::steady_clock::now() >= deadline_) {
          return absl::DeadlineExceededError("the members of NCCL's communicator \"" + name_ +
                                             "\" did not connect within " +
                                             std::to_string(patience_.count()) +
                                             " ms: see whether all processes of the run are there");
        }
        if (look < kLooks) {
          std::this_thread::yield();
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
    }
    return absl::OkStatus();
  }

  const Nccl& nccl_;
  const std::string& name_;
  const GroupUse& use_;
  const std::chrono::milliseconds patience_;
  const std::chrono::steady_clock::time_point deadline_;
  NcclCommunicator* const communicator_;
  std::vector<FirstWords> first_;     // by member; nothing for members of other processes
  std::vector<std::set<int>> peers_;  // by member: those that it exchanges single messages with
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(std::shared_ptr<NcclComms> comms,
                                                                   const IdExchange& ids,
                                                                   const std::string& name,
                                                                   const GroupUse& use) {
  const Nccl& nccl = comms->nccl();
  const std::chrono::milliseconds patience = comms->patience().meet;
  ASSIGN_OR_RETURN(const ncclUniqueId id, FetchId(nccl, ids, name, use.devices[0] != nullptr));
  auto communicator = std::make_unique<NcclCommunicator>(std::move(comms), use.devices);
  Maker maker(nccl, name, use, patience, communicator.get());
  absl::Status status = maker.Make(id);
  if (status.ok()) status = maker.Connect();
  if (status.ok()) return communicator;
  // The first words are freed after that: freeing waits for the device.
  communicator->Abort(status);
  communicator.reset();
  return status;
}

}  // namespace oneflow::cuda
