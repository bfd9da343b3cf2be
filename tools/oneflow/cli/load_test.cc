#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"
#include "tools/oneflow/cli/parse_bytes.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;

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
      CHECK(ParseBytes("--memory", text).value() == bytes);
    }
  }
  for (const char* text :
       {"", "G", "80X", "80GiBs", "80 G B", "80 i", "80Gii", "-1G", "0", "nan", "1e30", "80iB",
        "inf", "9223372036854775808", "1e10GiB", "0.1", "1e-320KB"}) {
    INFO(text);
    const absl::Status error = ParseBytes("--memory", text).status();
    CHECK_THAT(std::string(ToStd(error.message())),
               Contains("--memory=" + std::string(text) +
                        ": is not a size; write e.g. 80GiB, 80Gi or 80G (the same), 80GB"));
  }
}

}  // namespace
}  // namespace oneflow
