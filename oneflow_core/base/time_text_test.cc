#include "oneflow_core/base/time_text.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

TEST_CASE("times have the unit that fits them") {
  CHECK(TimeText(0) == "0 s");
  CHECK(TimeText(2.5) == "2.500 s");
  CHECK(TimeText(0.0125) == "12.500 ms");
  CHECK(TimeText(4.2e-6) == "4.20 us");
}

TEST_CASE("parts of a whole in per cent") {
  CHECK(PercentText(0.1234) == "12.3 %");
  CHECK(PercentText(1) == "100.0 %");
}

}  // namespace
}  // namespace oneflow
