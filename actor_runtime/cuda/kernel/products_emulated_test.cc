// What products do where cuBLASLt lacks something or fails, which its twin can be told to do.
#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/cublas_lt.h"
#include "actor_runtime/cuda/kernel/gpu_call.h"
#include "actor_runtime/cuda/kernel/matmul_plan.h"
#include "actor_runtime/cuda/kernel/products.h"
#include "actor_runtime/kernel/kernel_samples.h"

namespace oneflow::cuda {
namespace {

DeviceLibraries Opened() {
  absl::StatusOr<DeviceLibraries> opened = DeviceLibraries::Open({});
  REQUIRE(opened.status() == absl::OkStatus());
  return *std::move(opened);
}

using Factory = absl::StatusOr<Kernel> (*)(const KernelSetup&, const Libraries&);
struct FinishedKind {
  std::string kind;
  Factory make;
  int bias_input;
};
const FinishedKind kFinished[] = {{"linear", MakeLinear, 2},
                                  {"linear_add", MakeLinearAdd, 3},
                                  {"linear_gelu", MakeLinearGelu, 2},
                                  {"linear_gelu_grad_input", MakeLinearGeluGradInput, -1}};

TEST_CASE("where the library has no epilogue a kernel of ours finishes the product") {
  const DeviceLibraries opened = Opened();
  emulated::AllowCublasLtEpilogues(false);
  for (const KernelSample& sample : SmallSamples()) {
    for (const FinishedKind& finished : kFinished) {
      if (sample.kind != finished.kind) continue;
      INFO(ToString(sample));
      KernelHarness h = HarnessOf(sample, DType::kF32), wide = HarnessOf(sample, DType::kF64);
      GpuCall on_gpu(h);
      REQUIRE(on_gpu.Make([&](const KernelSetup& s) {
        return finished.make(s, opened.libraries());
      }) == absl::OkStatus());
      REQUIRE(on_gpu.Call() == absl::OkStatus());
      REQUIRE(wide.Make() == absl::OkStatus());
      REQUIRE(wide.Call() == absl::OkStatus());
      for (int i = 0; i < static_cast<int>(h.setup().out.size()); ++i) {
        INFO("output " << i);
        CHECK(Distance(h.Output(i), wide.Output(i)) <
              ToleranceOf(sample.kind, h.setup().out[i].dtype));
      }
    }
  }
  emulated::AllowCublasLtEpilogues(true);
}

TEST_CASE("a call of the library that fails is reported with the actor's name") {
  const DeviceLibraries opened = Opened();
  KernelHarness h = HarnessOf({"matmul", {{{4, 8}}, {{8, 16}}}, {}}, DType::kF32);
  h.setup().name = "h.3.mlp";
  GpuCall on_gpu(h);
  REQUIRE(on_gpu.Make([&](const KernelSetup& s) { return MakeMatmul(s, opened.libraries()); }) ==
          absl::OkStatus());
  emulated::FailCublasLtMatmul(2, CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(on_gpu.Call() == absl::OkStatus());
  const absl::Status failed = on_gpu.Call();
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(failed.message() == "h.3.mlp: cuBLASLt: cublasLtMatmul: execution failed");
  CHECK(on_gpu.Call() == absl::OkStatus());
}

TEST_CASE("the twin takes what the library's table lists, and nothing else") {
  const DeviceLibraries opened = Opened();
  const auto made = [&](const MatmulShape& shape) {
    return MatmulPlan::Make(shape, opened.libraries()).status().code();
  };
  const auto kOk = absl::StatusCode::kOk, kNot = absl::StatusCode::kUnimplemented;
  const MatmulShape f32{.m = 4, .n = 16, .k = 8};
  const auto with = [&](cudaDataType in, cudaDataType out, cublasLtEpilogue_t epilogue,
                        int64_t n = 16, int64_t batch = 1) {
    MatmulShape shape = f32;
    shape.in = in, shape.out = out, shape.epilogue = epilogue, shape.n = n, shape.batch = batch;
    return shape;
  };
  CHECK(made(with(CUDA_R_32F, CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT)) == kOk);
  CHECK(made(with(CUDA_R_16BF, CUDA_R_16BF, CUBLASLT_EPILOGUE_GELU_AUX_BIAS)) == kOk);
  CHECK(made(with(CUDA_R_16BF, CUDA_R_32F, CUBLASLT_EPILOGUE_BIAS)) == kOk);
  CHECK(made(with(CUDA_R_32F, CUDA_R_16BF, CUBLASLT_EPILOGUE_DEFAULT)) == kNot);
  CHECK(made(with(CUDA_R_64F, CUDA_R_64F, CUBLASLT_EPILOGUE_DEFAULT)) == kNot);
  CHECK(made(with(CUDA_R_16F, CUDA_R_16F, CUBLASLT_EPILOGUE_DEFAULT)) == kNot);
  // What gelu reads has columns of whole vectors, and no batch.
  CHECK(made(with(CUDA_R_16BF, CUDA_R_16BF, CUBLASLT_EPILOGUE_GELU_AUX, 12)) == kNot);
  CHECK(made(with(CUDA_R_16BF, CUDA_R_16BF, CUBLASLT_EPILOGUE_DGELU, 16, 2)) == kNot);
  CHECK(made(with(CUDA_R_16BF, CUDA_R_16BF, CUBLASLT_EPILOGUE_DEFAULT, 12, 2)) == kOk);
}

TEST_CASE("the twin refuses operands that the library could not read or write") {
  const DeviceLibraries opened = Opened();
  const auto plan = MatmulPlan::Make({.m = 4, .n = 16, .k = 8}, opened.libraries());
  REQUIRE(plan.status() == absl::OkStatus());
  alignas(64) static float a[4 * 8], b[8 * 16], d[4 * 16 + 1];
  const auto run = [&](const MatmulOperands& o) { return (*plan)->Run(o, {}, nullptr).code(); };
  CHECK(run({.a = a, .b = b, .d = d}) == absl::StatusCode::kOk);
  CHECK(run({.a = a, .b = b, .d = d + 1}) == absl::StatusCode::kInternal);    // not aligned
  CHECK(run({.a = nullptr, .b = b, .d = d}) == absl::StatusCode::kInternal);  // no memory
  CHECK(run({.a = b, .b = b, .d = b}) == absl::StatusCode::kInternal);        // written over
  CHECK(run({.a = a, .b = b, .c = d + 4, .d = d, .beta = 1}) == absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace oneflow::cuda
