// Packs chats into windows, so that few tokens of these are padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace oneflow {

// Window w has chats[firsts[w]], ..., chats[firsts[w + 1] - 1], in increasing order. Windows are in
// the order of their first chats.
struct PackedChats {
  std::vector<int64_t> chats;
  std::vector<int64_t> firsts;  // one more than there are windows
};

// Best fit, the longest first: each chat goes to the window with the least room in which it fits,
// or to a new one. A function of the lengths alone, in n log n steps. Requires 1 <= length <=
// window.
//
//   PackChats({5, 3, 4, 4}, 8)   // windows {0, 1} and {2, 3}
PackedChats PackChats(std::span<const int64_t> lengths, int64_t window);

}  // namespace oneflow
