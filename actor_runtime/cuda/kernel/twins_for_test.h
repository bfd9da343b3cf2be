// For tests of the cases of one kind: a kernel on the CPU and on the GPU, with the same ports,
// types and values.
//
//   Twins twins("gelu", {}, {{x}}, {x});
//   twins.SetInput(0, values);
//   twins.Call();
//   twins.CheckNear();      // the CPU's kernel is the reference
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/kernel/kernel_samples.h"

namespace oneflow::cuda {

// Half a unit in the last of bf16's eight digits, and a margin for earlier rounding in f32.
inline double Tolerance(DType dtype) { return dtype == DType::kBF16 ? 0x1.1p-8 : 4e-5; }

// A kernel on the CPU and on the GPU.
struct Twins {
  KernelHarness cpu;
  CudaHarness gpu;

  Twins(std::string kind, AttrMap attrs, std::vector<std::vector<Port>> in, std::vector<Port> out)
      : cpu(std::move(kind), std::move(attrs), std::move(in), std::move(out)), gpu(cpu.setup()) {
    cpu.run().optimizer = gpu.run().optimizer = TestStepNumbers;
  }

  void Change(auto change) {
    change(cpu.setup());
    change(gpu.setup());
  }
  void SetInput(int i, const Values& values, int source = 0) {
    cpu.SetInput(i, values, source);
    gpu.SetInput(i, values, source);
  }
  void SetOutput(int i, const Values& values) {
    cpu.SetOutput(i, values);
    gpu.SetOutput(i, values);
  }
  void Call(bool accumulate = false, int64_t firing = 0) {
    REQUIRE(cpu.Make() == absl::OkStatus());
    REQUIRE(gpu.Make() == absl::OkStatus());
    REQUIRE(cpu.Call(accumulate, firing) == absl::OkStatus());
    REQUIRE(gpu.Call(accumulate, firing) == absl::OkStatus());
    CHECK(gpu.IsTidy());
  }
  // Both may round, to either side.
  void CheckNear() {
    for (int i = 0; i < gpu.outputs(); ++i) {
      INFO("output " << i);
      CHECK(Distance(gpu.Output(i), cpu.Output(i)) < 2 * Tolerance(gpu.setup().out[i].dtype));
    }
  }
  void CheckSameBits() {
    for (int i = 0; i < gpu.outputs(); ++i) {
      INFO("output " << i);
      CHECK(gpu.OutputBytes(i) == cpu.OutputBytes(i));
    }
  }
};

}  // namespace oneflow::cuda
