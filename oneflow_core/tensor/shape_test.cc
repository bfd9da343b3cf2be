#include "oneflow_core/tensor/shape.h"

#include <catch2/catch.hpp>

namespace oneflow {

TEST_CASE("a shape counts its elements") {
  CHECK(Shape{4, 256, 768}.elements() == 4 * 256 * 768);
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{3, 0}.elements() == 0);
  CHECK(Shape{4, 5}.rank() == 2);
}

TEST_CASE("elements are countable up to 2^48, whatever is empty") {
  constexpr int64_t k24 = int64_t{1} << 24, k40 = int64_t{1} << 40;
  CHECK(Countable({}));
  CHECK(Countable({k24, k24}));
  CHECK(Countable({k40, 0, 256}));
  CHECK_FALSE(Countable({k24, k24 + 1}));
  CHECK_FALSE(Countable({k40, k40, k40}));
  CHECK_FALSE(Countable({k40, 0, k40}));
}

TEST_CASE("a shape prints its sizes, or the names of those not bound yet") {
  CHECK(ToString(Shape{4, 256}) == "[4,256]");
  CHECK(ToString(Shape{}) == "[]");
  Shape shape{0, 256};
  CHECK(ToString(shape) == "[0,256]");
  shape.names = {"batch", "seq"};
  CHECK(ToString(shape) == "[batch,256]");
}

TEST_CASE("names do not take part in equality") {
  Shape named{4};
  named.names = {"batch"};
  CHECK(named == Shape{4});
  CHECK_FALSE(named == Shape{5});
}

}  // namespace oneflow
