#include "training/data/pack_chats.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "glog/logging.h"

namespace oneflow {

PackedChats PackChats(std::span<const int64_t> lengths, int64_t window) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::map<int64_t, std::vector<int64_t>> with_room;  // windows, by the tokens that they have left
  std::vector<std::vector<int64_t>> windows;
  for (const int64_t chat : order) {
    const int64_t length = lengths[chat];
    CHECK(length >= 1 && length <= window) << length;
    const auto fits = with_room.lower_bound(length);
    int64_t to = std::ssize(windows), room = window;
    if (fits == with_room.end()) {
      windows.emplace_back();
    } else {
      room = fits->first;
      to = fits->second.back();
      fits->second.pop_back();
      if (fits->second.empty()) with_room.erase(fits);
    }
    windows[to].push_back(chat);
    if (room > length) with_room[room - length].push_back(to);
  }
  for (std::vector<int64_t>& one : windows) std::sort(one.begin(), one.end());
  std::sort(windows.begin(), windows.end());
  PackedChats packed{.firsts = {0}};
  for (const std::vector<int64_t>& one : windows) {
    packed.chats.insert(packed.chats.end(), one.begin(), one.end());
    packed.firsts.push_back(std::ssize(packed.chats));
  }
  return packed;
}

}  // namespace oneflow
