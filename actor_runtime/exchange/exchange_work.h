// What an exchange does once all members of its group have entered it: pieces of copying and of
// sums in the group's order, which any thread may take, in any order. Made once, at load, for the
// layouts of the members; it holds no state of a firing.
//
//   ASSIGN_OR_RETURN(ExchangeWork work, ExchangeWork::Make(members));
//   for (int piece = 0; piece < work.pieces(); ++piece) work.Run(piece, entries);
//
// Guarantees: different pieces write different elements; each element is summed in the group's
// order and rounded once, what was there before added last; so the bits depend on nothing but the
// inputs, and on how tensors are cut into pieces neither.
//
// A process does the pieces of its own members. What these take of a member elsewhere comes as
// packets, which are numbered: a route is all that one member takes of another. Both ends of it
// know it by the same numbers. Where several members of a process want the same result, the first
// of them asks for the packets, and the others copy its result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
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

// Which members are in this process, where not all are; and by tensor, elements of a piece, at
// most.
struct FarMembers {
  std::vector<char> near;     // by member
  std::vector<int64_t> most;  // the same in all processes
  bool adds = false;          // members may be told to add to their outputs
};

// What bounds the packets that a process sends: none has more rows or bytes, or shorter rows, but
// that those of a single row are left out.
struct PacketShape {
  int64_t rows = 1, bytes = 0;
  int64_t row_bytes = std::numeric_limits<int64_t>::max();  // of the shortest

  PacketShape Join(const PacketShape& other) const {
    return {std::max(rows, other.rows), std::max(bytes, other.bytes),
            std::min(row_bytes, other.row_bytes)};
  }
};

// What carries a member's part of an exchange where a library of devices does: it gives the part to
// call.stream. call.in[0] and call.out have an address a tensor; `carrier` is what the communicator
// has of the library for this member. One call at a time; allocates nothing.
using MemberLaunch = std::function<absl::Status(const KernelCall& call, void* carrier)>;

class ExchangeWork {
 public:
  // No work: for token flow alone.
  ExchangeWork() = default;
  // `setups`: by tensor, then by member, what CopyPieces needs for that member's output; without an
  // output there is nothing to do for it. `far`: null where all members are in this process; of
  // those elsewhere a setup needs its output alone.
  static absl::StatusOr<ExchangeWork> Make(const std::vector<std::vector<KernelSetup>>& setups,
                                           const FarMembers* far = nullptr);

  // For members that run by themselves and share a memory: what each of them takes, as a kernel.
  // `setups`: as given to Make, of members of this process.
  absl::Status AddKernels(const std::vector<std::vector<KernelSetup>>& setups,
                          const KernelFactory& make_kernel);
  // Gives all of the exchange to a stream. Allocates nothing.
  absl::Status Launch(const ExchangeEntries& entries, void* stream) const;

  // For members whose exchanges a library carries. Other than that the work may be empty.
  void SetLaunch(int member, MemberLaunch launch);
  // Requires that it was set.
  const MemberLaunch& LaunchOf(int member) const { return launches_[member]; }

  int tensors() const { return tensors_; }
  int pieces() const { return ends_.empty() ? 0 : ends_.back(); }
  // Allocates nothing. `packets`: as CopyPieces::Run.
  void Run(int piece, const ExchangeEntries& entries,
           std::span<const std::byte* const> packets = {}) const;

  struct Piece {
    int tensor = 0, member = 0;  // whose output it is
    const CopyRegion* region = nullptr;
    int64_t index = 0;  // among those of the region
    CopyChunk chunk;
    int64_t element_bytes = 0;
    // Of those with far sources: other members here that want the very same; whether one before it
    // does, so that it is a copy.
    int copies = 0;
    bool is_copy = false;
    int64_t bytes() const { return chunk.elements() * element_bytes; }
  };
  Piece At(int piece) const;
  // Writes copy `copy` of a piece that is done. Allocates nothing.
  void RunCopy(int piece, int copy, const ExchangeEntries& entries) const;
  // The pieces of a member of this process: from first to before second.
  std::pair<int, int> PiecesOf(int member) const {
    return ranges_.empty() ? std::pair<int, int>() : ranges_[member];
  }

  // With members elsewhere.
  bool IsNear(int member) const { return near_index_[member] >= 0; }
  int FarSources(const Piece& piece) const;
  // Whether a packet of it may land in the output: there is nothing to sum, and its rows are there
  // one after the other.
  static bool LandsInOutput(const Piece& piece, bool accumulate);
  // Bytes of workspace that one piece of a member needs at most.
  int64_t WindowBytes(int member, bool accumulate) const {
    return window_bytes_.empty() ? 0 : window_bytes_[2 * member + (accumulate ? 1 : 0)];
  }
  // Of the route from a source to a reader, one of them of this process: how many packets it has,
  // the number of a piece's, and what packet `number` holds.
  int64_t PacketsOf(int source, int reader) const;
  int64_t PacketOf(const Piece& piece, int source) const;
  Piece PacketAt(int source, int reader, int64_t number) const;
  // Of all that members of this process send to members elsewhere.
  PacketShape ShapeOfPackets() const;

 private:
  struct Part {
    int tensor = 0, member = 0;
    int64_t element_bytes = 0;
    CopyPieces pieces;
    Kernel kernel = {};            // all of them; of AddKernels
    std::vector<int> copies = {};  // parts of the same result, if this is the first of them
    bool is_copy = false;
  };
  struct Route {
    std::vector<CopyRegion> regions;  // by tensor
    std::vector<int64_t> ends;        // by tensor: number of the first packet after its own
    std::vector<int64_t> element_bytes;
  };
  int64_t MostWindowBytes(int member, bool accumulate) const;
  int FarSources(const CopyRegion& region) const;
  bool IsCopyOf(const Part& part, const Part& first) const;
  void FindCopies(const std::vector<std::vector<KernelSetup>>& setups);
  void AddRoutes(const std::vector<std::vector<KernelSetup>>& setups);
  Route RouteBetween(const std::vector<std::vector<KernelSetup>>& setups, int near, int source,
                     int reader) const;
  const Route& RouteOf(int source, int reader) const;

  int tensors_ = 0;
  std::vector<Part> parts_;                  // by member, then tensor
  std::vector<int> ends_;                    // by part: number of the first piece after its own
  std::vector<std::pair<int, int>> ranges_;  // by member
  std::vector<int> near_index_;              // by member: among those here, or -1; empty: all are
  std::vector<int64_t> most_;                // by tensor
  std::vector<int64_t> window_bytes_;        // by member, then whether it accumulates
  // By index of the near member * members + far member.
  std::vector<Route> to_far_, from_far_;
  std::vector<MemberLaunch> launches_;  // by member; null in other processes
};

}  // namespace oneflow
