// The contract of communicators (communicator.h) for the one over NCCL, on the emulated GPU: random
// exchanges with memory and streams on devices, under drawn schedules of the members, of their
// threads and of the devices.
#include "actor_runtime/cuda/exchange/nccl_communicator.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/device/cuda_device.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/exchange/nccl_for_test.h"
#include "actor_runtime/cuda/exchange/nccl_launch.h"
#include "actor_runtime/exchange/exchange_for_test.h"
#include "oneflow_core/plan/nccl_window.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow::cuda {
namespace {

// The inputs of a member for one exchange, and the addresses of its results.
struct Firing {
  std::vector<OnDevice> in, out;
  std::vector<const std::byte*> in_at;
  std::vector<std::byte*> out_at;
  std::vector<Bytes> wanted;
};

// A group with a device and a stream a member, and the exchanges that it is to go through.
class Scene {
 public:
  Scene(std::vector<ExchangeCase> cases, uint64_t seed, emulated::Model model,
        const Nccl& nccl = OpenTwin(), const NcclPatience& patience = Patience())
      : random_(seed), cases_(std::move(cases)), nccl_(nccl) {
    emulated::Reset({.devices = members(), .model = model, .seed = seed, .guard_memory = true});
    backend_ = BackendOverNccl(nccl_, patience);
    GroupUse use;
    for (int m = 0; m < members(); ++m) {
      auto device = backend_.make_device(m);
      Good(device.status());
      devices_.push_back(*std::move(device));
      auto stream = devices_[m]->MakeStream(4, /*timed=*/false);
      Good(stream.status());
      streams_.push_back(*std::move(stream));
      use.devices.push_back(devices_[m].get());
    }
    for (const ExchangeCase& c : cases_) Bring(c);
    for (const ExchangeWork& work : works_) {
      use.works.push_back(&work);
      for (int m = 0; m < members(); ++m) {
        for (const int peer : work.member_launch(m).peers) pairs_.insert(std::minmax({m, peer}));
      }
    }
    auto made = backend_.carrier->Make({}, use);
    Good(made.status());
    communicator_ = *std::move(made);
    communicator_->SetWake([this](int) { ++woken_; });
    entered_.resize(members());
    busy_.resize(members());
  }

  int members() const { return cases_[0].members(); }
  size_t exchanges() const { return cases_.size(); }
  Communicator& communicator() { return *communicator_; }
  int woken() const { return woken_; }
  std::mt19937_64& random() { return random_; }
  size_t entered(int member) const { return entered_[member]; }

  // Pairs of members that exchange messages.
  int pairs() const { return static_cast<int>(pairs_.size()); }

  // The member's own thread: enters the next exchange; then, while it is busy, Poll gives it to its
  // stream.
  Communicator::Progress Enter(int m) {
    Good(devices_[m]->Attach());
    const size_t x = entered_[m]++;
    const Firing& firing = firings_[x][m];
    communicator_->Enter(m, {&works_[x],
                             firing.in_at,
                             firing.out_at,
                             cases_[x].accumulate,
                             {workspaces_[x][m].at(), workspaces_[x][m].bytes()},
                             streams_[m].get()});
    busy_[m] = 1;
    return Poll(m);
  }
  bool busy(int m) const { return busy_[m] != 0; }
  Communicator::Progress Poll(int m) {
    Good(devices_[m]->Attach());
    const Communicator::Progress progress = communicator_->Poll(m, nullptr);
    if (progress == Communicator::kWaiting) return progress;
    busy_[m] = 0;
    if (progress == Communicator::kOver) {
      Good(streams_[m]->Record(static_cast<int64_t>(entered_[m]) - 1));
    }
    return progress;
  }
  // Until no member is busy.
  void Settle() {
    for (int m = 0; m < members(); m = busy(m) ? m : m + 1) {
      for (int other = m; other < members(); ++other) {
        if (busy(other)) REQUIRE(Poll(other) != Communicator::kFailed);
      }
    }
  }
  // After an abort.
  void AwaitFailure(int m) {
    while (Poll(m) != Communicator::kFailed) std::this_thread::yield();
  }
  // True if the member's stream has run the exchange that it entered last.
  bool IsOver(int m) {
    if (busy(m)) return false;
    Good(devices_[m]->Attach());
    const auto over = streams_[m]->IsOver(static_cast<int64_t>(entered_[m]) - 1);
    Good(over.status());
    return *over;
  }
  void Synchronize() {
    for (const auto& device : devices_) {
      Good(device->Attach());
      Good(device->Synchronize());
    }
  }

  void CheckResults(size_t exchanges) {
    for (size_t x = 0; x < exchanges; ++x) {
      for (int m = 0; m < members(); ++m) {
        for (size_t t = 0; t < firings_[x][m].out.size(); ++t) {
          INFO("exchange " << x << ": " << Describe(cases_[x]) << ", member " << m << ", tensor "
                           << t);
          CheckTensor(cases_[x], t, firings_[x][m].out[t].Read(), firings_[x][m].wanted[t]);
        }
      }
    }
  }

 private:
  // Sums in f32 of more than two are in NCCL's order; in bf16 they are rounded at every hop.
  static void CheckTensor(const ExchangeCase& c, size_t t, const Bytes& is, const Bytes& wanted) {
    const TensorCase& tensor = c.tensors[t];
    const bool sums =
        tensor.reduce == 1 && std::any_of(tensor.from.begin(), tensor.from.end(),
                                          [](const Sbp& sbp) { return sbp.partial(); });
    if (!sums) {
      REQUIRE(is == wanted);
      return;
    }
    const bool narrow = tensor.dtype == DType::kBF16;
    const auto value = [&](const Bytes& bytes, size_t at) {
      float wide = 0;
      Bf16 stored;
      std::memcpy(narrow ? static_cast<void*>(&stored) : &wide, &bytes[at], narrow ? 2 : 4);
      return narrow ? ToFloat(stored) : wide;
    };
    REQUIRE(is.size() == wanted.size());
    for (size_t at = 0; at < is.size(); at += narrow ? 2 : 4) {
      const float want = value(wanted, at), most = narrow ? 0.05f : 1e-5f;
      REQUIRE(std::abs(value(is, at) - want) <= most * (1 + std::abs(want)));
    }
  }

  void Bring(const ExchangeCase& c) {
    const CaseMemory memory = RandomMemory(c, &random_);
    int64_t window = 0;
    for (const TensorCase& t : c.tensors) {
      ExchangedTensor tensor{.members = c.members(), .accumulates = c.accumulate};
      tensor.element_bytes = static_cast<int64_t>(ElementBytes(t.dtype));
      for (size_t a = 0; a < t.from.size(); ++a) {
        if (t.from[a].partial()) tensor.copies *= t.mesh.axes[a].size;
      }
      window += NcclWindow(MakeLayout(t.dims, t.from), MakeLayout(t.dims, t.to), t.mesh, tensor);
    }
    const absl::StatusOr<NcclLayout> layout = NcclLayout::Make(MakeSetups(c));
    Good(layout.status());
    ExchangeWork& work = works_.emplace_back();
    std::vector<Firing>& of_members = firings_.emplace_back();
    std::vector<OnDevice>& workspaces = workspaces_.emplace_back();
    for (int m = 0; m < c.members(); ++m) {
      const auto make = [&](const KernelSetup& s) { return backend_.make_kernel(*devices_[m], s); };
      auto launch = MakeNcclLaunch(*layout, m, c.accumulate, window, make, nccl_);
      Good(launch.status());
      work.SetLaunch(m, *std::move(launch));
      workspaces.emplace_back(devices_[m].get(), window);
      Firing& firing = of_members.emplace_back();
      firing.wanted = memory.wanted[m];
      for (const Bytes& bytes : memory.in[m]) {
        firing.in.emplace_back(devices_[m].get(), bytes.size()).Write(bytes);
        firing.in_at.push_back(firing.in.back().at());
      }
      for (const Bytes& bytes : memory.out[m]) {
        firing.out.emplace_back(devices_[m].get(), bytes.size()).Write(bytes);
        firing.out_at.push_back(firing.out.back().at());
      }
    }
  }

  std::mt19937_64 random_;
  const std::vector<ExchangeCase> cases_;
  const Nccl nccl_;
  DeviceBackend backend_;
  std::vector<std::unique_ptr<Device>> devices_;        // by member
  std::vector<std::unique_ptr<DeviceStream>> streams_;  // by member
  std::vector<ExchangeWork> works_;                     // by exchange
  std::vector<std::vector<Firing>> firings_;            // by exchange, member
  std::vector<std::vector<OnDevice>> workspaces_;       // by exchange, member
  std::vector<size_t> entered_;                         // by member
  std::vector<char> busy_;                              // by member
  std::set<std::pair<int, int>> pairs_;
  std::atomic<int> woken_{0};
  std::unique_ptr<Communicator> communicator_;  // gone before streams and devices
};

ExchangeCase DrawCase(int members, std::mt19937_64* random) {
  const char* const kinds[] = {"all_gather", "reduce_scatter", "all_reduce",
                               "all_to_all", "mixed",          "send"};
  return RandomCase(kinds[(*random)() % (members == 2 ? 6 : 5)], members, random);
}

std::vector<ExchangeCase> DrawCases(int members, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<ExchangeCase> cases;
  for (int i = 0; i < count; ++i) cases.push_back(DrawCase(members, &random));
  return cases;
}

emulated::Model MakeModel(uint64_t seed) { return emulated::kModels[seed % 3]; }

TEST_CASE("exchanges in a row, each member ahead of the others as far as it likes") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int members = 2 + static_cast<int>(seed % 3);
    {
      Scene scene(DrawCases(members, 4, seed), seed, MakeModel(seed));
      INFO("seed " << seed);
      emulated::BeginStep();
      while (true) {
        std::vector<int> choices;
        for (int m = 0; m < members; ++m) {
          if (scene.busy(m) || scene.entered(m) < scene.exchanges()) choices.push_back(m);
        }
        if (choices.empty()) break;
        const int m = choices[scene.random()() % choices.size()];
        REQUIRE((scene.busy(m) ? scene.Poll(m) : scene.Enter(m)) != Communicator::kFailed);
      }
      // No call blocks, allocates, makes a stream or an event, or connects; and only those are
      // connected that exchange messages.
      CHECK(emulated::EndStep().forbidden.empty());
      CHECK(emulated::Connections() == scene.pairs());
      scene.Synchronize();
      scene.CheckResults(scene.exchanges());
      CheckClean();
    }
    CHECK(emulated::LiveObjects() == 0);
  }
}

TEST_CASE("nothing is over before all have entered, and HasEntered says who has") {
  for (int missing = 0; missing < 3; ++missing) {
    std::mt19937_64 random(missing);
    Scene scene({RandomCase("all_gather", 3, &random)}, missing, MakeModel(missing));
    for (int m = 0; m < 3; ++m) {
      if (m != missing) REQUIRE(scene.Enter(m) != Communicator::kFailed);
    }
    for (int m = 0; m < 3; ++m) {
      if (m == missing) continue;
      for (int round = 0; round < 20; ++round) CHECK_FALSE(scene.IsOver(m));
      CHECK_FALSE(scene.communicator().HasEntered(missing, m));
      CHECK(scene.communicator().HasEntered(3 - m - missing, m));
    }
    REQUIRE(scene.Enter(missing) != Communicator::kFailed);
    scene.Settle();
    scene.Synchronize();
    scene.CheckResults(1);
    CheckClean();
  }
}

TEST_CASE("an abort at any moment fails all members, those that enter later, too") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int members = 2 + static_cast<int>(seed % 3);
    {
      Scene scene(DrawCases(members, 3, seed), seed, MakeModel(seed));
      INFO("seed " << seed);
      const int before = static_cast<int>(scene.random()() % (3 * members));
      for (int i = 0; i < before; ++i) {
        const int m = static_cast<int>(scene.random()() % members);
        if (scene.busy(m)) {
          REQUIRE(scene.Poll(m) != Communicator::kFailed);
        } else if (scene.entered(m) < 3) {
          REQUIRE(scene.Enter(m) != Communicator::kFailed);
        }
      }
      scene.communicator().Abort(absl::DataLossError("as asked"));
      scene.communicator().Abort(absl::InternalError("too late"));
      for (int m = 0; m < members; ++m) {
        scene.AwaitFailure(m);
        if (scene.entered(m) < 3) CHECK(scene.Enter(m) == Communicator::kFailed);
      }
      CHECK(scene.communicator().status().code() == absl::StatusCode::kDataLoss);
      while (scene.woken() < members) std::this_thread::yield();
      // Streams that waited for others wait no more.
      scene.Synchronize();
      CheckClean();
    }
    CHECK(emulated::LiveObjects() == 0);
  }
}

TEST_CASE("members on separate threads") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const int members = 2 + static_cast<int>(seed % 3);
    Scene scene(DrawCases(members, 6, seed), seed, MakeModel(seed));
    INFO("seed " << seed);
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (int m = 0; m < members; ++m) {
      threads.emplace_back([&, m] {
        for (size_t x = 0; x < scene.exchanges(); ++x) {
          if (scene.Enter(m) == Communicator::kFailed) ++failed;
          while (scene.busy(m)) {
            if (scene.Poll(m) == Communicator::kFailed) ++failed;
          }
          while (!scene.IsOver(m)) std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(failed == 0);
    scene.CheckResults(scene.exchanges());
    CheckClean();
  }
}

// The asynchronous error of a communicator from now on.
ncclResult_t async_error = ncclSuccess;

TEST_CASE("an asynchronous NCCL error ends the exchanges of the group") {
  async_error = ncclSuccess;
  Nccl nccl = OpenTwin();
  nccl.CommGetAsyncError = [](ncclComm_t comm, ncclResult_t* error) {
    const ncclResult_t result = ncclCommGetAsyncError(comm, error);
    if (async_error != ncclSuccess) *error = async_error;
    return result;
  };
  Scene scene(DrawCases(2, 2, 1), 1, emulated::Model::kFree, nccl);
  REQUIRE(scene.Enter(0) != Communicator::kFailed);
  async_error = ncclRemoteError;
  CHECK(scene.Enter(1) != Communicator::kOver);
  for (const int m : {0, 1}) scene.AwaitFailure(m);
  CHECK(scene.communicator().status().code() == absl::StatusCode::kInternal);
  scene.Synchronize();
}

TEST_CASE("a communicator that cannot be made says what failed, and leaves nothing behind") {
  for (const char* entry :
       {"ncclGetUniqueId", "ncclCommInitRank", "ncclAllReduce", "ncclSend", "cudaMalloc"}) {
    INFO(entry);
    emulated::Reset({.devices = 2});
    {
      const DeviceBackend backend = BackendOverNccl(OpenTwin());
      auto first = backend.make_device(0), second = backend.make_device(1);
      Good(first.status());
      Good(second.status());
      emulated::Fail(entry);
      ExchangeWork work;
      const auto nothing = [](const KernelCall&, void*, int) { return true; };
      work.SetLaunch(0, {nothing, {1}});
      work.SetLaunch(1, {nothing, {0}});
      const auto made =
          backend.carrier->Make({}, {.works = {&work}, .devices = {first->get(), second->get()}});
      CHECK_FALSE(made.ok());
    }
    CHECK(emulated::LiveObjects() == 0);
  }
}

TEST_CASE("a launch whose plan gives it too little workspace is refused") {
  emulated::Reset({.devices = 2});
  TensorCase t{.mesh = Mesh{{{"a", 2}}}, .dims = {64, 32}, .from = {S(1)}, .to = {B()}};
  const Nccl nccl = OpenTwin();
  const absl::StatusOr<NcclLayout> layout = NcclLayout::Make(MakeSetups({.tensors = {t}}));
  Good(layout.status());
  const auto make = [](const KernelSetup& s) { return MakeCudaKernel(s, {}); };
  CHECK(MakeNcclLaunch(*layout, 0, false, 64 * 32 * 4, make, nccl).ok());
  CHECK_FALSE(MakeNcclLaunch(*layout, 0, false, 64 * 32 * 4 - 64, make, nccl).ok());
}

// Two processes: each knows its own device and communicator only.
TEST_CASE("members of several processes meet by ids that are exchanged") {
  emulated::Reset({.devices = 2});
  const IdExchange ids = IdsInMemory();
  const auto nccl = std::make_shared<const Nccl>(OpenTwin());
  std::atomic<int> met{0};
  std::vector<std::thread> processes;
  for (int m = 0; m < 2; ++m) {
    processes.emplace_back([&, m] {
      auto device = MakeCudaDevice(m);
      GroupUse use{.devices = {nullptr, nullptr}};
      use.devices[m] = device->get();
      const auto communicator =
          MakeNcclCommunicator(std::make_shared<NcclComms>(nccl, Patience()), ids, "pair", use);
      if (communicator.ok()) ++met;
    });
  }
  for (std::thread& process : processes) process.join();
  CHECK(met == 2);
  CHECK(emulated::LiveObjects() == 0);
}

TEST_CASE("where a member does not come the communicator is not made, in bounded time") {
  emulated::Reset({.devices = 1});
  {
    NcclPatience patience = Patience();
    patience.meet = std::chrono::milliseconds(1);
    const DeviceBackend backend = BackendOverNccl(OpenTwin(), patience);
    auto device = backend.make_device(0);
    Good(device.status());
    const auto made =
        backend.carrier->Make({.id = 7}, {.devices = {device->get(), nullptr}, .run = 2});
    CHECK(made.status().code() == absl::StatusCode::kDeadlineExceeded);
    CHECK(made.status().message() ==
          "the members of NCCL's communicator \"7.2.1\" did not connect within 1 ms: see whether "
          "all processes of the run are there");
  }
  CHECK(emulated::LiveObjects() == 0);
}

TEST_CASE("an id that nobody makes known is waited for in vain") {
  const IdExchange ids = IdsInMemory(std::chrono::milliseconds(0));
  CHECK(ids("g", std::nullopt).status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(*ids("g", "an id") == "an id");
  CHECK(*ids("g", std::nullopt) == "an id");
  CHECK_FALSE(ids("h", std::nullopt).ok());
}

}  // namespace
}  // namespace oneflow::cuda
