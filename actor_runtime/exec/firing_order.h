// FiringOrder: the firings of a stream in one step, as indices of its actors, in the runs of the
// plan, so that a step of many micro-batches takes no more room than one of few (law 7).
//
//   FiringOrder order;
//   order.Add({0, 1}, 3);                      // 0 1 0 1 0 1
//   FiringOrder::Cursor at;
//   do { Fire(order.IndexAt(at)); } while (order.Next(&at));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace oneflow {

class FiringOrder {
 public:
  // The position in a step: the next firing.
  class Cursor {
    friend FiringOrder;
    size_t at = 0;  // in places_
    size_t run = 0;
    int64_t repeat = 0;  // which repeat of the run
  };

  // Adds `indices`, `repeat` times over. Requires at least one index, and at least one repeat.
  void Add(const std::vector<int32_t>& indices, int64_t repeat) {
    const size_t begin = indices_.size();
    indices_.insert(indices_.end(), indices.begin(), indices.end());
    runs_.push_back({begin, indices_.size(), repeat});
    size_ += repeat * static_cast<int64_t>(indices.size());
  }

  int64_t size() const { return size_; }
  // Requires a firing.
  int32_t IndexAt(const Cursor& cursor) const { return indices_[cursor.at]; }
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
    ++cursor->run;  // its indices follow
    cursor->repeat = 0;
    return true;
  }

  // A cursor's position in its order: the run and the index in it, the same in each repeat of the
  // run.
  std::array<int64_t, 2> RunAndIndex(const Cursor& cursor) const {
    return {static_cast<int64_t>(cursor.run), static_cast<int64_t>(cursor.at)};
  }
  bool BeginsRepeat(const Cursor& cursor) const { return cursor.at == runs_[cursor.run].begin; }
  // Full repeats of its run after the current one.
  int64_t RepeatsLeft(const Cursor& cursor) const {
    return runs_[cursor.run].repeat - 1 - cursor.repeat;
  }
  // Requires cursors at the same run and index.
  static int64_t RepeatsBetween(const Cursor& from, const Cursor& to) {
    return to.repeat - from.repeat;
  }
  // Requires at least `repeats` left.
  static void SkipRepeats(int64_t repeats, Cursor* cursor) { cursor->repeat += repeats; }

 private:
  struct Run {
    size_t begin = 0, end = 0;  // in places_
    int64_t repeat = 1;
  };
  std::vector<int32_t> indices_;
  std::vector<Run> runs_;
  int64_t size_ = 0;
};

}  // namespace oneflow
