#include "oneflow_core/tensor/primitive.h"

#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

namespace oneflow {

TEST_CASE("one primitive lies between any two layouts on an axis, but none from P to P") {
  const Sbp all[] = {B(), S(0), S(1), P(), PMax()};
  for (const Sbp from : all) {
    for (const Sbp to : all) {
      if (from == to) continue;
      INFO(ToString(from) << " to " << ToString(to));
      const auto rows = Primitives();
      const auto found = std::count_if(rows.begin(), rows.end(), [&](const Primitive& row) {
        return row.Changes(from, to, /*alone=*/true);
      });
      CHECK(found == (from.partial() && to.partial() ? 0 : 1));
      CHECK((FindPrimitive(from, to) != nullptr) == (found == 1));
    }
  }
}

TEST_CASE("devices receive data exactly in exchanges, and several axes change at once in one") {
  for (const Primitive& row : Primitives()) {
    INFO(std::string(row.kind));
    CHECK(FindPrimitive(row.kind) == &row);
    CHECK((row.received(1, 4) > 0) == IsExchange(row.kind));
    CHECK((row.rounds != LinkRounds::kNone) == IsExchange(row.kind));
    CHECK(row.Changes(B(), S(0), /*alone=*/false) == (row.several || row.kind == "slice"));
    CHECK(IsFill(row.kind) == (row.to == kIsP));
  }
  CHECK(FindPrimitive("send") == nullptr);
}

}  // namespace oneflow
