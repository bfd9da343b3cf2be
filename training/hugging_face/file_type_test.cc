#include "training/hugging_face/file_type.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace oneflow {
namespace {

float WidenOne(FileType type, uint16_t bits) {
  float value = 0;
  Widen(type, std::as_bytes(std::span(&bits, 1)), std::span(&value, 1));
  return value;
}

uint16_t NarrowOne(FileType type, float value) {
  uint16_t bits = 0;
  REQUIRE_FALSE(
      Narrow(type, std::span(&value, 1), std::as_writable_bytes(std::span(&bits, 1))).has_value());
  return bits;
}

bool IsTooLarge(FileType type, float value) {
  uint16_t bits = 0;
  return Narrow(type, std::span(&value, 1), std::as_writable_bytes(std::span(&bits, 1)))
      .has_value();
}

TEST_CASE("FileType: every 16-bit pattern is the same after f32 and back") {
  for (const FileType type : {FileType::kBF16, FileType::kF16}) {
    int64_t different = 0;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      different += NarrowOne(type, WidenOne(type, half)) != half;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("FileType: values of halves") {
  CHECK(WidenOne(FileType::kF16, 0x3c00) == 1.0F);
  CHECK(WidenOne(FileType::kF16, 0xc100) == -2.5F);
  CHECK(WidenOne(FileType::kF16, 0x7bff) == 65504.0F);
  CHECK(WidenOne(FileType::kF16, 0x0001) == 0x1p-24F);
  CHECK(WidenOne(FileType::kF16, 0x83ff) == -0x3ffp-24F);
  CHECK(std::isinf(WidenOne(FileType::kF16, 0x7c00)));
  CHECK(std::isnan(WidenOne(FileType::kF16, 0x7c01)));
  CHECK(WidenOne(FileType::kBF16, 0x3fc0) == 1.5F);
}

TEST_CASE("FileType: halves are rounded to nearest, ties to even") {
  CHECK(NarrowOne(FileType::kF16, 1 + 0x1p-11F) == 0x3c00);             // halfway, down to even
  CHECK(NarrowOne(FileType::kF16, 1 + 0x3p-11F) == 0x3c02);             // halfway, up to even
  CHECK(NarrowOne(FileType::kF16, 1 + 0x1p-11F + 0x1p-20F) == 0x3c01);  // above
  CHECK(NarrowOne(FileType::kF16, 0x1p-25F) == 0);                      // halfway to a denormal
  CHECK(NarrowOne(FileType::kF16, 0x3p-25F) == 2);                      // halfway, up to even
  CHECK(NarrowOne(FileType::kF16, -0x1.8p-25F) == 0x8001);
  CHECK(NarrowOne(FileType::kF16, 0x1p-14F - 0x1p-26F) == 0x0400);  // up to a normal number
  CHECK(NarrowOne(FileType::kF16, 65519.0F) == 0x7bff);
}

// The nearest half by search, as an oracle of the bits.
TEST_CASE("FileType: a half is the nearest of its two neighbours") {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const float a = WidenOne(FileType::kF16, low), b = WidenOne(FileType::kF16, high);
    const float middle = (a + b) / 2;  // exact
    REQUIRE(NarrowOne(FileType::kF16, middle) == (low % 2 == 0 ? low : high));
    REQUIRE(NarrowOne(FileType::kF16, std::nextafter(middle, a)) == low);
    REQUIRE(NarrowOne(FileType::kF16, std::nextafter(middle, b)) == high);
  }
}

TEST_CASE("FileType: finite values that would become infinite are reported") {
  CHECK(IsTooLarge(FileType::kF16, 65520.0F));
  CHECK(IsTooLarge(FileType::kF16, -1e30F));
  CHECK(IsTooLarge(FileType::kBF16, std::numeric_limits<float>::max()));
  CHECK_FALSE(IsTooLarge(FileType::kF16, std::numeric_limits<float>::infinity()));
  const std::vector<float> values = {1, 2, 1e6F, 1e7F};
  std::vector<std::byte> bytes(8);
  CHECK(Narrow(FileType::kF16, values, bytes) == 2);
  CHECK(Narrow(FileType::kBF16, values, bytes) == std::nullopt);
}

TEST_CASE("FileType: names") {
  for (const FileType type : {FileType::kF32, FileType::kBF16, FileType::kF16}) {
    CHECK(*ParseFileType("--dtype", Name(type)) == type);
  }
  CHECK(std::string(ParseFileType("--dtype=f8", "f8").status().message()) ==
        "--dtype=f8: no such element type; use bf16, f32 or f16");
}

}  // namespace
}  // namespace oneflow
