#include "oneflow_core/print/fold.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("fold: numbers of layers, replicas and stages are left out, digits of names are not") {
  CHECK(WithoutNumbers("h.12.ln_1.weight of stage 3; wte@1/grad 4x4") ==
        "h.*.ln_1.weight of stage *; wte@*/grad *x4");
  CHECK(WithoutNumbers("") == "");
  CHECK(WithoutNumbers("7") == "7");
}

TEST_CASE("fold: a star stands only for numbers that differ") {
  CHECK(Folded({"grad_norm is on stage 1"}) == "grad_norm is on stage 1");
  CHECK(Folded({"h.0.fc of stage 1", "h.1.fc of stage 1"}) == "h.*.fc of stage 1");
  CHECK(Folded({"h.10.fc@0", "h.10.fc@0", "h.10.fc@2"}) == "h.10.fc@*");
}

TEST_CASE("fold: alike lines share one, at the place of the first") {
  CHECK(FoldedLines({{"h.0.a"}, {"x"}, {"h.1.a"}, {"h.1.a", ": 2"}, {"h.2.b"}}) ==
        Lines{"h.*.a; 2 times", "x", "h.1.a: 2", "h.2.b"});
  CHECK(FoldedLines({}).empty());
}

}  // namespace
}  // namespace oneflow
