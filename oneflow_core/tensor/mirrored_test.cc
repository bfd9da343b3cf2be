#include "oneflow_core/tensor/mirrored.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

using Places = std::vector<int32_t>;

TEST_CASE("Each slice has a piece from the front and one from the end") {
  CHECK(MirroredPositions(8, 1) == Places{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(MirroredPositions(8, 2) == Places{0, 1, 6, 7, 2, 3, 4, 5});
  CHECK(MirroredPositions(8, 4) == Places{0, 7, 1, 6, 2, 5, 3, 4});
  CHECK(MirroredPositions(7, 2) == Places{0, 1, 5, 6, 2, 3, 4});
  CHECK(MirroredPositions(2, 3) == Places{0, 1});
}

TEST_CASE("Every position has one place, and slices see as many keys") {
  for (const int parts : {1, 2, 3, 4, 8}) {
    for (const int64_t length : {24, 25, 64, 160, 1000}) {
      INFO(length << " in " << parts);
      const Places positions = MirroredPositions(length, parts);
      Places sorted = positions;
      std::ranges::sort(sorted);
      for (int64_t i = 0; i < length; ++i) CHECK(sorted[i] == i);
      int64_t most = 0, all = 0;  // keys that the queries of a slice see
      for (int i = 0; i < parts; ++i) {
        const Range slice = EvenPart(length, parts, i);
        int64_t seen = 0;
        for (int64_t j = 0; j < slice.size; ++j) seen += positions[slice.begin + j] + 1;
        most = std::max(most, seen), all += seen;
      }
      if (length % (2 * parts) == 0) CHECK(most * parts == all);
      // Else a slice has a token more than another, or a half of one.
      CHECK(most * parts <= all + parts * length);
    }
  }
}

// Tiles of 64 queries and 64 keys of which some pair sees each other: what kernels compute.
int64_t CountTiles(const Places& positions, const Range& slice) {
  constexpr int64_t kTile = 64;
  const auto length = static_cast<int64_t>(positions.size());
  int64_t tiles = 0;
  for (int64_t q = slice.begin; q < slice.begin + slice.size; q += kTile) {
    const int64_t end = std::min(q + kTile, slice.begin + slice.size);
    const int32_t last = *std::max_element(positions.begin() + q, positions.begin() + end);
    for (int64_t k = 0; k < length; k += kTile) {
      const auto keys = positions.begin() + k;
      tiles += *std::min_element(keys, positions.begin() + std::min(k + kTile, length)) <= last;
    }
  }
  return tiles;
}

TEST_CASE("On 4 devices the one with most tiles of attention has at most 1.05 times the mean") {
  for (const int64_t length : {4096, 4100, 8191, 16384}) {
    for (const int parts : {2, 4, 8}) {
      INFO(length << " in " << parts);
      const Places mirrored = MirroredPositions(length, parts),
                   in_order = MirroredPositions(length, 1);
      int64_t most = 0, all = 0, most_in_order = 0;
      for (int i = 0; i < parts; ++i) {
        const Range slice = EvenPart(length, parts, i);
        const int64_t tiles = CountTiles(mirrored, slice);
        most = std::max(most, tiles), all += tiles;
        most_in_order = std::max(most_in_order, CountTiles(in_order, slice));
      }
      if (length % (128 * parts) == 0) CHECK(most * parts == all);
      // Ragged slices of 8 are short: a tile that is not full weighs more.
      const double bound = parts <= 4 ? 1.05 : 1.1;
      CHECK(static_cast<double>(most * parts) <= bound * static_cast<double>(all));
      CHECK(static_cast<double>(most_in_order * parts) > 1.4 * static_cast<double>(all));
    }
  }
}

TEST_CASE("Runs that no slice and no piece cuts") {
  CHECK(LongestRun(MirroredPositions(64, 1), 1) == 64);
  CHECK(LongestRun(MirroredPositions(64, 2), 2) == 16);
  CHECK(LongestRun(MirroredPositions(64, 4), 4) == 8);
  CHECK(LongestRun(MirroredPositions(24, 4), 4) == 3);
  CHECK(LongestRun(MirroredPositions(25, 2), 2) == 1);
  Places inorder(24);
  for (int i = 0; i < 24; ++i) inorder[i] = i;
  CHECK(LongestRun(inorder, 4) == 6);
}

}  // namespace
}  // namespace oneflow
