#include "oneflow_core/print/table.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

TEST_CASE("cells are padded to the widest of their column, in characters") {
  CHECK(TableText({{"", "n", "what"}, {"é", "10", ""}, {"two", "5", "x"}}, {{}, {true}, {}}, 1) ==
        "       n  what\n"
        " é    10\n"
        " two   5  x\n");
}

TEST_CASE("a column has its least width, and a row of one cell any") {
  CHECK(TableText({{"a", "b"}, {"as long as it is"}, {"c"}}, {{.least = 3}, {true, 4}}) ==
        "a       b\n"
        "as long as it is\n"
        "c\n");
  CHECK(TableText({}, {}).empty());
}

}  // namespace
}  // namespace oneflow
