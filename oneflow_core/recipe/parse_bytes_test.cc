#include "oneflow_core/recipe/parse_bytes.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

namespace oneflow {
namespace {

TEST_CASE("sizes: units of bytes, in any case; a single letter is binary") {
  const std::map<int64_t, std::vector<std::string>> sizes = {
      {1, {"1"}},
      {7, {"7B"}},
      {1000, {"1000", "1000 bytes", "0.001MB", "1e-6GB"}},
      {2000, {"2KB"}},
      {2048, {"2KiB", "2k"}},
      {2500, {"2.5KB"}},
      {1500000, {"1.5MB"}},
      {3 << 20, {"3M"}},
      {80000000000, {"80GB", "80 GB", "80gb"}},
      {85899345920, {"80GiB", "80G", "80g", "80Gi", "80gi", "80 GiB", "80 G "}},
      {1000000000000, {"1TB"}},
      {1099511627776, {"1TiB", "1T"}},
      {1000000000000000, {"1PB"}}};
  for (const auto& [bytes, texts] : sizes) {
    for (const std::string& text : texts) {
      INFO(text);
      CHECK(ParseBytes(text, text).value() == bytes);
    }
  }
  for (const char* text :
       {"", "G", "80X", "80GiBs", "80 G B", "80 i", "80Gii", "-1G", "0", "nan", "1e30", "80iB",
        "inf", "9223372036854775808", "1e10GiB", "0.1", "1e-320KB"}) {
    INFO(text);
    const absl::Status error = ParseBytes(text, text).status();
    CHECK(error.message() == std::string(text) +
                                 ": is not a size; write e.g. 80GiB, 80Gi or 80G (the same), 80GB "
                                 "or a number of bytes, 1 or more and below 2^63");
  }
}

TEST_CASE("bytes are printed in the shortest form") {
  CHECK(PrintBytes(1) == "1");
  CHECK(PrintBytes(25'000'000) == "25MB");
  CHECK(PrintBytes(int64_t{80} << 30) == "80GiB");
  CHECK(PrintBytes(1025) == "1025");
}

}  // namespace
}  // namespace oneflow
