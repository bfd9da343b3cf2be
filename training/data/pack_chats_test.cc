#include "training/data/pack_chats.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "actor_runtime/random/random.h"

namespace oneflow {
namespace {

using Numbers = std::vector<int64_t>;

// Lengths as of chats: many short ones, few long ones.
Numbers Lengths(int64_t count, int64_t window) {
  const RandomStream random(3, "lengths");
  Numbers lengths;
  for (int64_t i = 0; i < count; ++i) {
    const double u = random.Uniform(i);
    lengths.push_back(1 + static_cast<int64_t>(static_cast<double>(window - 1) * u * u * u));
  }
  return lengths;
}

TEST_CASE("pack: two windows of two chats each") {
  const PackedChats packed = PackChats(Numbers{5, 3, 4, 4}, 8);
  CHECK(packed.chats == Numbers{0, 1, 2, 3});
  CHECK(packed.firsts == Numbers{0, 2, 4});
}

TEST_CASE("pack: the least room in which a chat fits") {
  // 7 and 5 open windows; 3 fits the room of 5's alone, 1 that of 7's best.
  const PackedChats packed = PackChats(Numbers{1, 3, 5, 7}, 8);
  CHECK(packed.chats == Numbers{0, 3, 1, 2});
  CHECK(packed.firsts == Numbers{0, 2, 4});
}

TEST_CASE("pack: nothing, and chats that fill a window") {
  CHECK(PackChats({}, 8).firsts == Numbers{0});
  CHECK(PackChats(Numbers{8, 8}, 8).firsts == Numbers{0, 1, 2});
}

TEST_CASE("pack: each chat once, no window too full, little room left") {
  constexpr int64_t kWindow = 256;
  const Numbers lengths = Lengths(5000, kWindow);
  const PackedChats packed = PackChats(lengths, kWindow);
  Numbers sorted = packed.chats, all(lengths.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  CHECK(sorted == all);
  const int64_t windows = std::ssize(packed.firsts) - 1;
  int64_t last = -1;
  for (int64_t w = 0; w < windows; ++w) {
    int64_t tokens = 0;
    REQUIRE(packed.firsts[w] < packed.firsts[w + 1]);
    for (int64_t i = packed.firsts[w]; i < packed.firsts[w + 1]; ++i) {
      tokens += lengths[packed.chats[i]];
      if (i > packed.firsts[w]) CHECK(packed.chats[i - 1] < packed.chats[i]);
    }
    CHECK(tokens <= kWindow);
    CHECK(packed.chats[packed.firsts[w]] > last);
    last = packed.chats[packed.firsts[w]];
  }
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  CHECK(static_cast<double>(tokens) > 0.99 * static_cast<double>(windows * kWindow));
}

}  // namespace
}  // namespace oneflow
