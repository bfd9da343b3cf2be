#include "oneflow_core/tensor/dtype.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/strings.h"

namespace oneflow {

TEST_CASE("element types have names and sizes") {
  for (const DType t : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kU8}) {
    CHECK(*ParseDType(Name(t)) == t);
  }
  CHECK(ElementBytes(DType::kF32) == 4);
  CHECK(ElementBytes(DType::kF64) == 8);
  CHECK(ElementBytes(DType::kI32) == 4);
  CHECK(ElementBytes(DType::kBF16) == 2);
  CHECK(ElementBytes(DType::kU8) == 1);
  CHECK(ToStd(ParseDType("f16").status().message()) ==
        "element type \"f16\": is not known; use f32, f64, i32, bf16 or u8");
}

}  // namespace oneflow
