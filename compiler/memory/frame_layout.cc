#include "compiler/memory/frame_layout.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace oneflow {
namespace {

bool Covers(const Spans& outer, const Spans& inner) {
  return std::all_of(inner.begin(), inner.end(), [&](const auto& span) {
    return std::any_of(outer.begin(), outer.end(), [&](const auto& o) {
      return o.first <= span.first && span.second <= o.second;
    });
  });
}

constexpr int64_t kAnyOffset = std::numeric_limits<int64_t>::max();

class FrameBuilder {
 public:
  FrameBuilder(const std::vector<Lifetime>& lives, int64_t buffers, bool once) : lives_(lives) {
    layout_.buffers = buffers;
    layout_.once = once;
  }

  // Adds a register; the frame grows if it must.
  void Add(int life, int64_t first_buffer) {
    Put(life, LeastOffset(life, first_buffer, kAnyOffset), first_buffer);
    layout_.spans = UniteSpans(layout_.spans, lives_[life].spans);
    if (std::find(starts_.begin(), starts_.end(), first_buffer) == starts_.end()) {
      starts_.push_back(first_buffer);
    }
  }

  // Adds a register if it fits into the frame of its micro-batch or of a neighbouring one, and,
  // unless `longer`, if the frames hold something during all of its lifetime anyway: a frame whose
  // lifetime grows can share fewer bytes with registers outside of it.
  void AddInside(int life, bool longer) {
    const Lifetime& added = lives_[life];
    if (added.slot_bytes > layout_.bytes || !(longer || Covers(layout_.spans, added.spans))) {
      return;
    }
    for (const int64_t start : starts_) {
      for (const int64_t next : {int64_t{0}, int64_t{1}, layout_.buffers - 1}) {
        const int64_t first_buffer = (start + next) % layout_.buffers;
        const int64_t most = layout_.bytes - added.slot_bytes;
        const int64_t offset = LeastOffset(life, first_buffer, most);
        if (offset > most) continue;
        Put(life, offset, first_buffer);
        if (longer) layout_.spans = UniteSpans(layout_.spans, added.spans);
        return;
      }
    }
  }

  const FrameLayout& layout() const { return layout_; }

 private:
  // The least offset at which it overlaps no member that holds something at the same time; if that
  // exceeds `most`, any that does.
  int64_t LeastOffset(int life, int64_t first_buffer, int64_t most) const {
    int64_t at = 0;
    for (const FrameLayout::Member& member : layout_.members) {
      const Lifetime& other = lives_[member.life];
      const int64_t end = member.offset + other.slot_bytes;
      const int64_t further = member.first_buffer + layout_.buffers - first_buffer;
      if (at > most || member.offset - at >= lives_[life].slot_bytes) break;
      if (end > at &&
          MeetInBuffer(lives_[life], other, layout_.buffers, further % layout_.buffers)) {
        at = end;
      }
    }
    return at;
  }

  // Members are sorted by offset.
  void Put(int life, int64_t offset, int64_t first_buffer) {
    const auto after = [](int64_t at, const FrameLayout::Member& m) { return at < m.offset; };
    auto& members = layout_.members;
    members.insert(std::upper_bound(members.begin(), members.end(), offset, after),
                   {life, offset, first_buffer});
    layout_.bytes = std::max(layout_.bytes, offset + lives_[life].slot_bytes);
  }

  const std::vector<Lifetime>& lives_;
  FrameLayout layout_;
  std::vector<int64_t> starts_;  // first buffers of what was added, each once
};

// Bytes times moments, over the observed fills.
double SizeInTime(const Lifetime& life) {
  return static_cast<double>(life.slot_bytes) * static_cast<double>(TotalLength(life.fills));
}

// Registers that frames are made for, each with the buffer of its first fill.
struct Core {
  int64_t buffers = 1, fills_a_step = 0;
  std::vector<std::pair<int, int64_t>> lives;
};

// The key of registers that may share frames: equal slots and fills a step, and all or none of them
// hold something during the whole step (tensors that are fetched ahead).
struct Key {
  int64_t slots = 1;
  int64_t fills_a_step = 0;
  bool entire_step = false;
  auto operator<=>(const Key&) const = default;
};

Key MakeKey(const Lifetime& life, int64_t length) {
  return {life.slots, life.fills_a_step(), life.spans == Spans{{0, length - 1}}};
}

// Registers in groups, those of most slots first.
using Groups = std::map<Key, std::vector<int>, std::greater<>>;

Groups FindGroups(const StageLifetimes& stage, const std::vector<bool>& on_ring) {
  Groups groups;
  for (int i = 0; i < std::ssize(stage.registers); ++i) {
    const Lifetime& life = stage.registers[i];
    // Frames must repeat in every step.
    const bool comes_again = life.slots > 1 && life.slots <= life.fills_a_step();
    if (comes_again && !life.workspace && !on_ring[i]) {
      groups[MakeKey(life, stage.length)].push_back(i);
    }
  }
  return groups;
}

bool MayJoin(const Key& more, const Key& fewer) {
  return more.slots > fewer.slots && more.fills_a_step == fewer.fills_a_step && !more.entire_step &&
         !fewer.entire_step;
}

// True if a join may save bytes. Registers that are over before the last joined register begins, or
// begin after the first of them is over, in the same micro-batch, fit into the extra buffers. With
// less than a quarter of the joined bytes to fit in, no join saved any in our plans.
bool MayPay(const StageLifetimes& stage, const Groups& groups, const Key& more, const Key& joins) {
  int64_t latest = 0, earliest = std::numeric_limits<int64_t>::max(), joined = 0;
  for (int i : groups.at(joins)) {
    const Lifetime& life = stage.registers[i];
    latest = std::max(latest, life.fills.front().first);
    earliest = std::min(earliest, life.fills.front().second);
    joined += life.slot_bytes;
  }
  int64_t inside = 0;
  for (const auto& [key, group] : groups) {
    if (key == joins || !MayJoin(more, key)) continue;
    for (int i : group) {
      const auto& [begin, end] = stage.registers[i].fills.front();
      if (end < latest || earliest < begin) inside += stage.registers[i].slot_bytes;
    }
  }
  return inside * 4 > joined;
}

void JoinFrames(FrameJoin join, Groups* groups) {
  for (auto& [more, frame] : *groups) {
    if (more.slots != join.buffers) continue;
    for (auto it = groups->begin(); it != groups->end();) {
      if (it->first.slots == join.slots && MayJoin(more, it->first)) {
        frame.insert(frame.end(), it->second.begin(), it->second.end());
        it = groups->erase(it);
      } else {
        ++it;
      }
    }
  }
}

// Sorted by buffers, the most first. The registers of each are in the order in which a micro-batch
// writes them, so that first fit inside a frame follows the order of allocation.
std::vector<Core> FindCores(const StageLifetimes& stage, const std::vector<BufferRing>& rings,
                            FrameJoin join) {
  const std::vector<Lifetime>& lives = stage.registers;
  std::vector<Core> cores;
  std::vector<bool> on_ring(lives.size(), false);
  for (const BufferRing& ring : rings) {
    cores.push_back({ring.buffers, lives[ring.groups[0].lives[0]].fills_a_step(), {}});
    for (const RingGroup& group : ring.groups) {
      for (int i : group.lives) {
        cores.back().lives.emplace_back(i, group.first_buffer);
        on_ring[i] = true;
      }
    }
  }
  Groups groups = FindGroups(stage, on_ring);
  JoinFrames(join, &groups);
  for (auto& [key, group] : groups) {
    std::stable_sort(group.begin(), group.end(), [&](int a, int b) {
      return lives[a].fills.front().first < lives[b].fills.front().first;
    });
    cores.push_back({key.slots, key.fills_a_step, {}});
    for (int i : group) cores.back().lives.emplace_back(i, 0);
  }
  std::stable_sort(cores.begin(), cores.end(),
                   [](const Core& a, const Core& b) { return a.buffers > b.buffers; });
  return cores;
}

}  // namespace

std::vector<FrameJoin> FrameJoins(const StageLifetimes& stage) {
  std::set<std::pair<int64_t, int64_t>> joins;
  const Groups groups = FindGroups(stage, std::vector<bool>(stage.registers.size(), false));
  for (const auto& [more, frame] : groups) {
    for (const auto& [fewer, joined] : groups) {
      if (MayJoin(more, fewer) && MayPay(stage, groups, more, fewer)) {
        joins.emplace(more.slots, fewer.slots);
      }
    }
  }
  std::vector<FrameJoin> result;
  for (const auto& [buffers, slots] : joins) result.push_back({buffers, slots});
  return result;
}

std::vector<FrameLayout> MakeFrameLayouts(const StageLifetimes& stage, bool longer,
                                          const std::vector<BufferRing>& rings, FrameJoin join) {
  const std::vector<Lifetime>& lives = stage.registers;
  std::vector<int> by_size;
  std::vector<double> sizes(lives.size(), 0);
  for (int i = 0; i < static_cast<int>(lives.size()); ++i) {
    if (lives[i].workspace || lives[i].fills_a_step() <= 1) continue;
    sizes[i] = SizeInTime(lives[i]);
    by_size.push_back(i);
  }
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return sizes[a] > sizes[b]; });
  std::vector<bool> taken(lives.size(), false);
  std::vector<FrameLayout> result;
  for (const Core& core : FindCores(stage, rings, join)) {
    const bool once = core.buffers == core.fills_a_step;
    FrameBuilder frame(lives, core.buffers, once);
    std::vector<bool> in_frame = taken;
    for (const auto& [i, first_buffer] : core.lives) {
      if (!taken[i]) frame.Add(i, first_buffer);
      in_frame[i] = true;
    }
    for (int i : by_size) {
      const bool alike =
          lives[i].slots < core.buffers && lives[i].fills_a_step() == core.fills_a_step;
      if (alike && !in_frame[i]) frame.AddInside(i, longer);
    }
    if (frame.layout().members.size() < (once ? 1 : 2)) continue;
    for (const FrameLayout::Member& member : frame.layout().members) taken[member.life] = true;
    result.push_back(frame.layout());
  }
  return result;
}

}  // namespace oneflow
