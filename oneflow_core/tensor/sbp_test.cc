#include "oneflow_core/tensor/sbp.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"

namespace oneflow {

TEST_CASE("SBP reads what it prints") {
  for (const Sbp sbp : {B(), P(), PMax(), S(0), S(3), S(12)}) {
    CHECK(*ParseSbp(ToString(sbp)) == sbp);
  }
}

TEST_CASE("nd-SBP has brackets when it has several axes") {
  CHECK(ToString(NdSbp{}) == "B");
  CHECK(ToString(NdSbp{S(1)}) == "S(1)");
  CHECK(ToString(NdSbp{S(0), B(), PMax()}) == "(S(0),B,Pmax)");
}

TEST_CASE("malformed SBP is refused with the spelling that works") {
  for (const char* text :
       {"", "b", "S", "S()", "S(-1)", "S(1", "S(01)", "S(1) ", "S(123)", "Pmin"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseSbp(text).ok());
  }
  CHECK(ToStd(ParseSbp("S(x)").status().message()) ==
        "SBP \"S(x)\": is malformed; use B, P, Pmax, or S(i) with i the dimension that is split");
}

}  // namespace oneflow
