#include "training/trainer/runtime_options.h"

#include <catch2/catch.hpp>
#include <string>

#include "oneflow_core/base/strings.h"

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

}  // namespace
}  // namespace oneflow
