// Copies between a CPU device's memory and its host's.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel.h"

namespace oneflow {
namespace {

// Copies so many bytes, which are checked, and returns the seconds that it took.
double Copy(const std::string& kind, int64_t bytes, const HostLinkSpeed& link) {
  const Port port{.dtype = DType::kI32, .dims = {bytes / 4}, .slice = {{0}, {bytes / 4}}};
  KernelSetup setup{.kind = kind, .name = kind, .in = {{port}}, .out = {port}};
  setup.host_link = link;
  const Kernel kernel = MakeKernel(setup).value();
  std::vector<int32_t> from(bytes / 4), to(bytes / 4 + 1, -1);
  std::iota(from.begin(), from.end(), 0);
  const std::byte* in[] = {reinterpret_cast<const std::byte*>(from.data())};
  const std::span<const std::byte* const> inputs[] = {in};
  std::byte* out[] = {reinterpret_cast<std::byte*>(to.data())};
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(kernel({.in = inputs, .out = out}).ok());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(std::equal(from.begin(), from.end(), to.begin()));
  CHECK(to.back() == -1);
  return took.count();
}

TEST_CASE("a copy copies every byte, of any number of chunks, in both directions") {
  for (const std::string kind : {"copy_in", "copy_out"}) {
    for (const int64_t bytes : {0, 4, 1 << 20, (3 << 20) + 12}) Copy(kind, bytes, {});
  }
}

TEST_CASE("a copy of N bytes over a link of B bytes a second takes at least N / B") {
  constexpr int64_t kBytes = (5 << 20) / 2;
  CHECK(Copy("copy_out", kBytes, {.to_host = 1e8}) >= kBytes / 1e8);
  CHECK(Copy("copy_in", kBytes, {.from_host = 1e8}) >= kBytes / 1e8);
  CHECK(Copy("copy_in", kBytes, {.from_host = 1e8, .latency = 0.02}) >= kBytes / 1e8 + 0.02);
  CHECK(Copy("copy_out", 4, {.latency = 0.02}) >= 0.02);
}

}  // namespace
}  // namespace oneflow
