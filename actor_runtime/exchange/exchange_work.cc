// Why both ends of a route agree on packets without a message about them. Slices of the sources of
// a tensor are equal or disjoint, so one source meets one output in one region, and the region
// follows from their two slices. The most elements of a piece are the same in all processes, so the
// pieces of the region are, too. The number of a packet is that of its piece, after those of all
// earlier tensors. The reader finds the region in the plan of its output (CopyPieces), the source
// by the same arithmetic (RegionBetween).
#include "actor_runtime/exchange/exchange_work.h"

#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/exchange_window.h"

namespace oneflow {

absl::StatusOr<ExchangeWork> ExchangeWork::Make(const std::vector<std::vector<KernelSetup>>& setups,
                                                const FarMembers* far) {
  ExchangeWork work;
  work.tensors_ = static_cast<int>(setups.size());
  work.most_.assign(setups.size(), kLocalPiece);
  if (far != nullptr) {
    for (int near = 0; const char here : far->near) {
      work.near_index_.push_back(here != 0 ? near++ : -1);
    }
    work.most_ = far->most;
  }
  // By member first: a member requests what its own pieces need, which are one range of numbers.
  const int members = setups.empty() ? 0 : static_cast<int>(setups[0].size());
  for (int member = 0; member < members; ++member) {
    const int first = work.pieces();
    for (int tensor = 0; tensor < work.tensors_; ++tensor) {
      const KernelSetup& setup = setups[tensor][member];
      // Outputs of members elsewhere are work of their processes.
      if (setup.out.empty() || (far != nullptr && !work.IsNear(member))) continue;
      ASSIGN_OR_RETURN(CopyPieces pieces, CopyPieces::Make(setup, work.most_[tensor]));
      work.ends_.push_back(work.pieces() + pieces.count());
      work.parts_.push_back({tensor, member, static_cast<int64_t>(ElementBytes(setup.out[0].dtype)),
                             std::move(pieces)});
    }
    work.ranges_.emplace_back(first, work.pieces());
  }
  if (far != nullptr) work.AddRoutes(setups);
  // So packets that several members here want travel once. With accumulation no result can be
  // copied: the old outputs differ from member to member.
  if (far != nullptr && !far->adds) work.FindCopies(setups);
  return work;
}

// Parts without pieces have the end of the part before: upper_bound passes over them.
void ExchangeWork::Run(int piece, const ExchangeEntries& entries,
                       std::span<const std::byte* const> packets) const {
  const auto index = std::upper_bound(ends_.begin(), ends_.end(), piece) - ends_.begin();
  const Part& part = parts_[index];
  const int first = part.tensor * entries.members;
  const std::span<const std::byte* const> sources(&entries.in[first], entries.members);
  part.pieces.Run(piece - (index == 0 ? 0 : ends_[index - 1]), sources, packets,
                  entries.out[first + part.member], entries.accumulate[part.member] != 0);
}

// One kernel a part, not a piece: a GPU divides the work of a kernel itself.
absl::Status ExchangeWork::AddKernels(const std::vector<std::vector<KernelSetup>>& setups,
                                      const KernelFactory& make_kernel) {
  for (Part& part : parts_) {
    KernelSetup setup = setups[part.tensor][part.member];
    setup.kind = "slice";  // a slice of several sources
    ASSIGN_OR_RETURN(part.kernel, make_kernel(setup));
  }
  return absl::OkStatus();
}

absl::Status ExchangeWork::Launch(const ExchangeEntries& entries, void* stream) const {
  for (const Part& part : parts_) {
    const int first = part.tensor * entries.members;
    const std::span<const std::byte* const> sources(&entries.in[first], entries.members);
    KernelCall call;
    call.in = {&sources, 1};
    call.out = {&entries.out[first + part.member], 1};
    call.stream = stream;
    call.accumulate = entries.accumulate[part.member] != 0;
    RETURN_IF_ERROR(part.kernel(call));
  }
  return absl::OkStatus();
}

void ExchangeWork::SetLaunch(int member, MemberLaunch launch) {
  if (std::ssize(launches_) <= member) launches_.resize(member + 1);
  launches_[member] = std::move(launch);
}

ExchangeWork::Piece ExchangeWork::At(int piece) const {
  const auto index = std::upper_bound(ends_.begin(), ends_.end(), piece) - ends_.begin();
  const Part& part = parts_[index];
  const CopyPieces::Piece at = part.pieces.At(piece - (index == 0 ? 0 : ends_[index - 1]));
  return {part.tensor,
          part.member,
          at.region,
          at.index,
          at.chunk,
          part.element_bytes,
          static_cast<int>(part.copies.size()),
          part.is_copy};
}

int ExchangeWork::FarSources(const CopyRegion& region) const {
  const std::vector<int>& sources = region.sources;
  return static_cast<int>(
      std::count_if(sources.begin(), sources.end(), [this](int s) { return !IsNear(s); }));
}

int ExchangeWork::FarSources(const Piece& piece) const { return FarSources(*piece.region); }

// Outputs of the same slice have the same regions, in the same pieces. Only the choice among equal
// sources may differ, since each output takes the nearest. So one part may find all of a region
// here where the other needs packets. Such a part is no copy: FarExchange would do its pieces
// twice, as work without packets and as copies of the other part's.
bool ExchangeWork::HasSameFarSources(const Part& part, const Part& first) const {
  const std::span<const CopyRegion> a = first.pieces.regions(), b = part.pieces.regions();
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const CopyRegion& x, const CopyRegion& y) {
                      return (FarSources(x) > 0) == (FarSources(y) > 0);
                    });
}

void ExchangeWork::FindCopies(const std::vector<std::vector<KernelSetup>>& setups) {
  std::map<std::tuple<int, Dims, Dims>, int> firsts;  // by tensor and slice: a part
  for (int p = 0; p < std::ssize(parts_); ++p) {
    Part& part = parts_[p];
    const Slice& slice = setups[part.tensor][part.member].out[0].slice;
    const auto [first, fresh] =
        firsts.try_emplace(std::tuple(part.tensor, slice.begin, slice.size), p);
    if (fresh || !HasSameFarSources(part, parts_[first->second])) continue;
    part.is_copy = true;
    parts_[first->second].copies.push_back(p);
  }
}

void ExchangeWork::RunCopy(int piece, int copy, const ExchangeEntries& entries) const {
  const Piece at = At(piece);
  const auto index = std::upper_bound(ends_.begin(), ends_.end(), piece) - ends_.begin();
  const int first = at.tensor * entries.members;
  const std::byte* const from = entries.out[first + at.member];
  std::byte* const to = entries.out[first + parts_[parts_[index].copies[copy]].member];
  const int64_t bytes = at.chunk.size * at.element_bytes;
  ForRows(*at.region, at.chunk, [&](int64_t, int64_t row) {
    std::memcpy(to + row * at.element_bytes, from + row * at.element_bytes, bytes);
  });
}

// With one source there is nothing to sum, without accumulation nothing to keep. A packet is
// written as one run of bytes, so its rows must be one there.
bool ExchangeWork::ArrivesInOutput(const Piece& piece, bool accumulate) {
  return !accumulate && piece.region->sources.size() == 1 &&
         IsContiguousInTarget(*piece.region, piece.chunk);
}

// All packets of a piece wait in the window until the last one is here: they are summed in the
// group's order, not in that of arrival, so that the bits do not depend on the network.
int64_t ExchangeWork::MostWindowBytes(int member, bool accumulate) const {
  int64_t most = 0;
  for (int piece = ranges_[member].first; piece < ranges_[member].second; ++piece) {
    const Piece at = At(piece);
    const int far = FarSources(at);
    if (far == 0 || ArrivesInOutput(at, accumulate)) continue;
    most = std::max(most, far * PacketBytes(at.chunk.elements(), at.element_bytes));
  }
  return most;
}

// Routes with one end here, and no others: a process's memory grows with its own members, not with
// the square of the group.
void ExchangeWork::AddRoutes(const std::vector<std::vector<KernelSetup>>& setups) {
  const int members = static_cast<int>(near_index_.size());
  for (int near = 0; near < members; ++near) {
    for (const bool accumulate : {false, true}) {
      window_bytes_.push_back(MostWindowBytes(near, accumulate));
    }
    if (!IsNear(near)) continue;
    for (int far = 0; far < members; ++far) {
      to_far_.push_back(IsNear(far) ? Route() : RouteBetween(setups, near, near, far));
      from_far_.push_back(IsNear(far) ? Route() : RouteBetween(setups, near, far, near));
    }
  }
}

// `near`: a member of this process: its setup has all sources. Those of members elsewhere have the
// outputs alone.
ExchangeWork::Route ExchangeWork::RouteBetween(const std::vector<std::vector<KernelSetup>>& setups,
                                               int near, int source, int reader) const {
  Route route;
  int64_t end = 0;
  for (int tensor = 0; tensor < tensors_; ++tensor) {
    const std::vector<Port>& sources = setups[tensor][near].in[0];
    const std::vector<Port>& out = setups[tensor][reader].out;
    CopyRegion region;
    region.rows = 0;
    if (!out.empty() && source < std::ssize(sources)) {
      region = RegionBetween(sources[source].slice, out[0].slice);
      route.element_bytes.push_back(static_cast<int64_t>(ElementBytes(out[0].dtype)));
    } else {
      route.element_bytes.push_back(0);
    }
    end += region.rows == 0 ? 0 : region.pieces(most_[tensor]);
    route.regions.push_back(std::move(region));
    route.ends.push_back(end);
  }
  return route;
}

const ExchangeWork::Route& ExchangeWork::FindRoute(int source, int reader) const {
  const auto members = static_cast<int>(near_index_.size());
  return IsNear(source) ? to_far_[near_index_[source] * members + reader]
                        : from_far_[near_index_[reader] * members + source];
}

int64_t ExchangeWork::CountPackets(int source, int reader) const {
  const Route& route = FindRoute(source, reader);
  return route.ends.empty() ? 0 : route.ends.back();
}

int64_t ExchangeWork::FindPacket(const Piece& piece, int source) const {
  const Route& route = FindRoute(source, piece.member);
  return piece.index + (piece.tensor == 0 ? 0 : route.ends[piece.tensor - 1]);
}

// The network reserves lists of rows, or memory to pack short ones, before the first step. A single
// row needs neither: it is sent from its address.
PacketShape ExchangeWork::FindPacketShape() const {
  PacketShape shape;
  for (const Route& route : to_far_) {
    for (size_t t = 0; t < route.regions.size(); ++t) {
      const CopyRegion& region = route.regions[t];
      if (region.rows <= 1) continue;
      const CopyChunk chunk = FindChunk(region, most_[t], 0);  // none of the region is larger
      if (chunk.rows <= 1) continue;
      const int64_t row = chunk.size * route.element_bytes[t];
      shape = shape.Join({chunk.rows, chunk.rows * row, row});
    }
  }
  return shape;
}

ExchangeWork::Piece ExchangeWork::PacketAt(int source, int reader, int64_t number) const {
  const Route& route = FindRoute(source, reader);
  const auto tensor =
      std::upper_bound(route.ends.begin(), route.ends.end(), number) - route.ends.begin();
  const int64_t index = number - (tensor == 0 ? 0 : route.ends[tensor - 1]);
  const CopyRegion& region = route.regions[tensor];
  return {
      static_cast<int>(tensor),   reader, &region, index, FindChunk(region, most_[tensor], index),
      route.element_bytes[tensor]};
}

}  // namespace oneflow
