// Products if cuBLASLt lacks an algorithm or fails, which the emulated library can be set to do.
#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/cublas_lt.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/cuda/kernel/matmul_plan.h"
#include "actor_runtime/kernel/kernel_samples.h"

namespace oneflow::cuda {
namespace {

TEST_CASE("if the library has no epilogue a separate kernel finishes the product") {
  emulated::AllowCublasLtEpilogues(false);
  for (const KernelSample& sample : SmallSamples()) {
    if (!FindDef(sample).product) continue;
    INFO(ToString(sample));
    CudaHarness h(sample);
    KernelHarness wide = MakeHarness(sample, DType::kF64);
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    REQUIRE(wide.MakeAndCall() == absl::OkStatus());
    for (int i = 0; i < h.outputs(); ++i) {
      INFO("output " << i);
      CHECK(Distance(h.Output(i), wide.Output(i)) < FindTolerance(sample, h.setup().out[i].dtype));
    }
  }
  emulated::AllowCublasLtEpilogues(true);
}

TEST_CASE("a call of the library that fails is reported with the actor's name") {
  CudaHarness h(KernelSample{"matmul", {{{4, 8}}, {{8, 16}}}, {}});
  h.setup().name = "h.3.mlp";
  REQUIRE(h.Make() == absl::OkStatus());
  emulated::Fail("cublasLtMatmul", 2);
  CHECK(h.Call() == absl::OkStatus());
  const absl::Status failed = h.Call();
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(failed.message() == "h.3.mlp: cuBLASLt: cublasLtMatmul: execution failed");
  CHECK(h.Call() == absl::OkStatus());
}

TEST_CASE("the twin takes what the library's table lists, and nothing else") {
  const auto made = [&](const MatmulShape& shape) {
    return MatmulPlan::Make(shape, TestLibraries()).status().code();
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
  // Inputs of gelu need a multiple of 8 columns, and no batch.
  CHECK(made(with(CUDA_R_16BF, CUDA_R_16BF, CUBLASLT_EPILOGUE_GELU_AUX, 12)) == kNot);
  CHECK(made(with(CUDA_R_16BF, CUDA_R_16BF, CUBLASLT_EPILOGUE_DGELU, 16, 2)) == kNot);
  CHECK(made(with(CUDA_R_16BF, CUDA_R_16BF, CUBLASLT_EPILOGUE_DEFAULT, 12, 2)) == kOk);
}

TEST_CASE("the twin refuses operands that the library could not read or write") {
  const auto plan = MatmulPlan::Make({.m = 4, .n = 16, .k = 8}, TestLibraries());
  REQUIRE(plan.status() == absl::OkStatus());
  float* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 4096) == cudaSuccess);
  const float *a = memory, *b = memory + 64;
  float* d = memory + 256;
  const auto run = [&](const MatmulOperands& o) { return (*plan)->Run(o, {}, nullptr).code(); };
  const auto kOk = absl::StatusCode::kOk, kNot = absl::StatusCode::kInternal;
  CHECK(run({.a = a, .b = b, .d = d}) == kOk);
  CHECK(run({.a = a, .b = b, .d = d + 1}) == kNot);                     // not aligned
  CHECK(run({.a = nullptr, .b = b, .d = d}) == kNot);                   // no memory
  CHECK(run({.a = a, .b = b, .d = memory + 64}) == kNot);               // written over b
  CHECK(run({.a = a, .b = b, .c = d + 4, .d = d, .beta = 1}) == kNot);  // c over d
  CHECK(run({.a = a, .b = b, .c = d + 256, .d = d, .beta = 1}) == kOk);
  REQUIRE(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("a call plans nothing") {
  CudaHarness h(
      KernelSample{"linear", {{{4, 8}}, {{8, 16}}, {{16}}}, {{"then", std::string("gelu")}}});
  REQUIRE(h.Make() == absl::OkStatus());
  auto before = emulated::CallCounts();
  REQUIRE(h.Call() == absl::OkStatus());
  for (const auto& [entry, calls] : emulated::CallCounts()) {
    if (entry.starts_with("cublasLt")) CHECK(calls - before[entry] == (entry == "cublasLtMatmul"));
  }
}

}  // namespace
}  // namespace oneflow::cuda
