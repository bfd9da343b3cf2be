// rotary beyond the samples of kernel_test.cc: heads of other sizes, and positions far out.
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/kernel/kernel_test_util.h"

namespace oneflow::cuda {
namespace {

// Sets the inputs of a kernel of heads of `d` elements.
void SetInputs(int64_t d, auto& harness) {
  harness.SetInput(0, RandomValues(2 * 5 * 3 * d, 1));
  harness.SetInput(1, RandomIds(10, 2, 200000));
}

KernelHarness OnCpu(int64_t d, DType dtype, int64_t rotated) {
  const Port x = FullPort({2, 5, 3, d}, dtype);
  return KernelHarness("rotary",
                       {{"theta", 500000.0}, {"rotated", rotated}, {"attention_factor", 1.25}},
                       {{x}, {FullPort({2, 5}, DType::kI32)}}, {x});
}

TEST_CASE("rotary turns heads of any size by the CPU's angles") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [d, rotated] : std::vector<std::pair<int64_t, int64_t>>{{2, 2},
                                                                             {6, 6},
                                                                             {6, 4},
                                                                             {64, 64},
                                                                             {64, 16},
                                                                             {96, 96},
                                                                             {130, 130},
                                                                             {130, 128},
                                                                             {256, 256},
                                                                             {510, 510},
                                                                             {512, 512},
                                                                             {600, 512}}) {
      INFO("d " << d << ", rotated " << rotated << ", " << std::string(Name(dtype)));
      KernelHarness cpu = OnCpu(d, dtype, rotated);
      CudaHarness gpu(cpu.setup());
      SetInputs(d, cpu);
      SetInputs(d, gpu);
      REQUIRE(cpu.Make() == absl::OkStatus());
      REQUIRE(gpu.Make() == absl::OkStatus());
      for (const bool accumulate : {false, true}) {
        REQUIRE(cpu.Call(accumulate) == absl::OkStatus());
        REQUIRE(gpu.Call(accumulate) == absl::OkStatus());
        // Both may round, to either side.
        const double allowed = dtype == DType::kBF16 ? 0x1.1p-7 : 1e-6;
        CHECK(Distance(gpu.Output(0), cpu.Output(0)) < allowed);
        CHECK(gpu.IsTidy());
      }
    }
  }
}

TEST_CASE("rotary of heads that are too large is refused") {
  const absl::Status status = CudaHarness(OnCpu(514, DType::kF32, 514).setup()).Make();
  CHECK(status.code() == absl::StatusCode::kUnimplemented);
  CHECK(status.message() ==
        "test: no CUDA kernel \"rotary\" that turns more than 512 elements of a head");
}

}  // namespace
}  // namespace oneflow::cuda
