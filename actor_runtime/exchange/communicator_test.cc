// The suite that every maker of communicators passes: the contract of communicator.h, under seeded
// interleavings of the members, of their threads, and of the messages between them.
#include "actor_runtime/exchange/communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/device/counted_allocations.h"
#include "actor_runtime/exchange/exchange_for_test.h"
#include "actor_runtime/exchange/group_for_test.h"
#include "actor_runtime/exchange/local_communicator.h"

namespace oneflow {
namespace {

constexpr std::byte kPaint{0xa5};
const char* const kKinds[] = {"all_gather", "reduce_scatter", "all_reduce",
                              "all_to_all", "send",           "mixed"};

struct Maker {
  const char* name;
  std::function<std::unique_ptr<GroupForTest>(const std::vector<ExchangeCase>& cases,
                                              uint64_t seed)>
      make;
};

// By member: process m * factor mod most.
std::vector<int> Processes(int members, int factor, int most) {
  std::vector<int> process;
  for (int m = 0; m < members; ++m) process.push_back(m * factor % most);
  return process;
}

const std::vector<Maker>& Makers() {
  using Cases = std::vector<ExchangeCase>;
  static const std::vector<Maker> makers = {
      {"threads of one process", [](const Cases& c, uint64_t) { return MakeLocalGroup(c); }},
      {"all members far",
       [](const Cases& c, uint64_t seed) {
         return MakeFarGroup(c, Processes(c[0].members(), 1, c[0].members()), seed);
       }},
      {"some members far",
       [](const Cases& c, uint64_t seed) {
         // Members of a process need not be neighbours.
         return MakeFarGroup(c, Processes(c[0].members(), 3, c[0].members() > 4 ? 4 : 2), seed);
       }},
  };
  return makers;
}

// A member that goes through the exchanges, one after the other. Its memory is checked and painted
// over as soon as it is its own again.
class Member {
 public:
  Member(GroupForTest* group, const std::vector<ExchangeCase>* cases, int index)
      : group_(*group), cases_(*cases), index_(index) {}

  // Before the first step: what it brings to each exchange.
  void Bring(const CaseMemory& memory) {
    memory_.push_back({memory.in[index_], memory.out[index_], memory.wanted[index_], {}, {}});
    Firing& firing = memory_.back();
    for (const std::vector<std::byte>& bytes : firing.in) firing.in_at.push_back(bytes.data());
    for (std::vector<std::byte>& bytes : firing.out) firing.out_at.push_back(bytes.data());
  }

  bool over() const { return failed_ || exchange_ == memory_.size(); }
  bool failed() const { return failed_; }
  bool entered() const { return entered_; }
  size_t exchange() const { return exchange_; }
  bool HasNews() { return entered_ && group_.Of(index_).HasNews(index_); }

  // One call of the communicator. Whether it would do more at once.
  bool Step(ThreadPool* pool) {
    Communicator& communicator = group_.Of(index_);
    const int64_t allocations = Allocations();
    if (!entered_) {
      Firing& firing = memory_[exchange_];
      entered_ = true;
      communicator.Enter(index_, {group_.WorkOf(exchange_, index_), firing.in_at, firing.out_at,
                                  cases_[exchange_].accumulate, group_.WorkspaceOf(index_)});
      allocated_ += Allocations() - allocations;
      return true;
    }
    const Communicator::Progress progress = communicator.Poll(index_, pool);
    allocated_ += Allocations() - allocations;
    switch (progress) {
      case Communicator::kWaiting: return false;
      case Communicator::kWorked: return true;
      case Communicator::kFailed:
        failed_ = true;
        Paint();
        return false;
      case Communicator::kOver: break;
    }
    const Firing& firing = memory_[exchange_];
    wrong_ += firing.out != firing.wanted ? 1 : 0;
    Paint();
    entered_ = false;
    ++exchange_;
    return !over();
  }

  int wrong() const { return wrong_; }
  // By its calls; of all threads, so only where there is one.
  int64_t allocated() const { return allocated_; }
  // Whether nobody has touched its memory since it was its own again.
  bool Untouched() const {
    const auto painted = [](const std::vector<std::byte>& bytes) {
      return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kPaint; });
    };
    return std::all_of(memory_.begin(), memory_.begin() + exchange_ + (failed_ ? 1 : 0),
                       [&](const Firing& firing) {
                         return std::all_of(firing.in.begin(), firing.in.end(), painted) &&
                                std::all_of(firing.out.begin(), firing.out.end(), painted);
                       });
  }

 private:
  struct Firing {
    std::vector<std::vector<std::byte>> in, out, wanted;
    std::vector<const std::byte*> in_at;
    std::vector<std::byte*> out_at;
  };
  void Paint() {
    wrong_ += group_.Touches(index_) ? 1 : 0;
    for (auto& bytes : memory_[exchange_].in) std::fill(bytes.begin(), bytes.end(), kPaint);
    for (auto& bytes : memory_[exchange_].out) std::fill(bytes.begin(), bytes.end(), kPaint);
  }

  GroupForTest& group_;
  const std::vector<ExchangeCase>& cases_;
  const int index_;
  std::vector<Firing> memory_;  // by exchange
  size_t exchange_ = 0;
  bool entered_ = false, failed_ = false;
  int wrong_ = 0;
  int64_t allocated_ = 0;
};

// Exchanges of a group, and its members.
struct Scene {
  Scene(const Maker& maker, std::vector<ExchangeCase> of_cases, std::mt19937_64* random)
      : cases(std::move(of_cases)), group(maker.make(cases, (*random)())) {
    for (int m = 0; m < cases[0].members(); ++m) members.emplace_back(group.get(), &cases, m);
    for (const ExchangeCase& c : cases) {
      const CaseMemory memory = RandomMemory(c, random);
      for (Member& member : members) member.Bring(memory);
    }
  }
  std::vector<ExchangeCase> cases;
  std::unique_ptr<GroupForTest> group;
  std::vector<Member> members;
};

// All on one thread, in an order that is drawn. A member makes a step when it is new to an
// exchange, when its own last step said that there is more, or when it was woken: one that nobody
// wakes for its news stays where it is. `before_event`: told the number of the event.
void Play(Scene* scene, std::mt19937_64* random,
          const std::function<void(int event)>& before_event = nullptr) {
  const int members = static_cast<int>(scene->members.size());
  std::vector<char> awake(members, 1);
  scene->group->SetWake([&](int member) { awake[member] = 1; });
  for (int event = 0;; ++event) {
    if (before_event) before_event(event);
    std::vector<int> choices;
    for (int m = 0; m < members; ++m) {
      if (awake[m] != 0 && !scene->members[m].over()) choices.push_back(m);
    }
    const size_t all = choices.size() + scene->group->UnderWay();
    if (all == 0) break;
    const size_t choice = (*random)() % all;
    if (choice >= choices.size()) {
      scene->group->Deliver((*random)());
      continue;
    }
    const int m = choices[choice];
    awake[m] = 0;
    if (scene->members[m].Step(nullptr)) awake[m] = 1;
  }
}

std::vector<ExchangeCase> RandomCases(int members, int count, std::mt19937_64* random) {
  std::vector<ExchangeCase> cases;
  for (int i = 0; i < count; ++i) {
    const std::string kind = kKinds[(*random)() % std::size(kKinds)];
    cases.push_back(RandomCase(kind == "send" && members != 2 ? "mixed" : kind, members, random));
  }
  return cases;
}

TEST_CASE("each kind of exchange gives every member its slice, summed in rank order") {
  for (const Maker& maker : Makers()) {
    for (const std::string kind : kKinds) {
      for (const int members : {2, 3, 4, 8}) {
        if (kind == "send" && members != 2) continue;
        for (uint64_t seed = 0; seed < 8; ++seed) {
          std::mt19937_64 random(seed);
          Scene scene(maker, {RandomCase(kind, members, &random)}, &random);
          INFO(maker.name << ", seed " << seed << ": " << Describe(scene.cases[0]));
          Play(&scene, &random);
          for (const Member& member : scene.members) {
            REQUIRE(member.over());
            REQUIRE(member.wrong() == 0);
            REQUIRE(member.Untouched());
          }
        }
      }
    }
  }
}

TEST_CASE("many exchanges in a row, of different kinds: who is over early may enter the next") {
  for (const Maker& maker : Makers()) {
    for (uint64_t seed = 0; seed < 24; ++seed) {
      std::mt19937_64 random(seed);
      const int members = std::vector{2, 3, 4, 8}[seed % 4];
      Scene scene(maker, RandomCases(members, 12, &random), &random);
      INFO(maker.name << ", seed " << seed);
      Play(&scene, &random);
      for (const Member& member : scene.members) {
        REQUIRE(member.exchange() == scene.cases.size());
        REQUIRE(member.wrong() == 0);
        REQUIRE(member.Untouched());
        REQUIRE(member.allocated() == 0);
      }
    }
  }
}

TEST_CASE("nothing is over before all have entered; who has not is told from who has") {
  for (const Maker& maker : Makers()) {
    for (int missing = 0; missing < 3; ++missing) {
      std::mt19937_64 random(missing);
      Scene scene(maker, {RandomCase("all_gather", 3, &random)}, &random);
      for (int round = 0; round < 10; ++round) {
        for (int m = 0; m < 3; ++m) {
          if (m != missing) scene.members[m].Step(nullptr);
        }
        while (scene.group->UnderWay() > 0) scene.group->Deliver(random());
      }
      INFO(maker.name);
      for (int m = 0; m < 3; ++m) {
        if (m == missing) continue;
        CHECK(scene.members[m].exchange() == 0);
        CHECK_FALSE(scene.members[m].HasNews());
        CHECK_FALSE(scene.group->Of(m).HasEntered(missing, m));
        // A process says so when all of its members have.
        const int other = 3 - m - missing;
        const GroupForTest& group = *scene.group;
        CHECK(scene.group->Of(m).HasEntered(other, m) ==
              (group.Together(other, m) || !group.Together(other, missing)));
      }
      Play(&scene, &random);
      CHECK(scene.members[missing].over());
    }
  }
}

TEST_CASE("an abort at any moment fails all members, those that enter later, too") {
  for (const Maker& maker : Makers()) {
    for (uint64_t seed = 0; seed < 150; ++seed) {
      std::mt19937_64 random(seed);
      const int members = 2 + static_cast<int>(seed % 3);
      Scene scene(maker, RandomCases(members, 4, &random), &random);
      const int at = static_cast<int>(random() % 40), by = static_cast<int>(random() % members);
      Play(&scene, &random, [&](int event) {
        if (event < at) return;
        // Once is enough; again changes nothing.
        scene.group->Of(by).Abort(event == at ? absl::DataLossError("as asked")
                                              : absl::InternalError("too late"));
      });
      INFO(maker.name << ", seed " << seed << ", at event " << at);
      for (int m = 0; m < members; ++m) {
        const Member& member = scene.members[m];
        REQUIRE(member.over());
        REQUIRE(member.wrong() == 0);
        REQUIRE(member.Untouched());
        if (!member.failed()) continue;
        REQUIRE_FALSE(scene.group->Of(m).status().ok());
      }
      CHECK((scene.group->Of(by).status().ok() ||
             scene.group->Of(by).status().code() == absl::StatusCode::kDataLoss));
    }
  }
}

// All members, and one thread more that delivers messages. Returns when all are over.
void LiveTogether(Scene* scene, uint64_t seed, int abort_by = -1) {
  const int members = static_cast<int>(scene->members.size());
  std::vector<std::unique_ptr<std::binary_semaphore>> wakes;
  std::vector<std::unique_ptr<std::atomic<bool>>> asked;
  for (int m = 0; m < members; ++m) {
    wakes.push_back(std::make_unique<std::binary_semaphore>(0));
    asked.push_back(std::make_unique<std::atomic<bool>>(false));
  }
  // A binary semaphore must not be released twice.
  scene->group->SetWake([&](int member) {
    if (!asked[member]->exchange(true)) wakes[member]->release();
  });
  std::atomic<int> living = members;
  std::vector<std::thread> threads;
  for (int m = 0; m < members; ++m) {
    threads.emplace_back([&, m] {
      Member& member = scene->members[m];
      ThreadPool pool(1 + m % 2);
      while (!member.over()) {
        if (member.Step(&pool) || member.over()) continue;
        wakes[m]->acquire();
        asked[m]->store(false);
        // The others are in the middle of it.
        if (m == abort_by) scene->group->Of(m).Abort(absl::AbortedError("as asked"));
      }
      --living;
    });
  }
  std::mt19937_64 random(seed);
  while (living > 0) {
    if (scene->group->UnderWay() > 0) {
      scene->group->Deliver(random());
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("members on threads, with pools of their own, lose no wake-up and no bit") {
  for (const Maker& maker : Makers()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::mt19937_64 random(seed);
      Scene scene(maker, RandomCases(2 + static_cast<int>(seed % 3), 10, &random), &random);
      LiveTogether(&scene, seed);
      INFO(maker.name << ", seed " << seed);
      for (const Member& member : scene.members) {
        REQUIRE(member.exchange() == scene.cases.size());
        REQUIRE(member.wrong() == 0);
        REQUIRE(member.Untouched());
      }
    }
  }
}

TEST_CASE("a member that aborts ends the others on their threads") {
  for (const Maker& maker : Makers()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::mt19937_64 random(seed);
      const int members = 2 + static_cast<int>(seed % 3);
      Scene scene(maker, RandomCases(members, 6, &random), &random);
      LiveTogether(&scene, seed, static_cast<int>(seed % members));
      INFO(maker.name << ", seed " << seed);
      for (const Member& member : scene.members) {
        REQUIRE(member.wrong() == 0);
        REQUIRE(member.Untouched());
      }
    }
  }
}

TEST_CASE("messages that do not belong are refused, and change nothing") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    Scene scene(Makers()[1 + seed % 2], RandomCases(2 + static_cast<int>(seed % 3), 4, &random),
                &random);
    INFO("seed " << seed);
    int refused = 0;
    Play(&scene, &random, [&](int) {
      const absl::Status status = scene.group->DeliverDamaged(random());
      REQUIRE_FALSE(status.ok());
      if (status.code() == absl::StatusCode::kInvalidArgument) ++refused;
    });
    CHECK(refused > 0);
    for (const Member& member : scene.members) {
      REQUIRE(member.exchange() == scene.cases.size());
      REQUIRE(member.wrong() == 0);
    }
  }
}

TEST_CASE("bytes that are no message are refused") {
  FarMessage message;
  message.packet = 3;
  std::vector<std::byte> bytes(sizeof(message));
  std::memcpy(bytes.data(), &message, sizeof(message));
  REQUIRE(FarMessageFrom(bytes).ok());
  CHECK(*FarMessageFrom(bytes) == message);
  for (const size_t at : {0, 7}) {  // the magic, the kind
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    CHECK_FALSE(FarMessageFrom(damaged).ok());
  }
  bytes.pop_back();
  CHECK_FALSE(FarMessageFrom(bytes).ok());
}

TEST_CASE("messages of a run before are dropped") {
  std::vector<FarMessage> sent;
  FarExchange exchange({.communicator = 7, .process = {0, 1}, .self = 0, .first = 1000});
  const auto send = [&](const FarAction& action) { sent.push_back(action.message); };
  FarMessage late;
  late.communicator = 7;
  late.number = 999;
  late.from = 1;
  for (const uint32_t kind :
       {FarMessage::kEntered, FarMessage::kPull, FarMessage::kDone, FarMessage::kAbort}) {
    late.kind = kind;
    CHECK(exchange.Receive(late, send).ok());
  }
  late.kind = FarMessage::kPiece;
  REQUIRE(exchange.Land(late).ok());
  CHECK(exchange.Land(late)->empty());
  CHECK(sent.empty());
  CHECK(exchange.status().ok());
}

TEST_CASE("the planned window holds a piece of every member, whoever is far") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const int members = std::vector{2, 3, 4, 8}[seed % 4];
    const ExchangeCase c = RandomCases(members, 1, &random)[0];
    for (int m = 0; m < members; ++m) {
      std::vector<char> alone(members, 0);
      alone[m] = 1;
      const PlannedWork planned = PlannedWorkOf(c, alone, 1 << 20);
      INFO("seed " << seed << ": " << Describe(c));
      CHECK(planned.work.WindowBytes(m, c.accumulate) <= planned.workspace);
    }
  }
}

TEST_CASE("one member carries the pieces of all while the others do something else") {
  std::mt19937_64 random(1);
  ExchangeCase c = RandomCase("all_reduce", 3, &random);
  for (TensorCase& t : c.tensors) t.dims = {100'003};
  for (TensorCase& t : c.tensors) t.to = {B()};
  Scene scene(Makers()[0], {c}, &random);
  std::string woken;
  scene.group->SetWake([&](int member) { woken += std::to_string(member); });
  for (const int m : {2, 0}) scene.members[m].Step(nullptr);
  CHECK(woken.empty());
  scene.members[1].Step(nullptr);
  CHECK(woken == "02");
  scene.members[0].Step(nullptr);
  CHECK(scene.members[0].over());
  CHECK(woken == "0212");
  for (const int m : {1, 2}) CHECK(scene.members[m].HasNews());
}

TEST_CASE(
    "members that have entered different exchanges wait, each for the other, until an abort") {
  const auto communicator = MakeLocalCommunicator(2, 0);
  const ExchangeWork first, second;
  communicator->Enter(0, {&first});
  communicator->Enter(1, {&second});
  for (const int m : {0, 1}) {
    CHECK(communicator->Poll(m, nullptr) == Communicator::kWaiting);
    CHECK_FALSE(communicator->HasEntered(1 - m, m));
  }
  communicator->Abort(absl::CancelledError("as asked"));
  for (const int m : {0, 1}) CHECK(communicator->Poll(m, nullptr) == Communicator::kFailed);
}

TEST_CASE("without work it is over when all have entered") {
  const auto communicator = MakeLocalCommunicator(2, 0);
  const ExchangeWork none;
  communicator->Enter(0, {&none});
  CHECK(communicator->Poll(0, nullptr) == Communicator::kWaiting);
  communicator->Enter(1, {&none});
  CHECK(communicator->Poll(0, nullptr) == Communicator::kOver);
  CHECK(communicator->Poll(1, nullptr) == Communicator::kOver);
}

}  // namespace
}  // namespace oneflow
