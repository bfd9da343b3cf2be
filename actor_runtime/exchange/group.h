// Group: the devices that exchange tensors with each other. They fire their exchanges on the same
// streams, and so in the same order: one communicator carries them.
//
// Processes own equal blocks of consecutive ranks: process p owns those from p * own.size() on.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace oneflow {

// Ranks from begin to before end.
struct RankRange {
  int32_t begin = 0, end = 0;
  int32_t size() const { return end - begin; }
  bool Contains(int32_t rank) const { return rank >= begin && rank < end; }
  auto operator<=>(const RankRange&) const = default;
};

struct Group {
  uint64_t id = 0;             // the same number in all processes; no other group has it
  std::vector<int32_t> ranks;  // of the members, in the group's order
  RankRange own = {};          // of this process

  int members() const { return static_cast<int>(ranks.size()); }
  bool IsNear(int member) const { return own.Contains(ranks[member]); }
  bool AreAllNear() const { return FindFar() < 0; }
  // The first member of another process; -1: none.
  int FindFar() const {
    for (int m = 0; m < members(); ++m) {
      if (!IsNear(m)) return m;
    }
    return -1;
  }
  int FindProcess(int member) const { return ranks[member] / own.size(); }
  int self() const { return own.begin / own.size(); }  // this process
  auto operator<=>(const Group&) const = default;
};

}  // namespace oneflow
