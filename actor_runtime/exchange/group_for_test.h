// For tests of communicators: the members of a group, in one process or in several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/exchange/exchange_for_test.h"
#include "actor_runtime/exchange/far_communicator.h"

namespace oneflow {

// A group whose members are in these processes, as process `self` sees it.
Group MakeGroup(uint64_t id, const std::vector<int>& process, int self);

class GroupForTest {
 public:
  virtual ~GroupForTest() = default;
  // The communicator that carries the member's exchanges; members of one process share it.
  virtual Communicator& FindCommunicator(int member) = 0;
  virtual bool Together(int member, int other) const = 0;
  virtual const ExchangeWork* FindWork(size_t exchange, int member) = 0;
  virtual std::span<std::byte> FindWorkspace(int member) = 0;
  virtual void SetWake(std::function<void(int member)> wake) = 0;
  // Messages between processes: UnderWay counts them, Deliver delivers one that `random` picks. Any
  // thread may call, one at a time.
  virtual size_t UnderWay() = 0;
  virtual void Deliver(uint64_t random) = 0;
  // Delivers a damaged copy of a message. Returns the refusal; UNAVAILABLE: there was no message.
  virtual absl::Status DeliverDamaged(uint64_t random) = 0;
  // True if a message on its way still reads or writes the member's memory.
  virtual bool Touches(int member) = 0;
};

// A group with all members in one process.
std::unique_ptr<GroupForTest> MakeLocalGroup(const std::vector<ExchangeCase>& cases);

// A group with members in processes whose memory is separate: `process` by member. Messages arrive
// in any order, and the payload of a piece is read when it arrives. `seed` draws the sizes of
// pieces and workspaces.
std::unique_ptr<GroupForTest> MakeFarGroup(const std::vector<ExchangeCase>& cases,
                                           const std::vector<int>& process, uint64_t seed);

// The work of an exchange as a process sees it, and by tensor the workspace that the plan gives a
// member.
struct PlannedWork {
  ExchangeWork work;
  int64_t workspace = 0;
};
// `most`: the most elements of a piece, if fewer than planned.
PlannedWork PlanWork(const ExchangeCase& c, const std::vector<char>& near, int64_t most);

}  // namespace oneflow
