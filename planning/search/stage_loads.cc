#include "planning/search/stage_loads.h"

#include <algorithm>
#include <limits>

namespace oneflow {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

Linear HeldInUpdate(const StageCosts& slice) {
  const Linear& more = slice.transients.update;
  return {slice.resident.fixed + slice.sums.fixed + more.fixed,
          slice.resident.block + slice.sums.block + more.block};
}

}  // namespace

StageLoads::StageLoads(const GroupCosts& costs, int stage, const ClassCounts& blocks)
    : costs_(costs), stage_(stage) {
  const int chunks = costs.chunks();
  for (int c = 0; c < costs.classes(); ++c) {
    std::vector<int>& rooms = rooms_.emplace_back(1, blocks[c]);
    if (chunks > 1) rooms.clear();
    for (int j = 0; chunks > 1 && j < chunks; ++j) rooms.push_back(costs.slices()[Slice(j)][c]);
  }
  const std::vector<Held>& times = costs.times(stage);
  base_ = Nothing();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    int room = 0;
    for (const std::vector<int>& rooms : rooms_) room += rooms[chunk];
    for (int kind = 0; kind < costs.kinds(); ++kind) {
      const StageCosts& slice = costs.AtSlice(Slice(chunk), kind);
      std::vector<double>& held = held_.emplace_back();
      // The mean of what each kind says of as many blocks, by their shares.
      const auto add = [&](const Linear& linear) {
        held.push_back(room > 0 ? linear.At(room) / room : linear.At(0));
      };
      for (const Held& time : times) add(FindHeld(slice, time, chunk));
      add(HeldInUpdate(slice));
    }
    if (room > 0) continue;
    const StageCosts& slice = costs.AtSlice(Slice(chunk), 0);
    for (size_t t = 0; t < base_.held.size(); ++t) base_.held[t] += HeldByBlock(chunk, 0)[t];
    base_.moving[chunk] = TransientBytes(slice, /*over=*/false);
    base_.moving[chunks + chunk] = TransientBytes(slice, /*over=*/true);
  }
}

StageLoads::Load StageLoads::Nothing() const {
  return {std::vector<double>(costs_.times(stage_).size() + 1, 0),
          std::vector<double>(2 * costs_.chunks() + 1, kNothing)};
}

void StageLoads::Add(int block_class, const std::vector<int>& counts, Load* load) const {
  const std::vector<int>& rooms = rooms_[block_class];
  if (rooms.size() == 1) return AddChunk(0, block_class, counts, load);
  const std::vector<std::vector<int>> parts = SplitOverChunks(counts, rooms);
  for (size_t c = 0; c < parts.size(); ++c) {
    AddChunk(static_cast<int>(c), block_class, parts[c], load);
  }
}

// The blocks of a class with the dearest policies are its first, so B comes to them last: what it
// has gone through is no longer held. Whichever class the last block of a slice is of, each is
// taken for it.
void StageLoads::AddChunk(int chunk, int block_class, const std::vector<int>& counts,
                          Load* load) const {
  const int policies = static_cast<int>(counts.size()), chunks = costs_.chunks();
  double most = 0, behind = 0, tail = 0;
  bool any = false;
  for (int p = 0; p < policies; ++p) {
    if (counts[p] == 0) continue;
    const int kind = block_class * policies + p;
    const std::vector<double>& held = HeldByBlock(chunk, kind);
    for (size_t t = 0; t < held.size(); ++t) load->held[t] += counts[p] * held[t];
    const StageCosts& slice = costs_.AtSlice(Slice(chunk), kind);
    if (!any) {
      most = TransientBytes(slice, /*over=*/false);
      behind = std::max(0.0, slice.saved.fixed);
    } else {
      most = std::max(most, slice.transients.inner - behind);
    }
    const double block = FreedByBlock(slice, costs_.micro_batches());
    if (!any && counts[p] > 1) most = std::max(most, slice.transients.inner - behind - block);
    behind += counts[p] * block;
    tail = TransientBytes(slice, /*over=*/true);
    load->moving.back() = std::max(load->moving.back(), slice.transients.any);
    any = true;
  }
  if (!any) return;
  load->moving[chunk] = std::max(load->moving[chunk], most);
  load->moving[chunks + chunk] = std::max(load->moving[chunks + chunk], tail);
}

void StageLoads::Add(const Load& more, Load* load) {
  for (size_t t = 0; t < load->held.size(); ++t) load->held[t] += more.held[t];
  for (size_t i = 0; i < load->moving.size(); ++i) {
    load->moving[i] = std::max(load->moving[i], more.moving[i]);
  }
}

double StageLoads::Bytes(const Load& load) const {
  const std::vector<Held>& times = costs_.times(stage_);
  double most = std::max(0.0, load.held.back()), any = kNothing;
  for (size_t t = 0; t < times.size(); ++t) {
    const double more = load.moving[times[t].chunk + (times[t].over ? costs_.chunks() : 0)];
    any = std::max(any, load.held[t]);
    most = std::max(most, load.held[t] + more);
  }
  return std::max(most, any + load.moving.back());
}

double GroupCosts::Bytes(int stage, const KindCounts& counts) const {
  ClassCounts blocks(classes(), 0);
  for (int kind = 0; kind < kinds(); ++kind) blocks[kind / policies()] += counts[kind];
  const StageLoads loads(*this, stage, blocks);
  StageLoads::Load load = loads.base();
  for (int c = 0; c < classes(); ++c) {
    const auto first = counts.begin() + c * policies();
    loads.Add(c, std::vector<int>(first, first + policies()), &load);
  }
  return loads.Bytes(load);
}

}  // namespace oneflow
