#include "planning/fit/quantities.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/status.h"
#include "planning/fit/defaults.h"

namespace oneflow {
namespace {

using Catch::Contains;

template <typename T>
std::string FindError(const absl::StatusOr<T>& result) {
  if (result.ok()) return "no error";
  CHECK(ExitCode(result.status()) == 2);
  return std::string(result.status().message());
}

TEST_CASE("quantities: devices") {
  CHECK(ParseDeviceGrid("64")->devices == 64);
  CHECK(ParseDeviceGrid("64")->nodes == 0);
  CHECK(ParseDeviceGrid("8x4")->devices == 32);
  CHECK(ParseDeviceGrid("8X4")->nodes == 8);
  CHECK(ParseDeviceGrid("1*8")->devices == 8);
  for (const char* text : {"", "8x", "x8", "-8", "8x8x8", "eight", "8.5", "8x-1", "99999999999"}) {
    INFO(text);
    CHECK_THAT(FindError(ParseDeviceGrid(text)),
               Contains("--devices=") && Contains("8x8 for 8 nodes of 8"));
  }
  for (const char* text : {"0", "0x8", "8x0", "999999999x999999999"}) {
    INFO(text);
    CHECK_THAT(FindError(ParseDeviceGrid(text)), Contains("is out of range; use 1 device or more"));
  }
}

TEST_CASE("quantities: batches of sequences and of tokens") {
  CHECK(ParseBatch("1024")->sequences == 1024);
  CHECK(ParseBatch("1024sequences")->sequences == 1024);
  CHECK(ParseBatch("4M")->tokens == 4 << 20);
  CHECK(ParseBatch("4Mtokens")->tokens == 4 << 20);
  CHECK(ParseBatch("4 m tokens")->tokens == 4 << 20);
  CHECK(ParseBatch("0.5M")->tokens == 1 << 19);
  CHECK(ParseBatch("500000tokens")->tokens == 500000);
  CHECK(ParseBatch("2k sequences")->sequences == 2048);
  for (const char* text : {"", "-4M", "many", "inf", "nan", "0x10", "M"}) {
    INFO(text);
    CHECK_THAT(FindError(ParseBatch(text)),
               Contains("is no batch") && Contains("--batch=4Mtokens"));
  }
  for (const char* text : {"0", "1.5", "0tokens", "1e30", "9999999G"}) {
    INFO(text);
    CHECK_THAT(FindError(ParseBatch(text)), Contains("is no whole number of"));
  }
  CHECK_THAT(FindError(ParseBatch("4MB")),
             Contains("has the unit \"b\", which is none of a batch"));
}

TEST_CASE("quantities: lengths of sequences") {
  CHECK(ParseSequence("8192").value() == 8192);
  CHECK(ParseSequence("8k").value() == 8192);
  CHECK(ParseSequence("1M").value() == 1 << 20);
  for (const char* text : {"", "-1", "8kB", "long"}) {
    INFO(text);
    CHECK_THAT(FindError(ParseSequence(text)), Contains("is no length of a sequence"));
  }
  for (const char* text : {"0", "0.3", "4G"}) {
    INFO(text);
    CHECK_THAT(FindError(ParseSequence(text)), Contains("is no whole number of tokens"));
  }
}

TEST_CASE("quantities: the usual batch") {
  CHECK(FindUsualSequence(131072) == 4096);
  CHECK(FindUsualSequence(8192) == 8192);
  CHECK(FindUsualSequence(0) == 0);
  // Llama 3's first batches: 4M tokens.
  CHECK(FindUsualBatch(8e9, 8192, 64) * 8192 == 4 << 20);
  CHECK(FindUsualBatch(70e9, 4096, 256) == 1024);
  CHECK(FindUsualBatch(405e9, 8192, 1024) == 1024);  // a sequence for each device
  CHECK(FindUsualBatch(8e9, 8192, 8) * 8192 == 8 * 65536);
  CHECK(FindUsualBatch(124e6, 1024, 8) * 1024 == 1 << 19);
  CHECK(FindUsualBatch(671e9, 4096, 4096) * 4096 == 16 << 20);
  CHECK(FindUsualBatch(671e9, 8192, 16384) * 8192 == 16 << 20);  // not one for each
  for (const int64_t devices : {1, 3, 8, 24, 56, 96, 1000}) {
    INFO(devices);
    const int64_t batch = FindUsualBatch(7e9, 4096, devices);
    CHECK(batch >= devices);
    CHECK(batch % devices == 0);
  }
  CHECK(UsualBatchText(1024, 4096) == "about 4M tokens");
  CHECK(UsualBatchText(512, 1024) == "about 512k tokens");
  CHECK(RoundBatch(4 << 20, 4096, 256) == 1024);
  CHECK(RoundBatch(4 << 20, 3000, 8) == 1400);
  CHECK(RoundBatch(100, 4096, 8) == 1);
}

}  // namespace
}  // namespace oneflow
