// The suite that every implementation of Communicator passes: the contract of communicator.h, under
// seeded interleavings of the members, of their threads, and of the messages between them. A test
// links communicator_suite, whose cases run for each implementation, and defines
// CommunicatorMakers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "actor_runtime/device/counted_allocations.h"
#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/exchange/exchange_for_test.h"
#include "actor_runtime/exchange/group_for_test.h"

namespace oneflow {

struct MakerForTest {
  const char* name;
  std::function<std::unique_ptr<GroupForTest>(const std::vector<ExchangeCase>& cases,
                                              uint64_t seed)>
      make;
};
// The implementations under test; each test defines this.
const std::vector<MakerForTest>& CommunicatorMakers();

inline constexpr std::byte kPaint{0xa5};

// A member that goes through the exchanges, one after the other. Its memory is checked and painted
// over as soon as the communicator has released it.
class MemberForTest {
 public:
  MemberForTest(GroupForTest* group, const std::vector<ExchangeCase>* cases, int index)
      : group_(*group), cases_(*cases), index_(index) {}

  // Sets the inputs of each exchange; called before the first step.
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
  bool CanProgress() { return entered_ && group_.FindCommunicator(index_).CanProgress(index_); }

  // Makes one call of the communicator. Returns true if another call would make progress at once.
  bool Step(ThreadPool* pool) {
    Communicator& communicator = group_.FindCommunicator(index_);
    const int64_t allocations = Allocations();
    if (!entered_) {
      Firing& firing = memory_[exchange_];
      entered_ = true;
      communicator.Enter(index_, {group_.FindWork(exchange_, index_), firing.in_at, firing.out_at,
                                  cases_[exchange_].accumulate, group_.FindWorkspace(index_)});
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
  // Allocations by its calls. They are counted for all threads, so this is useful with one thread
  // only.
  int64_t allocated() const { return allocated_; }
  // True if nobody has touched its memory since it was released.
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

// The exchanges of a group, and its members.
struct SceneForTest {
  SceneForTest(const MakerForTest& maker, std::vector<ExchangeCase> of_cases,
               std::mt19937_64* random)
      : cases(std::move(of_cases)), group(maker.make(cases, (*random)())) {
    for (int m = 0; m < cases[0].members(); ++m) members.emplace_back(group.get(), &cases, m);
    for (const ExchangeCase& c : cases) {
      const CaseMemory memory = RandomMemory(c, random);
      for (MemberForTest& member : members) member.Bring(memory);
    }
  }
  std::vector<ExchangeCase> cases;
  std::unique_ptr<GroupForTest> group;
  std::vector<MemberForTest> members;
};

// Runs all members on one thread, in a drawn order. A member makes a step when it is new to an
// exchange, when its own last step returned true, or when it was woken: a member that nobody wakes
// for its progress stays where it is. `before_event` gets the number of the event.
void Play(SceneForTest* scene, std::mt19937_64* random,
          const std::function<void(int event)>& before_event = nullptr);

// Random exchanges of all kinds.
std::vector<ExchangeCase> RandomCases(int members, int count, std::mt19937_64* random);

}  // namespace oneflow
