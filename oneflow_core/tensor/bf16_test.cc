#include "oneflow_core/tensor/bf16.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace oneflow {
namespace {

TEST_CASE("what bf16 holds goes through it unchanged") {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    const Bf16 x{static_cast<uint16_t>(bits)};
    if (std::isnan(ToFloat(x))) {
      CHECK(std::isnan(ToFloat(ToBf16(ToFloat(x)))));
    } else if (ToBf16(ToFloat(x)) != x) {
      FAIL("changed: " << bits);
    }
  }
}

TEST_CASE("bf16 rounds to nearest, ties to even") {
  constexpr float kUlp = 1.0f / 128;  // of 1.0
  CHECK(ToFloat(ToBf16(1 + kUlp / 2)) == 1.0f);
  CHECK(ToFloat(ToBf16(1 + kUlp * 1.5f)) == 1 + 2 * kUlp);
  CHECK(ToFloat(ToBf16(1 + kUlp * 0.51f)) == 1 + kUlp);
  CHECK(ToFloat(ToBf16(-1 - kUlp * 0.49f)) == -1.0f);
  CHECK(std::isinf(ToFloat(ToBf16(std::numeric_limits<float>::max()))));
  CHECK(std::isnan(ToFloat(ToBf16(std::numeric_limits<float>::signaling_NaN()))));
}

}  // namespace
}  // namespace oneflow
