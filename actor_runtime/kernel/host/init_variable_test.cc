#include "actor_runtime/kernel/host/init_variable.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "actor_runtime/kernel/run_context.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {
namespace {

KernelSetup Setup(const std::string& init, double value, Dims dims, Slice slice,
                  DType dtype = DType::kF32) {
  return {.kind = "init_variable",
          .name = "init.w",
          .attrs = {{"name", std::string("w")}, {"init", init}, {"init_value", value}},
          .out = {{.dtype = dtype, .dims = std::move(dims), .slice = std::move(slice)}}};
}

template <typename T>
std::vector<T> Run(const KernelSetup& setup, uint64_t seed, ThreadPool* pool = nullptr) {
  std::vector<T> out(setup.out[0].slice.elements());
  std::byte* bases[] = {reinterpret_cast<std::byte*>(out.data())};
  const RunContext run = {.seed = seed};
  const Kernel kernel = *MakeInitVariable(setup);
  REQUIRE(kernel({.out = bases, .pool = pool, .run = &run}).ok());
  return out;
}

TEST_CASE("init_variable: any slice holds the values of the full tensor") {
  const Dims dims = {3, 5, 7};
  const auto full = Run<float>(Setup("normal", 0.02, dims, {{0, 0, 0}, dims}), 42);
  const std::vector<Slice> slices = {{{1, 0, 0}, {2, 5, 7}}, {{0, 2, 0}, {3, 3, 7}},
                                     {{0, 0, 3}, {3, 5, 4}}, {{2, 1, 5}, {1, 3, 2}},
                                     {{1, 1, 1}, {1, 1, 1}}, {{0, 5, 0}, {3, 0, 7}}};
  for (const Slice& slice : slices) {
    const auto part = Run<float>(Setup("normal", 0.02, dims, slice), 42);
    size_t next = 0;
    for (int64_t i = 0; i < slice.size[0]; ++i) {
      for (int64_t j = 0; j < slice.size[1]; ++j) {
        for (int64_t k = 0; k < slice.size[2]; ++k) {
          const int64_t at = ((slice.begin[0] + i) * 5 + slice.begin[1] + j) * 7;
          REQUIRE(part[next++] == full[at + slice.begin[2] + k]);
        }
      }
    }
    CHECK(next == part.size());
  }
}

TEST_CASE("init_variable: values depend on seed and name, scale with init_value") {
  const Dims dims = {40, 1000};
  const Slice slice = {{0, 0}, dims};
  KernelSetup setup = Setup("normal", 0.5, dims, slice);
  const auto values = Run<float>(setup, 1);
  CHECK(values == Run<float>(setup, 1));
  CHECK(values != Run<float>(setup, 2));
  double square = 0;
  for (float v : values) square += double{v} * v / values.size();
  CHECK(std::sqrt(square) == Approx(0.5).epsilon(0.02));

  setup.attrs["name"] = std::string("other");
  CHECK(values != Run<float>(setup, 1));

  const auto doubles = Run<double>(Setup("normal", 0.5, dims, slice, DType::kF64), 1);
  bool rounded = true;
  for (size_t i = 0; i < doubles.size(); ++i) {
    rounded = rounded && static_cast<float>(doubles[i]) == values[i];
  }
  CHECK(rounded);
}

TEST_CASE("init_variable: bf16 values are f32 ones, rounded") {
  const Dims dims = {3, 500};
  for (const char* init : {"normal", "uniform", "ones", "constant"}) {
    KernelSetup setup = Setup(init, 0.3, dims, {{0, 0}, dims});
    const auto wide = Run<float>(setup, 7);
    setup.out[0].dtype = DType::kBF16;
    const auto narrow = Run<Bf16>(setup, 7);
    for (size_t i = 0; i < wide.size(); ++i) REQUIRE(narrow[i] == ToBf16(wide[i]));
  }
}

TEST_CASE("init_variable: threads do not change the values") {
  const Dims dims = {3, 50000};
  ThreadPool pool(3);
  const KernelSetup setup = Setup("normal", 1, dims, {{0, 0}, dims});
  CHECK(Run<float>(setup, 5) == Run<float>(setup, 5, &pool));
}

TEST_CASE("init_variable: constants") {
  const Slice slice = {{0}, {3}};
  CHECK(Run<float>(Setup("zeros", 9, {3}, slice), 0) == std::vector<float>{0, 0, 0});
  CHECK(Run<float>(Setup("ones", 9, {3}, slice), 0) == std::vector<float>{1, 1, 1});
  CHECK(Run<float>(Setup("constant", 1.5, {3}, slice), 0) == std::vector<float>{1.5, 1.5, 1.5});
  CHECK(Run<double>(Setup("constant", 0.25, {}, {}, DType::kF64), 0) == std::vector<double>{0.25});
}

TEST_CASE("init_variable: mistakes") {
  CHECK(MakeInitVariable(Setup("xavier", 1, {3}, {{0}, {3}})).status().message() ==
        "w: unknown init \"xavier\"; use normal, uniform, zeros, ones or constant");
  CHECK(MakeInitVariable(Setup("zeros", 1, {3}, {{0}, {3}}, DType::kI32)).status().message() ==
        "w: cannot initialise a variable of dtype i32; use f32, bf16 or f64");
}

}  // namespace
}  // namespace oneflow
