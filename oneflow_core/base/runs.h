// Finds repetitions in a sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oneflow {

// A run: items[begin, begin + length), `repeat` times over.
struct Run {
  size_t begin = 0, length = 1;
  int64_t repeat = 1;
};

// Returns the sequence in few runs: from the front, each the repetition that covers most.
//
//   FindRuns("FBFBFBBB")   {0, 2, 3}, {6, 1, 2}: (FB)×3 B×2
template <typename Sequence>
std::vector<Run> FindRuns(const Sequence& items) {
  const auto repeats = [&](size_t at, size_t length) {
    size_t end = at + length;
    while (end < items.size() && items[end] == items[end - length]) ++end;
    return (end - at) / length;
  };
  std::vector<Run> runs;
  for (size_t at = 0; at < items.size();) {
    size_t length = 1, most = repeats(at, 1);
    for (size_t l = 2; 2 * l <= items.size() - at; ++l) {
      if (!(items[at + l] == items[at])) continue;  // nearly always: no repetition
      // Repeats of what repeats itself cover no more.
      if (l <= length * most && l % length == 0) continue;
      const size_t times = repeats(at, l);
      if (times > 1 && times * l > most * length) length = l, most = times;
    }
    runs.push_back({at, length, static_cast<int64_t>(most)});
    at += length * most;
  }
  return runs;
}

}  // namespace oneflow
