#include "oneflow_core/base/time_text.h"

#include <catch2/catch.hpp>
#include <limits>

namespace oneflow {
namespace {

TEST_CASE("times have the unit that fits them") {
  CHECK(TimeText(0) == "0 s");
  CHECK(TimeText(2.5) == "2.500 s");
  CHECK(TimeText(0.0125) == "12.500 ms");
  CHECK(TimeText(4.2e-6) == "4.20 us");
}

TEST_CASE("losses have five digits, and no NaN has a sign") {
  CHECK(NumberText(5.531254768371582) == "5.5313");
  CHECK(NumberText(10.5) == "10.500");
  CHECK(NumberText(0.00012345678) == "0.00012346");
  CHECK(NumberText(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(NumberText(std::numeric_limits<double>::infinity()) == "inf");
}

TEST_CASE("parts of a whole in per cent") {
  CHECK(PercentText(0.1234) == "12.3 %");
  CHECK(PercentText(1) == "100.0 %");
}

}  // namespace
}  // namespace oneflow
