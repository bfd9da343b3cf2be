#include "tools/oneflow/cli/load.h"

#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"
#include "tools/oneflow/cli/parse_bytes.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;

std::string Error(const std::string& name, Isa best) {
  const absl::StatusOr<Isa> isa = ParseIsa(name, best);
  return isa.ok() ? "" : std::string(ToStd(isa.status().message()));
}

TEST_CASE("the instruction set of a flag") {
  CHECK(*ParseIsa("", Isa::kAvx512) == Isa::kAvx512);
  for (const Isa isa : kIsas) CHECK(*ParseIsa(std::string(Name(isa)), isa) == isa);
  CHECK(*ParseIsa("baseline", Isa::kAvx512Bf16) == Isa::kBaseline);
}

TEST_CASE("an instruction set that the processor lacks, and one that there is not") {
  CHECK_THAT(Error("avx512", Isa::kAvx2),
             Contains("--instruction_set=avx512") && Contains("this processor has not got it") &&
                 Contains("baseline, avx2") && !Contains("avx2, avx512"));
  CHECK_THAT(Error("sse9", Isa::kAvx2), Contains("no such instruction set"));
}

TEST_CASE("sizes: units of bytes, in any case; a single letter is binary") {
  const std::vector<std::pair<std::string, int64_t>> sizes = {{"1", 1},
                                                              {"1000", 1000},
                                                              {"7B", 7},
                                                              {"2KB", 2000},
                                                              {"2KiB", 2048},
                                                              {"2k", 2048},
                                                              {"1.5MB", 1500000},
                                                              {"3M", 3 << 20},
                                                              {"80GB", 80000000000},
                                                              {"80GiB", 85899345920},
                                                              {"80G", 85899345920},
                                                              {"80g", 85899345920},
                                                              {"80Gi", 85899345920},
                                                              {"80gi", 85899345920},
                                                              {"80 GB", 80000000000},
                                                              {"80 GiB", 85899345920},
                                                              {"80 G ", 85899345920},
                                                              {"1000 bytes", 1000},
                                                              {"1PB", 1000000000000000},
                                                              {"80gb", 80000000000},
                                                              {"1TiB", 1099511627776},
                                                              {"1T", 1099511627776},
                                                              {"1TB", 1000000000000}};
  for (const auto& [text, bytes] : sizes) {
    INFO(text);
    const absl::StatusOr<int64_t> parsed = ParseBytes("--memory", text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == bytes);
  }
  for (const char* text :
       {"", "G", "80X", "80GiBs", "80 G B", "80 i", "80Gii", "-1G", "0", "nan", "1e30", "80iB"}) {
    INFO(text);
    const absl::Status error = ParseBytes("--memory", text).status();
    CHECK_THAT(std::string(ToStd(error.message())),
               Contains("--memory=" + std::string(text) +
                        ": is not a size; write e.g. 80GiB, 80Gi or 80G (the same), 80GB"));
  }
}

}  // namespace
}  // namespace oneflow
