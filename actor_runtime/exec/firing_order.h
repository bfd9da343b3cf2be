// What a stream fires in one step: places of its actors, in the runs of the plan, so that a step of
// many micro-batches takes no more room than one of few (law 7).
//
//   FiringOrder order;
//   order.Add({0, 1}, 3);                      // 0 1 0 1 0 1
//   FiringOrder::Cursor at;
//   do { Fire(order.PlaceAt(at)); } while (order.Next(&at));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace oneflow {

class FiringOrder {
 public:
  // Where a step stands: which firing is next.
  class Cursor {
    friend FiringOrder;
    size_t at = 0;  // in places_
    size_t run = 0;
    int64_t repeat = 0;  // of the run
  };

  // Adds `places`, `repeat` times over. Requires some, and at least once.
  void Add(const std::vector<int32_t>& places, int64_t repeat) {
    const size_t begin = places_.size();
    places_.insert(places_.end(), places.begin(), places.end());
    runs_.push_back({begin, places_.size(), repeat});
    size_ += repeat * static_cast<int64_t>(places.size());
  }

  int64_t size() const { return size_; }
  // Requires a firing.
  int32_t PlaceAt(const Cursor& cursor) const { return places_[cursor.at]; }
  // Goes on to the next firing; false if that is the first of the next step.
  bool Next(Cursor* cursor) const {
    const Run& run = runs_[cursor->run];
    if (++cursor->at < run.end) return true;
    if (++cursor->repeat < run.repeat) {
      cursor->at = run.begin;
      return true;
    }
    if (cursor->run + 1 == runs_.size()) {
      *cursor = Cursor();
      return false;
    }
    ++cursor->run;  // its places follow
    cursor->repeat = 0;
    return true;
  }

  // Where in its order a cursor is, whichever repeat of a run it is in.
  std::array<int64_t, 2> PlaceOf(const Cursor& cursor) const {
    return {static_cast<int64_t>(cursor.run), static_cast<int64_t>(cursor.at)};
  }
  bool BeginsRepeat(const Cursor& cursor) const { return cursor.at == runs_[cursor.run].begin; }
  // Whole repeats of its run after the one that it is in.
  int64_t RepeatsLeft(const Cursor& cursor) const {
    return runs_[cursor.run].repeat - 1 - cursor.repeat;
  }
  // Requires cursors at one place.
  static int64_t RepeatsBetween(const Cursor& from, const Cursor& to) {
    return to.repeat - from.repeat;
  }
  // Requires that so many are left.
  static void SkipRepeats(int64_t repeats, Cursor* cursor) { cursor->repeat += repeats; }

 private:
  struct Run {
    size_t begin = 0, end = 0;  // in places_
    int64_t repeat = 1;
  };
  std::vector<int32_t> places_;
  std::vector<Run> runs_;
  int64_t size_ = 0;
};

}  // namespace oneflow
