// The end of communicators of NCCL: aborted together, in bounded time.
#include "actor_runtime/cuda/exchange/nccl_comms.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/exchange/nccl_for_test.h"

namespace oneflow::cuda {
namespace {

// Three devices; the first is in both groups, and waits in both for the others.
class TwoGroups {
 public:
  TwoGroups(const Nccl& nccl, const NcclPatience& patience) {
    emulated::Reset({.devices = 3});
    backend_ = BackendOverNccl(nccl, patience);
    for (int d = 0; d < 3; ++d) {
      auto device = backend_.make_device(d);
      Good(device.status());
      devices_.push_back(*std::move(device));
    }
    for (const int other : {1, 2}) {
      const Group pair{.id = static_cast<uint64_t>(other)};
      auto made = backend_.carrier->Make(
          pair, {.devices = {devices_[0].get(), devices_[other].get()}, .communicators = 2});
      Good(made.status());
      communicators_.push_back(*std::move(made));
      auto stream = devices_[0]->MakeStream(1, /*timed=*/false);
      Good(stream.status());
      streams_.push_back(*std::move(stream));
      communicators_.back()->Enter(
          0, {&work_, {&in_, 1}, {&out_, 1}, false, {}, streams_.back().get()});
    }
  }
  // A launch for all exchanges of member 0.
  void SetLaunch(MemberLaunch launch) { work_.SetLaunch(0, std::move(launch)); }
  void Remove(int i) { communicators_[i] = nullptr; }
  Communicator& communicator(int i) { return *communicators_[i]; }
  Device& device() { return *devices_[0]; }

 private:
  DeviceBackend backend_;
  ExchangeWork work_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<DeviceStream>> streams_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

TEST_CASE("communicators that are joined by devices are aborted together") {
  {
    TwoGroups groups(OpenTwin(), Patience());
    const OnDevice words(&groups.device(), 8);
    groups.SetLaunch({[&](const KernelCall& call, void* comm, int) -> absl::StatusOr<bool> {
      auto* word = reinterpret_cast<float*>(words.at());
      const ncclResult_t result =
          ncclAllReduce(word, word, 1, ncclFloat32, ncclSum, static_cast<ncclComm_t>(comm),
                        static_cast<cudaStream_t>(call.stream));
      CHECK(result == ncclInProgress);
      return true;
    }});
    for (const int i : {0, 1}) {
      for (int look = 0; look < 100; ++look) groups.communicator(i).Poll(0, nullptr);
    }
    groups.communicator(1).Abort(absl::DataLossError("as asked"));
    for (const int i : {0, 1}) {
      while (groups.communicator(i).Poll(0, nullptr) != Communicator::kFailed) {
        std::this_thread::yield();
      }
      CHECK(groups.communicator(i).status() == absl::DataLossError("as asked"));
    }
    Good(groups.device().Attach());
    Good(groups.device().Synchronize());
    CheckClean();
  }
  CHECK(emulated::LiveObjects() == 0);
}

std::atomic<bool> nccl_hangs{false};

TEST_CASE(
    "communicators that share devices are destroyed together, and waited for in vain no longer") {
  {
    Nccl nccl = OpenTwin();
    nccl.CommDestroy = [](ncclComm_t comm) {
      while (nccl_hangs) std::this_thread::yield();
      return ncclCommDestroy(comm);
    };
    TwoGroups groups(nccl, {.end = std::chrono::milliseconds(20)});
    groups.Remove(0);
    CHECK(emulated::CallCounts()["ncclCommDestroy"] == 0);  // The other one is used.
    nccl_hangs = true;
    groups.Remove(1);
    nccl_hangs = false;
  }
  while (emulated::LiveObjects() > 0) std::this_thread::yield();
  CHECK(emulated::CallCounts()["ncclCommDestroy"] == 4);
}

TEST_CASE("an abort in which NCCL hangs blocks nobody, and ends the process in bounded time") {
  std::string said;
  {
    Nccl nccl = OpenTwin();
    nccl.CommAbort = [](ncclComm_t comm) {
      while (nccl_hangs) std::this_thread::yield();
      return ncclCommAbort(comm);
    };
    const NcclPatience patience{.abort = std::chrono::milliseconds(20),
                                .on_hang = [&](const std::string& sentence) {
                                  said = sentence;
                                  nccl_hangs = false;
                                }};
    TwoGroups groups(nccl, patience);
    nccl_hangs = true;
    groups.communicator(0).Abort(absl::DataLossError("a disk is full"));
    CHECK(groups.communicator(1).status() == absl::DataLossError("a disk is full"));
    while (groups.communicator(0).Poll(0, nullptr) != Communicator::kFailed) {
      std::this_thread::yield();
    }
  }
  CHECK(said ==
        "NCCL: communicators could not be aborted after \"a disk is full\" within 0.02 s: the "
        "process ends");
  CHECK(emulated::LiveObjects() == 0);
}

}  // namespace
}  // namespace oneflow::cuda
