#include "compiler/memory/lay_frames.h"

#include <algorithm>
#include <functional>
#include <map>
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

class FrameBuilder {
 public:
  FrameBuilder(const std::vector<Lifetime>& lives, int64_t places, bool once) : lives_(lives) {
    layout_.places = places;
    layout_.once = once;
  }

  // Adds a register; the frame grows if it must.
  void Add(int life) {
    Put(life, OffsetOf(life, 0), 0);
    layout_.spans = Union(layout_.spans, lives_[life].spans);
  }

  // Adds a register if it fits into the frame of its micro-batch or of one next to it; into the
  // time that the frames have anyway, or `longer`.
  bool AddInside(int life, bool longer) {
    const Lifetime& added = lives_[life];
    if (added.slot_bytes > layout_.bytes || !(longer || Covers(layout_.spans, added.spans))) {
      return false;
    }
    for (int64_t first_place : {int64_t{0}, int64_t{1}, layout_.places - 1}) {
      const int64_t offset = OffsetOf(life, first_place);
      if (offset + added.slot_bytes > layout_.bytes) continue;
      Put(life, offset, first_place);
      if (longer) layout_.spans = Union(layout_.spans, added.spans);
      return true;
    }
    return false;
  }

  const FrameLayout& layout() const { return layout_; }

 private:
  // The least offset that is free of the members so far.
  int64_t OffsetOf(int life, int64_t first_place) const {
    int64_t at = 0;
    for (const FrameLayout::Member& member : layout_.members) {
      const Lifetime& other = lives_[member.life];
      const int64_t end = member.offset + other.slot_bytes;
      const int64_t further = member.first_place + layout_.places - first_place;
      if (member.offset - at >= lives_[life].slot_bytes) break;
      if (end > at && MeetInPlace(lives_[life], other, layout_.places, further % layout_.places)) {
        at = end;
      }
    }
    return at;
  }

  // Members stand by offset.
  void Put(int life, int64_t offset, int64_t first_place) {
    const auto after = [](int64_t at, const FrameLayout::Member& m) { return at < m.offset; };
    auto& members = layout_.members;
    members.insert(std::upper_bound(members.begin(), members.end(), offset, after),
                   {life, offset, first_place});
    layout_.bytes = std::max(layout_.bytes, offset + lives_[life].slot_bytes);
  }

  const std::vector<Lifetime>& lives_;
  FrameLayout layout_;
};

// Of all fills that are looked at.
double SizeInTime(const Lifetime& life) {
  return static_cast<double>(life.slot_bytes) * static_cast<double>(LengthOf(life.fills));
}

// Registers that may share frames: as many slots, fills a step, and all or none of them hold
// something all step long (what is fetched ahead).
struct Key {
  int64_t slots = 1;
  int64_t fills_a_step = 0;
  bool whole_step = false;
  auto operator<=>(const Key&) const = default;
};

Key KeyOf(const Lifetime& life, int64_t length) {
  return {life.slots, life.fills_a_step(), life.spans == Spans{{0, length - 1}}};
}

}  // namespace

std::vector<FrameLayout> LayFrames(const StageLifetimes& stage, bool longer) {
  const std::vector<Lifetime>& lives = stage.registers;
  const auto framed = [&](int i) { return !lives[i].workspace && lives[i].fills_a_step() > 1; };
  std::map<Key, std::vector<int>, std::greater<>> cores;
  std::vector<int> by_size, by_time;
  for (int i = 0; i < static_cast<int>(lives.size()); ++i) {
    if (framed(i)) by_size.push_back(i), by_time.push_back(i);
  }
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return SizeInTime(lives[a]) > SizeInTime(lives[b]); });
  std::stable_sort(by_time.begin(), by_time.end(), [&](int a, int b) {
    return lives[a].fills.front().first < lives[b].fills.front().first;
  });
  for (int i : by_time) {
    // A frame must come again in each step.
    if (lives[i].slots > 1 && lives[i].slots <= lives[i].fills_a_step())
      cores[KeyOf(lives[i], stage.length)].push_back(i);
  }
  std::vector<bool> taken(lives.size(), false);
  std::vector<FrameLayout> result;
  for (const auto& [key, core] : cores) {
    const bool once = key.slots == key.fills_a_step;
    FrameBuilder frame(lives, key.slots, once);
    for (int i : core) {
      if (!taken[i]) frame.Add(i);
    }
    for (int i : by_size) {
      const bool alike = lives[i].slots < key.slots && lives[i].fills_a_step() == key.fills_a_step;
      if (alike && !taken[i] && frame.AddInside(i, longer)) taken[i] = true;
    }
    if (frame.layout().members.size() < (once ? 1 : 2)) continue;
    for (const FrameLayout::Member& member : frame.layout().members) taken[member.life] = true;
    result.push_back(frame.layout());
  }
  return result;
}

}  // namespace oneflow
