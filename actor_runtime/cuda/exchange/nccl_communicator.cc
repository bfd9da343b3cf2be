// Invariants:
//   1. A member's communicator of NCCL is used by one thread at a time, under the member's mutex.
//      Members do not share one: a call of NCCL may wait for a call of another member.
//   2. Once failed_ is true nothing more is given to a stream, and communicators of NCCL are
//      destroyed, at the latest when the call that uses them returns.
#include "actor_runtime/cuda/exchange/nccl_communicator.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/cuda/status.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kMostCtas = 16;  // more of them do not make one exchange faster

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const Nccl& nccl, size_t members) : nccl_(nccl), members_(members) {
    for (std::unique_ptr<Member>& member : members_) member = std::make_unique<Member>();
  }

  // Requires that all members are at rest. Members of one thread are destroyed together, because
  // they may wait for each other.
  ~NcclCommunicator() override {
    if (failed_.load()) return;
    static_cast<void>(nccl_.GroupStart());
    for (const std::unique_ptr<Member>& member : members_) {
      if (member->comm != nullptr) static_cast<void>(nccl_.CommDestroy(member->comm));
    }
    static_cast<void>(nccl_.GroupEnd());
  }

  // While it is being made.
  ncclComm_t* FindComm(size_t member) { return &members_[member]->comm; }

  void SetWake(std::function<void(int)> wake) override { wake_ = std::move(wake); }

  void Enter(int index, const ExchangeEntry& entry) override {
    Member& member = *members_[index];
    absl::Status status;
    {
      const std::lock_guard lock(member.mutex);
      member.work.store(entry.work);
      member.entered.fetch_add(1);
      if (member.comm == nullptr) return;  // Poll says why
      status = MakeError(member);
      if (status.ok()) status = entry.work->member_launch(index)(MakeCall(entry), member.comm);
    }
    if (!status.ok()) Abort(status);
  }

  Progress Poll(int index, ThreadPool* /*pool*/) override {
    if (!failed_.load()) {
      Member& member = *members_[index];
      std::unique_lock lock(member.mutex);
      const absl::Status status = member.comm == nullptr ? absl::OkStatus() : MakeError(member);
      lock.unlock();
      if (!status.ok()) Abort(status);
    }
    return failed_.load() ? kFailed : kOver;
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

  void Abort(const absl::Status& status) override {
    {
      const std::lock_guard lock(mutex_);
      if (!status_.ok()) return;
      status_ = status;
      failed_.store(true);
    }
    std::vector<int> here;  // members in this process
    for (int m = 0; m < std::ssize(members_); ++m) {
      Member& member = *members_[m];
      const std::lock_guard lock(member.mutex);
      ncclComm_t comm = std::exchange(member.comm, nullptr);
      if (comm == nullptr) continue;
      here.push_back(m);
      static_cast<void>(nccl_.CommAbort(comm));
    }
    for (const int m : here) wake_(m);
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  struct Member {
    std::mutex mutex;
    ncclComm_t comm = nullptr;  // under mutex; null: in another process, or aborted
    std::atomic<int64_t> entered{0};
    std::atomic<const ExchangeWork*> work{nullptr};
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

  // The error that NCCL has found since, for example that another process is gone.
  absl::Status MakeError(const Member& member) const {
    ncclResult_t result = ncclSuccess;
    RETURN_IF_ERROR(
        nccl_.ToStatus(nccl_.CommGetAsyncError(member.comm, &result), "ncclCommGetAsyncError"));
    const absl::Status status = nccl_.ToStatus(result, "an exchange");
    return result == ncclRemoteError ? MarkConsequence(-1, status) : status;
  }

  const Nccl& nccl_;
  std::vector<std::unique_ptr<Member>> members_;
  std::function<void(int)> wake_ = [](int) {};
  mutable std::mutex mutex_;
  absl::Status status_;  // under mutex_
  std::atomic<bool> failed_{false};
};

absl::StatusOr<ncclUniqueId> FetchId(const Nccl& nccl, const IdExchange& ids,
                                     const DeviceGroup& group) {
  ncclUniqueId id{};
  std::optional<std::string> put;
  if (group.devices[0] != nullptr) {
    RETURN_IF_ERROR(nccl.ToStatus(nccl.GetUniqueId(&id), "ncclGetUniqueId"));
    put.emplace(id.internal, sizeof(id.internal));
  }
  ASSIGN_OR_RETURN(const std::string bytes, ids(group.name, put));
  if (bytes.size() != sizeof(id.internal)) {
    return absl::InternalError("the id of NCCL's communicator \"" + group.name + "\" has " +
                               std::to_string(bytes.size()) + " bytes");
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

// Few enough that the kernels of all communicators of a device fit on it at once, with room for
// kernels that compute.
absl::StatusOr<int> CountCtas(const DeviceGroup& group) {
  int gpu = 0, processors = 0;
  RETURN_IF_ERROR(ToStatus(cudaGetDevice(&gpu), "cudaGetDevice"));
  RETURN_IF_ERROR(ToStatus(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu),
                           "cudaDeviceGetAttribute"));
  return std::clamp(processors / (2 * std::max(1, group.communicators)), 1, kMostCtas);
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
  absl::Status Wait() const {
    RETURN_IF_ERROR(device_->Attach());
    return ToStatus(cudaStreamSynchronize(stream_), "the first words of an exchange over NCCL");
  }

 private:
  Device* device_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float* words_ = nullptr;
};

// Calls of all members of this process as one group; `call` returns NCCL's result.
template <typename Call>
absl::Status ForMembers(const Nccl& nccl, const DeviceGroup& group, const char* what, Call call) {
  RETURN_IF_ERROR(nccl.ToStatus(nccl.GroupStart(), "ncclGroupStart"));
  absl::Status status;
  for (int m = 0; m < std::ssize(group.devices) && status.ok(); ++m) {
    if (group.devices[m] == nullptr) continue;
    status = group.devices[m]->Attach();
    if (status.ok()) status = nccl.ToStatus(call(m), what);
  }
  const ncclResult_t end = nccl.GroupEnd();
  return status.ok() ? nccl.ToStatus(end, what) : status;
}

// A sum of all and a word from each to each.
absl::Status Connect(const Nccl& nccl, const DeviceGroup& group, NcclCommunicator* communicator) {
  const int members = static_cast<int>(group.devices.size());
  std::vector<FirstWords> first;  // by member; nothing for members of other processes
  for (Device* device : group.devices) {
    FirstWords& of_member = first.emplace_back();
    if (device != nullptr) RETURN_IF_ERROR(of_member.Make(device, members));
  }
  RETURN_IF_ERROR(ForMembers(nccl, group, "a first sum", [&](int m) {
    float* words = first[m].words();
    return nccl.AllReduce(words, words + members, 1, ncclFloat32, ncclSum,
                          *communicator->FindComm(m), first[m].stream());
  }));
  RETURN_IF_ERROR(ForMembers(nccl, group, "first messages", [&](int m) {
    ncclResult_t result = ncclSuccess;
    const ncclComm_t comm = *communicator->FindComm(m);
    for (int peer = 0; peer < members && result == ncclSuccess; ++peer) {
      if (peer == m) continue;
      float* word = first[m].words() + peer;
      result = nccl.Send(word, 1, ncclFloat32, peer, comm, first[m].stream());
      if (result != ncclSuccess) break;
      result = nccl.Recv(word + members, 1, ncclFloat32, peer, comm, first[m].stream());
    }
    return result;
  }));
  for (int m = 0; m < members; ++m) {
    if (group.devices[m] != nullptr) RETURN_IF_ERROR(first[m].Wait());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(const Nccl& nccl,
                                                                   const IdExchange& ids,
                                                                   const DeviceGroup& group) {
  ASSIGN_OR_RETURN(const ncclUniqueId id, FetchId(nccl, ids, group));
  const int members = static_cast<int>(group.devices.size());
  auto communicator = std::make_unique<NcclCommunicator>(nccl, members);
  std::vector<ncclConfig_t> configs(members, ncclConfig_t NCCL_CONFIG_INITIALIZER);
  for (int m = 0; m < members; ++m) {
    if (group.devices[m] == nullptr) continue;
    RETURN_IF_ERROR(group.devices[m]->Attach());
    configs[m].blocking = 1;
    ASSIGN_OR_RETURN(configs[m].maxCTAs, CountCtas(group));
  }
  RETURN_IF_ERROR(ForMembers(nccl, group, "ncclCommInitRankConfig", [&](int m) {
    return nccl.CommInitRankConfig(communicator->FindComm(m), members, id, m, &configs[m]);
  }));
  RETURN_IF_ERROR(Connect(nccl, group, communicator.get()));
  return communicator;
}

}  // namespace oneflow::cuda
