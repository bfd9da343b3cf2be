// The suite of communicators over UCX: processes that are played by one, over shared memory and
// over TCP on loopback.
#include "actor_runtime/network/ucx_network.h"

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/exchange/communicator_suite.h"

namespace oneflow {
namespace {

constexpr int kMostProcesses = 4;

// Networks of processes that are all connected; each is made once.
const std::vector<std::unique_ptr<UcxNetwork>>& Networks(const std::string& transports) {
  static std::map<std::string, std::vector<std::unique_ptr<UcxNetwork>>> all;
  std::vector<std::unique_ptr<UcxNetwork>>& networks = all[transports];
  if (!networks.empty()) return networks;
  for (int p = 0; p < kMostProcesses; ++p) {
    UcxOptions options{.process = p, .processes = kMostProcesses, .job = 42, .attempt = 3};
    options.transports = transports;
    options.interface = "lo";
    networks.push_back(UcxNetwork::Open(options, [](int, const absl::Status&) {}).value());
  }
  for (int p = 0; p < kMostProcesses; ++p) {
    for (int other = 0; other < kMostProcesses; ++other) {
      if (other == p) continue;
      const absl::Status connected = networks[p]->Connect(other, networks[other]->address());
      REQUIRE(connected.ok());
    }
  }
  return networks;
}

class UcxGroup final : public GroupForTest {
 public:
  UcxGroup(const std::string& transports, const std::vector<ExchangeCase>& cases, uint64_t seed)
      : networks_(Networks(transports)), workspaces_(cases[0].members()) {
    static std::atomic<uint64_t> communicators{0};
    const int members = cases[0].members();
    // Members of a process need not be neighbours.
    for (int m = 0; m < members; ++m) process_.push_back(m * 3 % std::min(members, kMostProcesses));
    size_t tensors = 0;
    for (const ExchangeCase& c : cases) tensors = std::max(tensors, c.tensors.size());
    const uint64_t number = ++communicators;
    const ExchangeBounds bounds{static_cast<int>(tensors), 1000};
    const int64_t most = seed % 2 == 0 ? 1 << 20 : 1000;
    for (int p = 0; p < kMostProcesses; ++p) {
      std::vector<char> near;
      for (const int home : process_) near.push_back(home == p ? 1 : 0);
      works_.emplace_back();
      if (std::count(near.begin(), near.end(), 1) == 0) {
        communicators_.emplace_back();
        continue;
      }
      for (const ExchangeCase& c : cases) {
        works_[p].push_back(PlanWork(c, near, most).work);
        for (int m = 0; m < members; ++m) {
          if (near[m] == 0) continue;
          const int64_t bytes = 2 * works_[p].back().WindowBytes(m, c.accumulate);
          workspaces_[m].resize(std::max<size_t>(workspaces_[m].size(), bytes));
        }
      }
      communicators_.push_back(
          networks_[p]->MakeCommunicator(MakeGroup(number, process_, p), bounds));
    }
  }
  ~UcxGroup() override {
    while (UnderWay() > 0) Deliver(0);
  }
  Communicator& FindCommunicator(int member) override { return *communicators_[process_[member]]; }
  bool Together(int member, int other) const override {
    return process_[member] == process_[other];
  }
  const ExchangeWork* FindWork(size_t exchange, int member) override {
    return &works_[process_[member]][exchange];
  }
  std::span<std::byte> FindWorkspace(int member) override { return workspaces_[member]; }
  void SetWake(std::function<void(int)> wake) override {
    for (const auto& communicator : communicators_) {
      if (communicator != nullptr) communicator->SetWake(wake);
    }
  }
  size_t UnderWay() override {
    int64_t sent = 0, received = 0, pending = 0;
    for (const auto& network : networks_) {
      const NetworkTotals totals = network->totals();
      sent += totals.messages_sent;
      received += totals.messages_received;
      pending += totals.pending;
    }
    return pending + std::max<int64_t>(0, sent - received);
  }
  // UCX chooses what goes on.
  void Deliver(uint64_t random) override {
    for (size_t p = 0; p < networks_.size(); ++p) {
      networks_[(p + random) % networks_.size()]->Progress();
    }
  }
  absl::Status DeliverDamaged(uint64_t) override { return absl::UnavailableError(""); }
  bool Touches(int) override { return false; }

 private:
  const std::vector<std::unique_ptr<UcxNetwork>>& networks_;  // by process
  std::vector<int> process_;                                  // by member
  std::vector<std::vector<std::byte>> workspaces_;            // by member
  std::vector<std::vector<ExchangeWork>> works_;              // by process, exchange
  std::vector<std::unique_ptr<Communicator>> communicators_;  // by process
};

MakerForTest MakerOver(const char* name, const std::string& transports) {
  return {name, [transports](const std::vector<ExchangeCase>& cases, uint64_t seed) {
            return std::make_unique<UcxGroup>(transports, cases, seed);
          }};
}

TEST_CASE("a peer that sends no beat is reported, by name, and breaks nothing by itself") {
  for (const char* transports : {"posix,self", "tcp,self"}) {
    std::promise<std::pair<int, absl::Status>> reported;
    UcxOptions options{.process = 0, .processes = 2, .job = 42, .transports = transports};
    options.interface = "lo";
    auto watching = UcxNetwork::Open(options, [&](int process, const absl::Status& why) {
                      reported.set_value({process, why});
                    }).value();
    options.process = 1;
    auto mute = UcxNetwork::Open(options, [](int, const absl::Status&) {}).value();
    REQUIRE(watching->Connect(1, mute->address(), "host b (process 1)").ok());
    REQUIRE(mute->Connect(0, watching->address()).ok());
    const auto communicator = watching->MakeCommunicator(MakeGroup(1, {0, 1}, /*self=*/0), {});
    watching->Start();
    mute->Start();
    watching->Watch(kJobSecond / 5);
    const auto [process, why] = reported.get_future().get();
    CHECK(process == 1);
    CHECK(absl::IsUnavailable(why));
    CHECK_THAT(std::string(why.message()),
               Catch::StartsWith("it has not heard host b (process 1) on the data network for "));
    CHECK(communicator->status().ok());
    watching->LetGo(why);
    CHECK(communicator->status() == why);
  }
}

}  // namespace

const std::vector<MakerForTest>& CommunicatorMakers() {
  static const std::vector<MakerForTest> makers = {MakerOver("UCX over shared memory", "sysv,self"),
                                                   MakerOver("UCX over TCP", "tcp,self")};
  return makers;
}

}  // namespace oneflow
