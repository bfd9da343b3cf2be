#include "actor_runtime/exchange/local_exchange.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

// Several pieces.
constexpr int64_t kElements = 100'003;

Port PortAt(int member, const Slice& slice) {
  Port port;
  port.dims = {kElements};
  port.slice = slice;
  port.coordinate = {member};
  return port;
}

// Every member has all elements of its own, and gets the sum.
ExchangeWork AllReduce(int members) {
  std::vector<Port> all;
  for (int m = 0; m < members; ++m) all.push_back(PortAt(m, {{0}, {kElements}}));
  std::vector<KernelSetup> setups;
  for (int m = 0; m < members; ++m) {
    KernelSetup setup;
    setup.in = {all};
    setup.out = {all[m]};
    setup.mesh = Mesh{{{"data", members}}};
    setup.coordinate = {m};
    setup.reduce = 1;
    setup.reduce_axes = {0};
    setups.push_back(setup);
  }
  absl::StatusOr<ExchangeWork> work = ExchangeWork::Make({setups});
  REQUIRE(work.ok());
  return *std::move(work);
}

// Member 0 has what member 1 wants.
ExchangeWork SendReceive() {
  KernelSetup send, receive;
  receive.in = {{PortAt(0, {{0}, {kElements}})}};
  receive.out = {PortAt(1, {{0}, {kElements}})};
  receive.coordinate = {1};
  absl::StatusOr<ExchangeWork> work = ExchangeWork::Make({{send, receive}});
  REQUIRE(work.ok());
  return *std::move(work);
}

struct Member {
  std::vector<float> in = std::vector<float>(kElements), out = std::vector<float>(kElements);

  void Enter(LocalExchange* exchange, int member, bool accumulate = false) {
    const std::byte* input = reinterpret_cast<const std::byte*>(in.data());
    std::byte* output = reinterpret_cast<std::byte*>(out.data());
    exchange->Enter(member, {&input, 1}, {&output, 1}, accumulate);
  }
  bool AllAre(float value) const {
    return std::all_of(out.begin(), out.end(), [value](float x) { return x == value; });
  }
};

TEST_CASE("nobody waits for a member that has entered: who looks does all of the work") {
  LocalExchange exchange(2, AllReduce(2));
  REQUIRE(exchange.work().pieces() > 4);
  std::vector<Member> members(2);
  members[0].in.assign(kElements, 1);
  members[1].in.assign(kElements, 2);
  for (int firing = 0; firing < 3; ++firing) {
    members[0].Enter(&exchange, 0);
    CHECK(exchange.Poll(0, nullptr) == LocalExchange::kWaiting);
    CHECK_FALSE(exchange.HasNews(0));
    CHECK_FALSE(exchange.HasEntered(1, 0));
    members[1].Enter(&exchange, 1);
    CHECK(exchange.HasEntered(1, 0));
    CHECK(exchange.HasNews(0));
    CHECK(exchange.Poll(1, nullptr) == LocalExchange::kOver);
    CHECK(exchange.HasNews(0));
    CHECK(exchange.Poll(0, nullptr) == LocalExchange::kOver);
    CHECK(members[0].AllAre(3));
    CHECK(members[1].AllAre(3));
  }
}

TEST_CASE("the others are woken when all have entered, and when it is over") {
  LocalExchange exchange(3, AllReduce(3));
  std::string woken;
  exchange.SetWake([&](int member) { woken += std::to_string(member); });
  std::vector<Member> members(3);
  members[2].Enter(&exchange, 2);
  members[0].Enter(&exchange, 0);
  CHECK(woken.empty());
  members[1].Enter(&exchange, 1);
  CHECK(woken == "02");
  CHECK(exchange.Poll(0, nullptr) == LocalExchange::kOver);
  CHECK(woken == "0212");
}

TEST_CASE("a send has no output, a receive no input; what was there is added last") {
  LocalExchange exchange(2, SendReceive());
  Member sender, receiver;
  sender.in.assign(kElements, 5);
  receiver.out.assign(kElements, 7);
  const std::byte* input = reinterpret_cast<const std::byte*>(sender.in.data());
  std::byte* output = reinterpret_cast<std::byte*>(receiver.out.data());
  exchange.Enter(1, {}, {&output, 1}, /*accumulate=*/true);
  exchange.Enter(0, {&input, 1}, {}, /*accumulate=*/false);
  CHECK(exchange.Poll(0, nullptr) == LocalExchange::kOver);
  CHECK(exchange.Poll(1, nullptr) == LocalExchange::kOver);
  CHECK(receiver.AllAre(12));
}

TEST_CASE("after a reset it is as at first, whoever had entered") {
  LocalExchange exchange(2, AllReduce(2));
  std::vector<Member> members(2);
  members[0].in.assign(kElements, 1);
  members[1].in.assign(kElements, 1);
  members[0].Enter(&exchange, 0);
  exchange.Reset();
  members[1].Enter(&exchange, 1);
  CHECK(exchange.Poll(1, nullptr) == LocalExchange::kWaiting);
  members[0].Enter(&exchange, 0);
  CHECK(exchange.Poll(0, nullptr) == LocalExchange::kOver);
  CHECK(members[1].AllAre(2));
}

TEST_CASE("without work it is over when all have entered") {
  LocalExchange exchange(2, ExchangeWork());
  exchange.Enter(0, {}, {}, false);
  CHECK(exchange.Poll(0, nullptr) == LocalExchange::kWaiting);
  exchange.Enter(1, {}, {}, false);
  CHECK(exchange.Poll(0, nullptr) == LocalExchange::kOver);
  CHECK(exchange.Poll(1, nullptr) == LocalExchange::kOver);
}

TEST_CASE("members on threads, with pools of their own, sum alike in every firing") {
  constexpr int kMembers = 3, kFirings = 100;
  LocalExchange exchange(kMembers, AllReduce(kMembers));
  std::vector<std::thread> threads;
  std::vector<int> wrong(kMembers, 0);
  for (int m = 0; m < kMembers; ++m) {
    threads.emplace_back([&, m] {
      ThreadPool pool(1 + m % 2);
      Member member;
      for (int firing = 0; firing < kFirings; ++firing) {
        member.in.assign(kElements, static_cast<float>(firing * (m + 1)));
        member.Enter(&exchange, m);
        while (exchange.Poll(m, &pool) != LocalExchange::kOver) std::this_thread::yield();
        wrong[m] += member.AllAre(static_cast<float>(firing * 6)) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(kMembers, 0));
}

}  // namespace
}  // namespace oneflow
