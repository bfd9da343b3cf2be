#include "oneflow_core/base/cause.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/status.h"

namespace oneflow {

TEST_CASE("a status carries its cause wherever it goes") {
  const absl::Status failed = absl::UnavailableError("the link failed");
  CHECK(FindCause(failed).process == -1);
  CHECK_FALSE(FindCause(failed).is_consequence);
  const Cause noticed = FindCause(Annotate(MarkConsequence(3, failed), "step 7"));
  CHECK(noticed.process == 3);
  CHECK(noticed.is_consequence);
  CHECK(noticed.host.empty());
  const Cause named =
      FindCause(WithCause(failed, {.process = 2, .rank = 8, .is_decided = true, .host = "a host"}));
  CHECK(named.process == 2);
  CHECK(named.rank == 8);
  CHECK_FALSE(named.is_consequence);
  CHECK(named.is_decided);
  CHECK(named.host == "a host");
  CHECK(MarkConsequence(3, absl::OkStatus()).ok());
}

}  // namespace oneflow
