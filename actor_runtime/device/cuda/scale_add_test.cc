#include "actor_runtime/device/cuda/scale_add.h"

#include <catch2/catch.hpp>
#include <vector>

namespace oneflow {
namespace {

TEST_CASE("scale_add computes, or says why it cannot") {
  const std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> y = {10, 20, 30, 40};
  const absl::Status status = CudaScaleAdd(2, x, y);
  INFO(status.ToString());
#ifdef ONEFLOW_EXPECT_GPU
  REQUIRE(status.ok());
#endif
  if (status.ok()) {
    CHECK(y == std::vector<float>{12, 24, 36, 48});
  } else {
    CHECK(y == std::vector<float>{10, 20, 30, 40});
    const bool no_device = absl::IsUnavailable(status);
    const bool no_cuda = absl::IsUnimplemented(status);
    CHECK((no_device || no_cuda));
  }
}

}  // namespace
}  // namespace oneflow
