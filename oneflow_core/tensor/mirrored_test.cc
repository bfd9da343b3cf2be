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
