#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "actor_runtime/cuda/launch_for_test.h"
#include "actor_runtime/cuda/status.h"

namespace oneflow::cuda {
namespace {

// Device memory that begins as a copy of `values`.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
    REQUIRE(ToStatus(cudaMalloc(&data_, size_ * sizeof(T)), "cudaMalloc").ok());
    Copy(data_, values.data(), cudaMemcpyHostToDevice);
  }
  ~OnDevice() { cudaFree(data_); }
  T* data() const { return data_; }
  std::vector<T> Get() const {
    std::vector<T> values(size_);
    Copy(values.data(), data_, cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  void Copy(T* to, const T* from, cudaMemcpyKind kind) const {
    REQUIRE(ToStatus(cudaMemcpy(to, from, size_ * sizeof(T), kind), "cudaMemcpy").ok());
  }
  T* data_ = nullptr;
  size_t size_;
};

std::vector<float> Numbers(int n) {
  std::vector<float> x(n);
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i * 7 % 31 - 15);
  return x;
}

TEST_CASE("A kernel of one thread an element") {
  const OnDevice<float> x({1, 2, 3, 4}), y({10, 20, 30, 40});
  REQUIRE(AddScaled(2, x.data(), y.data(), 4, nullptr).ok());
  CHECK(y.Get() == std::vector<float>{12, 24, 36, 48});
}

TEST_CASE("Sums of blocks, by shared memory and by shuffles") {
  constexpr int kBlocks = 5;
  const std::vector<float> x = Numbers(kBlocks * 256);
  std::vector<float> sums(kBlocks);
  for (int b = 0; b < kBlocks; ++b) {
    sums[b] = std::accumulate(&x[b * 256], &x[b * 256] + 256, 0.0f);
  }
  const OnDevice<float> device_x(x), device_sums(std::vector<float>(kBlocks, -1));
  REQUIRE(BlockSums(device_x.data(), device_sums.data(), kBlocks, nullptr).ok());
  CHECK(device_sums.Get() == sums);
  const OnDevice<float> warp_sums(std::vector<float>(kBlocks, -1));
  REQUIRE(WarpSums(device_x.data(), warp_sums.data(), kBlocks, nullptr).ok());
  CHECK(warp_sums.Get() == sums);
}

TEST_CASE("A grid and blocks of two dimensions, with dynamic shared memory") {
  constexpr int kRows = 45, kColumns = 70;
  const std::vector<float> x = Numbers(kRows * kColumns);
  const OnDevice<float> device_x(x), device_y(std::vector<float>(x.size(), -1));
  REQUIRE(Transpose(device_x.data(), device_y.data(), kRows, kColumns, nullptr).ok());
  const std::vector<float> y = device_y.Get();
  int wrong = 0;
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) wrong += y[c * kRows + r] != x[r * kColumns + c];
  }
  CHECK(wrong == 0);
}

TEST_CASE("Votes, shuffles in parts of a warp, and bf16") {
  std::vector<float> x = Numbers(64);
  x[3] = 1.00390625f;   // halfway between two numbers of bf16: to the even one, 1
  x[4] = -1.01171875f;  // another tie: to -1.015625
  const OnDevice<float> device_x(x), device_y(x);
  const OnDevice<unsigned> device_votes(std::vector<unsigned>(2, 0));
  REQUIRE(VoteAndRotate(device_x.data(), device_y.data(), device_votes.data(), 2, nullptr).ok());
  x[3] = 1;
  x[4] = -1.015625f;
  std::vector<float> y(64);
  std::vector<unsigned> votes(2);
  for (int i = 0; i < 64; ++i) {
    votes[i / 32] |= static_cast<unsigned>(x[i] < 0) << i % 32;
    y[i] = x[i / 16 * 16 + (i + 15) % 16];
  }
  CHECK(device_votes.Get() == votes);
  CHECK(device_y.Get() == y);
}

TEST_CASE("More than 48 KiB of dynamic shared memory") {
  std::vector<float> x = Numbers(56'000);
  const OnDevice<float> device_x(x), device_y(std::vector<float>(x.size(), -1));
  const auto reverse = [&] {
    return Reverse(device_x.data(), device_y.data(), static_cast<int>(x.size()), nullptr);
  };
  CHECK(reverse().code() == absl::StatusCode::kInternal);  // not allowed
  REQUIRE(AllowReverse(static_cast<int>(x.size())) == absl::OkStatus());
  REQUIRE(reverse() == absl::OkStatus());
  std::reverse(x.begin(), x.end());
  CHECK(device_y.Get() == x);
}

TEST_CASE("The error of a launch names the kernel and is reported once") {
  const absl::Status status = LaunchNothing(nullptr);
  CHECK(status.code() == absl::StatusCode::kInternal);
  CHECK(status.message().substr(0, 8) == "nothing:");
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("Codes of errors") {
  CHECK(ToStatus(cudaSuccess, "x").ok());
  CHECK(absl::IsResourceExhausted(ToStatus(cudaErrorMemoryAllocation, "x")));
  CHECK(absl::IsUnavailable(ToStatus(cudaErrorNoDevice, "x")));
}

}  // namespace
}  // namespace oneflow::cuda
