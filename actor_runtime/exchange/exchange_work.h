// What an exchange does once all members of its group have entered it: pieces of copying and of
// sums in the group's order, which any thread may take, in any order. Made once, at load, for the
// layouts of the members; it holds no state of a firing.
//
//   ASSIGN_OR_RETURN(ExchangeWork work, ExchangeWork::Make(members));
//   for (int piece = 0; piece < work.pieces(); ++piece) work.Run(piece, entries);
//
// Guarantees: different pieces write different elements; each element is summed in the group's
// order and rounded once, what was there before added last; so the bits depend on nothing but the
// inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/copy_slices.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

// What the members have entered with, by tensor, then by member: each tensor has one input and one
// output of each member. Null where a member has none: a send has no output, a receive no input.
struct ExchangeEntries {
  ExchangeEntries(int tensors, int members)
      : members(members), in(tensors * members), out(tensors * members), accumulate(members) {}

  int members = 0;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<char> accumulate;  // by member: adds to its outputs instead of overwriting them
};

class ExchangeWork {
 public:
  // No work: for token flow alone.
  ExchangeWork() = default;
  // `setups`: by tensor, then by member, what CopyPieces needs for that member's output;
  // without an output there is nothing to do for it.
  static absl::StatusOr<ExchangeWork> Make(const std::vector<std::vector<KernelSetup>>& setups);

  int tensors() const { return tensors_; }
  int pieces() const { return ends_.empty() ? 0 : ends_.back(); }
  // Allocates nothing.
  void Run(int piece, const ExchangeEntries& entries) const;

 private:
  struct Part {
    int tensor = 0, member = 0;
    CopyPieces pieces;
  };
  int tensors_ = 0;
  std::vector<Part> parts_;
  std::vector<int> ends_;  // by part: number of the first piece after its own
};

}  // namespace oneflow
