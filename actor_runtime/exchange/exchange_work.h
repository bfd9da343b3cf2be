// ExchangeWork: the work of an exchange once all members of its group have entered it: pieces of
// copying and of sums in the group's order, which any thread may take, in any order. It is made
// once, at load, for the layouts of the members; it holds no state of a firing.
//
//   ASSIGN_OR_RETURN(ExchangeWork work, ExchangeWork::Make(members));
//   for (int piece = 0; piece < work.pieces(); ++piece) work.Run(piece, entries);
//
// Guarantees: different pieces write different elements. Each element is summed in the group's
// order and rounded once; the old output is added last. So the bits depend on the inputs alone, not
// on the split of tensors into pieces.
//
// A process runs the pieces of its members. Data of members elsewhere comes as numbered
// packets. A route is all data that one member takes from another; both ends number its packets
// alike. If several members of a process want the same result, the first of them requests the
// packets, and the others copy its result.
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

// The registers with which the members have entered, by tensor, then by member: each tensor has one
// input and one output of each member. Null if a member has none: a send has no output, a receive
// no input.
struct ExchangeEntries {
  ExchangeEntries(int tensors, int members)
      : members(members), in(tensors * members), out(tensors * members), accumulate(members) {}

  int members = 0;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<char> accumulate;  // by member: adds to its outputs instead of overwriting them
};

// The members of this process, if not all are here; and by tensor, the most elements of a piece.
struct FarMembers {
  std::vector<char> near;     // by member
  std::vector<int64_t> most;  // the same in all processes
  bool adds = false;          // members may accumulate into their outputs
};

// Bounds of the packets that a process sends: no packet has more rows or bytes, or shorter rows.
// Packets of a single row do not count.
struct PacketShape {
  int64_t rows = 1, bytes = 0;
  int64_t row_bytes = std::numeric_limits<int64_t>::max();  // of the shortest row

  PacketShape Join(const PacketShape& other) const {
    return {std::max(rows, other.rows), std::max(bytes, other.bytes),
            std::min(row_bytes, other.row_bytes)};
  }
};

// Launches a member's part of an exchange through a communication library.
struct MemberLaunch {
  // Gives a stage of the part to call.stream, from 0 on; true: it was the last. The library may
  // give its work to the stream later: until then nobody else does, and the next stage waits.
  // call.in[0] and call.out have an address a tensor; `carrier` is the communicator's library
  // handle of this member. One call at a time; allocates nothing itself.
  std::function<absl::StatusOr<bool>(const KernelCall& call, void* carrier, int stage)> launch;
  std::vector<int> peers = {};  // members to which it sends, or from which it gets, single messages
};

class ExchangeWork {
 public:
  // No work, for token flow alone.
  ExchangeWork() = default;
  // `setups`: by tensor, then by member, the setup of CopyPieces for that member's output; without
  // an output there is nothing to do for it. `far`: null if all members are in this process. A
  // setup needs only the output of a member elsewhere.
  static absl::StatusOr<ExchangeWork> Make(const std::vector<std::vector<KernelSetup>>& setups,
                                           const FarMembers* far = nullptr);

  // For members on asynchronous devices that share a memory: adds a kernel for the data that each
  // of them takes. `setups`: as given to Make, for members of this process.
  absl::Status AddKernels(const std::vector<std::vector<KernelSetup>>& setups,
                          const KernelFactory& make_kernel);
  // Gives the full exchange to a stream. Allocates nothing.
  absl::Status Launch(const ExchangeEntries& entries, void* stream) const;

  // For members whose exchanges a library carries. The work may be empty otherwise.
  void SetLaunch(int member, MemberLaunch launch);
  bool has_launch(int member) const {
    return member < std::ssize(launches_) && launches_[member].launch;
  }
  // Requires that it was set.
  const MemberLaunch& member_launch(int member) const { return launches_[member]; }

  int tensors() const { return tensors_; }
  int pieces() const { return ends_.empty() ? 0 : ends_.back(); }
  // Allocates nothing. `packets`: as CopyPieces::Run.
  void Run(int piece, const ExchangeEntries& entries,
           std::span<const std::byte* const> packets = {}) const;

  struct Piece {
    int tensor = 0, member = 0;  // that own the output
    const CopyRegion* region = nullptr;
    int64_t index = 0;  // among the pieces of the region
    CopyChunk chunk;
    int64_t element_bytes = 0;
    // For pieces with far sources. `copies`: other members here that want the same result.
    // `is_copy`: an earlier member wants the same result, so this piece is a copy.
    int copies = 0;
    bool is_copy = false;
    int64_t bytes() const { return chunk.elements() * element_bytes; }
  };
  Piece At(int piece) const;
  // Writes copy `copy` of a piece that is done. Allocates nothing.
  void RunCopy(int piece, int copy, const ExchangeEntries& entries) const;
  // The pieces of a member of this process: from first to before second.
  std::pair<int, int> FindPieces(int member) const {
    return ranges_.empty() ? std::pair<int, int>() : ranges_[member];
  }

  // For groups with members elsewhere.
  bool IsNear(int member) const { return near_index_[member] >= 0; }
  int FarSources(const Piece& piece) const;
  // True if a packet may arrive directly in the output: there is nothing to sum, and its rows are
  // contiguous there.
  static bool ArrivesInOutput(const Piece& piece, bool accumulate);
  // The most bytes of workspace that one piece of a member needs.
  int64_t WindowBytes(int member, bool accumulate) const {
    return window_bytes_.empty() ? 0 : window_bytes_[2 * member + (accumulate ? 1 : 0)];
  }
  // For the route from a source to a reader, one of which is in this process: the number of its
  // packets, the number of a piece's packet, and the content of packet `number`.
  int64_t CountPackets(int source, int reader) const;
  int64_t FindPacket(const Piece& piece, int source) const;
  Piece PacketAt(int source, int reader, int64_t number) const;
  // Bounds of all packets that members of this process send to members elsewhere.
  PacketShape FindPacketShape() const;

 private:
  struct Part {
    int tensor = 0, member = 0;
    int64_t element_bytes = 0;
    CopyPieces pieces;
    Kernel kernel = {};            // copies all pieces; set by AddKernels
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
  bool HasSameFarSources(const Part& part, const Part& first) const;
  void FindCopies(const std::vector<std::vector<KernelSetup>>& setups);
  void AddRoutes(const std::vector<std::vector<KernelSetup>>& setups);
  Route RouteBetween(const std::vector<std::vector<KernelSetup>>& setups, int near, int source,
                     int reader) const;
  const Route& FindRoute(int source, int reader) const;

  int tensors_ = 0;
  std::vector<Part> parts_;                  // by member, then tensor
  std::vector<int> ends_;                    // by part: number of the first piece after its own
  std::vector<std::pair<int, int>> ranges_;  // by member
  std::vector<int> near_index_;              // by member: among those here, or -1; empty: all are
  std::vector<int64_t> most_;                // by tensor
  std::vector<int64_t> window_bytes_;        // by member, then whether it accumulates
  // By index of the near member * members + far member.
  std::vector<Route> to_far_, from_far_;
  std::vector<MemberLaunch> launches_;  // by member; none in other processes
};

}  // namespace oneflow
