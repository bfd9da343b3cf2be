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

class GroupForTest {
 public:
  virtual ~GroupForTest() = default;
  // What carries the member's exchanges: members of one process share it.
  virtual Communicator& Of(int member) = 0;
  virtual bool Together(int member, int other) const = 0;
  virtual const ExchangeWork* WorkOf(size_t exchange, int member) = 0;
  virtual std::span<std::byte> WorkspaceOf(int member) = 0;
  virtual void SetWake(std::function<void(int member)> wake) = 0;
  // What is on its way between processes; some of it, drawn, goes on. Any thread, one at a time.
  virtual size_t UnderWay() = 0;
  virtual void Deliver(uint64_t random) = 0;
  // A damaged copy of something arrives: why it was refused. UNAVAILABLE: there was nothing.
  virtual absl::Status DeliverDamaged(uint64_t random) = 0;
  // Whether something that is on its way still reads or writes the member's memory.
  virtual bool Touches(int member) = 0;
};

// All members in one process.
std::unique_ptr<GroupForTest> MakeLocalGroup(const std::vector<ExchangeCase>& cases);

// Members in processes, whose memory is apart: `process` by member. Messages arrive in any order,
// and the payload of a piece is read when it arrives. `seed`: how large pieces and workspaces are.
std::unique_ptr<GroupForTest> MakeFarGroup(const std::vector<ExchangeCase>& cases,
                                           const std::vector<int>& process, uint64_t seed);

// The work of an exchange as a process sees it, and by tensor what the plan gives a member for it.
struct PlannedWork {
  ExchangeWork work;
  int64_t workspace = 0;
};
// `most`: elements of a piece where they are fewer than planned.
PlannedWork PlannedWorkOf(const ExchangeCase& c, const std::vector<char>& near, int64_t most);

}  // namespace oneflow
