#include "oneflow_core/cost/kernel_cost.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

namespace oneflow {
namespace {

// 100 TFLOP/s, 200 in bf16, 1 TB/s, and nothing more.
proto::Device Accelerator() {
  proto::Device device;
  device.set_peak_flops(1e14);
  device.set_peak_flops_bf16(2e14);
  device.set_memory_bandwidth(1e12);
  return device;
}

double Seconds(const proto::Device& device, const CallWork& call) {
  return KernelCost(device).Seconds(call);
}

void AddSample(proto::Device* device, const char* kernel, proto::DataType dtype, double flops,
               double bytes, double seconds) {
  proto::KernelTime* time = device->add_kernel_time();
  time->set_kernel(kernel);
  time->set_dtype(dtype);
  time->set_flops(flops);
  time->set_bytes(bytes);
  time->set_seconds(seconds);
}

// One call of each class.
std::vector<CallWork> OneOfEach() {
  return {{"add", DType::kF32, 1e6, 8e8},
          {"layer_norm", DType::kF32, 1e6, 8e8},
          {"embedding", DType::kF32, 0, 8e8},
          {"linear", DType::kF32, 1e11, 1e6},
          {"attention", DType::kF32, 1e11, 1e6}};
}

TEST_CASE("a class without figures takes the roofline") {
  const proto::Device device = Accelerator();
  CHECK(Seconds(device, {"linear", DType::kF32, 1e11, 1e6}) == Approx(1e-3));
  CHECK(Seconds(device, {"linear", DType::kBF16, 1e11, 1e6}) == Approx(0.5e-3));
  CHECK(Seconds(device, {"linear", DType::kF32, 1e6, 1e9}) == Approx(1e-3));
  CHECK(Seconds(device, {"add", DType::kF32, 1e6, 1e9}) == Approx(1e-3));
  CHECK(Seconds(device, {"layer_norm", DType::kF32, 1e6, 1e9}) == Approx(1e-3));
  CHECK(Seconds(device, {"embedding", DType::kF32, 0, 1e9}) == Approx(1e-3));
  CHECK(Seconds(device, {"slice", DType::kF32, 0, 0}) == 0);
  for (const CallWork& call : OneOfEach()) {
    CHECK(Seconds(device, call) == KernelCost(device).Roofline(call));
  }
}

TEST_CASE("what is no product computes at the f32 peak, whatever it is stored as") {
  const proto::Device device = Accelerator();
  CHECK(Seconds(device, {"gelu", DType::kBF16, 1e12, 1e6}) == Approx(1e-2));
  CHECK(Seconds(device, {"gelu", DType::kF32, 1e12, 1e6}) == Approx(1e-2));
  CHECK(Seconds(device, {"no_such_kernel", DType::kBF16, 1e12, 1e6}) == Approx(1e-2));
  for (const char* product : {"batch_matmul", "linear+add", "linear+gelu", "attention"}) {
    CHECK(Seconds(device, {product, DType::kBF16, 1e12, 1e6}) == Approx(5e-3));
  }
}

TEST_CASE("a device that says nothing has 100 GFLOP/s and 10 GB/s") {
  CHECK(Seconds({}, {"linear", DType::kF32, 1e11, 1e3}) == Approx(1));
  CHECK(Seconds({}, {"add", DType::kF32, 1, 1e10}) == Approx(1));
}

TEST_CASE("kernels that memory bounds reach the share of their class") {
  proto::Device device = Accelerator();
  device.mutable_memory_shares()->set_elements(0.8);
  device.mutable_memory_shares()->set_rows(0.5);
  CHECK(Seconds(device, {"add", DType::kF32, 0, 8e8}) == Approx(1e-3));
  CHECK(Seconds(device, {"adamw", DType::kF32, 0, 8e8}) == Approx(1e-3));
  CHECK(Seconds(device, {"layer_norm", DType::kF32, 0, 5e8}) == Approx(1e-3));
  CHECK(Seconds(device, {"causal_softmax", DType::kF32, 0, 5e8}) == Approx(1e-3));
  CHECK(Seconds(device, {"embedding", DType::kF32, 0, 1e9}) == Approx(1e-3));  // no figure
  device.mutable_memory_shares()->set_gather(0.25);
  CHECK(Seconds(device, {"embedding", DType::kF32, 0, 2.5e8}) == Approx(1e-3));
  CHECK(Seconds(device, {"dispatch", DType::kF32, 0, 2.5e8}) == Approx(1e-3));
  // Operands of products and of attention are read element by element.
  CHECK(Seconds(device, {"linear", DType::kF32, 0, 8e8}) == Approx(1e-3));
  CHECK(Seconds(device, {"attention", DType::kF32, 0, 8e8}) == Approx(1e-3));
  // What computes longer than it reads.
  CHECK(Seconds(device, {"gelu", DType::kF32, 1e11, 8e6}) == Approx(1e-3));
}

TEST_CASE("a kernel that is no product takes kernel_seconds beside its work") {
  proto::Device device = Accelerator();
  device.set_kernel_seconds(2e-6);
  device.mutable_products()->set_start_seconds(5e-6);
  CHECK(Seconds(device, {"add", DType::kF32, 0, 1e6}) == Approx(3e-6));
  CHECK(Seconds(device, {"add", DType::kF32, 0, 0}) == Approx(2e-6));
  CHECK(Seconds(device, {"attention", DType::kF32, 1e8, 0}) == Approx(3e-6));
  CHECK(Seconds(device, {"linear", DType::kF32, 1e8, 0}) == Approx(6e-6));
  CHECK(Seconds(device, {"linear", DType::kF32, 0, 1e6}) == Approx(6e-6));
}

TEST_CASE("products take tiles and waves where processors and sizes are known") {
  proto::Device device = Accelerator();
  device.mutable_products()->set_share(0.5);
  device.mutable_products()->set_start_seconds(1e-5);
  CallWork call{"linear", DType::kBF16, 1e11, 1e6};
  CHECK(Seconds(device, call) == Approx(1e-5 + 1e-3));
  // A processor has 50 TFLOP/s, half of which is reached. Ten tiles on four processors.
  device.mutable_products()->set_processors(4);
  device.mutable_products()->set_small_tiles(1);
  CHECK(Seconds(device, call) == Approx(1e-5 + 1e-3));  // sizes are not known
  call.product.m = 1280, call.product.n = 256, call.product.k = 1024;
  const double wave = 2 * 256 * 128 * 1024 / 25e12;
  CHECK(Seconds(device, call) == Approx(1e-5 + 3 * wave));
  device.mutable_sustained()->set_compute(0.5);
  CHECK(Seconds(device, call) == Approx(1e-5 + 6 * wave));
  // Operands that take longer to come than to be multiplied.
  call.bytes = 1e9;
  CHECK(Seconds(device, call) == Approx(1e-5 + 1e-3));
}

TEST_CASE("a vocabulary of 50,257 in bf16 costs what is lost to unaligned rows") {
  proto::Device device = Accelerator();
  device.mutable_products()->set_processors(100);
  device.mutable_products()->set_unaligned(0.5);
  CallWork call{"linear", DType::kBF16, 1, 1};
  call.product.m = 8192, call.product.k = 1024;
  const auto seconds = [&](int64_t vocabulary) {
    call.product.n = vocabulary;
    return Seconds(device, call);
  };
  CHECK(seconds(50257) == Approx(2 * seconds(50264)));  // as many tiles
  call.dtype = DType::kF32;
  CHECK(seconds(50260) == Approx(seconds(50264)));
}

// Of libraries "a" and "b", and head sizes of 64 and 128.
proto::Device WithAttention() {
  proto::Device device = Accelerator();
  device.set_peak_flops_bf16(1e15);
  const auto add = [&](const char* library, int head_size) {
    proto::AttentionRates* rates = device.add_attention();
    rates->set_library(library);
    rates->set_head_size(head_size);
    return rates;
  };
  const auto point = [](proto::AttentionRates* rates, int64_t keys, double forward,
                        double backward) {
    rates->add_keys(keys);
    rates->add_forward(forward);
    rates->add_backward(backward);
  };
  proto::AttentionRates* rates = add("a", 64);
  point(rates, 1024, 1e14, 5e13);
  point(rates, 4096, 4e14, 8e14);
  point(add("a", 128), 1024, 3e14, 1.5e14);
  point(add("b", 64), 1024, 6e14, 6e14);
  device.set_attention_library("a");
  return device;
}

// FLOP/s of a call.
double AttentionRate(const proto::Device& device, const AttentionSpec& attention,
                     DType dtype = DType::kBF16) {
  CallWork call{"attention", dtype, 1e12, 1};
  call.attention = attention;
  return call.flops / (Seconds(device, call) - device.kernel_seconds());
}

TEST_CASE("attention takes the rate of its library at its length, head size and direction") {
  proto::Device device = WithAttention();
  CHECK(AttentionRate(device, {1024, 64}) == Approx(1e14));
  CHECK(AttentionRate(device, {4096, 64}) == Approx(4e14));
  CHECK(AttentionRate(device, {1024, 64, /*backward=*/true}) == Approx(5e13));
  CHECK(AttentionRate(device, {1024, 128}) == Approx(3e14));
  CHECK(AttentionRate(device, {1024, 128, /*backward=*/true}) == Approx(1.5e14));
  device.set_attention_library("b");
  CHECK(AttentionRate(device, {1024, 64}) == Approx(6e14));
  device.set_kernel_seconds(1e-4);
  device.mutable_sustained()->set_compute(0.5);
  CHECK(AttentionRate(device, {1024, 64}) == Approx(3e14));
}

TEST_CASE("rates of attention between two lengths, and beyond those that are known") {
  const proto::Device device = WithAttention();
  CHECK(AttentionRate(device, {2048, 64}) == Approx(2e14));  // halfway between logarithms
  CHECK(AttentionRate(device, {2048, 64, /*backward=*/true}) == Approx(2e14));
  CHECK(AttentionRate(device, {8192, 64}) == Approx(4e14));   // as at the longest
  CHECK(AttentionRate(device, {256, 64}) == Approx(2.5e13));  // in proportion to the length
  CHECK(AttentionRate(device, {1024, 80}) == Approx(1e14));   // the nearest head size
  CHECK(AttentionRate(device, {1024, 100}) == Approx(3e14));
  CHECK(AttentionRate(device, {1024, 256}) == Approx(3e14));
}

TEST_CASE("attention whose rate is not known takes the peak, and none takes more") {
  proto::Device device = WithAttention();
  CHECK(AttentionRate(device, {}) == Approx(1e15));
  CHECK(AttentionRate(device, {4096, 64}, DType::kF32) == Approx(1e14));
  device.clear_attention();
  device.clear_attention_library();
  CHECK(AttentionRate(device, {1024, 64}) == Approx(1e15));
  // As its operands come from memory.
  CallWork call{"attention", DType::kBF16, 1e6, 1e9};
  CHECK(Seconds(WithAttention(), call) == Approx(1e-3));
}

TEST_CASE("a step sustains a part of what kernels reach alone") {
  proto::Device device = Accelerator();
  device.mutable_sustained()->set_compute(0.5);
  device.mutable_sustained()->set_memory(0.25);
  CHECK(Seconds(device, {"linear", DType::kF32, 1e11, 1e6}) == Approx(2e-3));
  CHECK(Seconds(device, {"attention", DType::kF32, 1e11, 1e6}) == Approx(2e-3));
  CHECK(Seconds(device, {"gelu", DType::kF32, 1e11, 1e6}) == Approx(1e-3));  // no product
  for (const char* kernel : {"add", "layer_norm", "embedding", "linear", "attention"}) {
    CHECK(Seconds(device, {kernel, DType::kF32, 0, 1e9}) == Approx(4e-3));
  }
}

TEST_CASE("a measured call costs what was measured") {
  proto::Device device = Accelerator();
  AddSample(&device, "linear", proto::F32, 1e9, 1e6, 3e-5);
  AddSample(&device, "linear", proto::F32, 1e6, 1e4, 2e-6);
  AddSample(&device, "linear", proto::BF16, 1e9, 5e5, 7e-6);
  AddSample(&device, "linear", proto::BF16, 1e9, 1e6, 9e-6);
  AddSample(&device, "gelu", proto::F32, 1e7, 8e6, 4e-5);
  AddSample(&device, "gelu", proto::F32, 1e7, 8e6, 0);  // no measurement
  // Figures of a class count where nothing of it was measured.
  device.mutable_products()->set_share(0.1);
  device.mutable_memory_shares()->set_elements(0.1);
  device.mutable_sustained()->set_compute(0.5);
  device.set_kernel_seconds(1);
  const KernelCost cost(device);
  CHECK(cost.Seconds({"linear", DType::kF32, 1e9, 1e6}) == Approx(3e-5).epsilon(1e-9));
  CHECK(cost.Seconds({"linear", DType::kF32, 1e6, 1e4}) == Approx(2e-6).epsilon(1e-9));
  CHECK(cost.Seconds({"linear", DType::kBF16, 1e9, 5e5}) == Approx(7e-6).epsilon(1e-9));
  CHECK(cost.Seconds({"linear", DType::kBF16, 1e9, 1e6}) == Approx(9e-6).epsilon(1e-9));
  CHECK(cost.Seconds({"gelu", DType::kF32, 1e7, 8e6}) == Approx(4e-5).epsilon(1e-9));
}

TEST_CASE("a call between two measured ones takes a share between theirs, nearer to the nearer") {
  proto::Device device;
  device.set_peak_flops(1e12);
  device.set_memory_bandwidth(1e15);
  AddSample(&device, "linear", proto::F32, 1e6, 1e4, 4e-6);  // a quarter of the peak
  AddSample(&device, "linear", proto::F32, 1e9, 1e6, 1e-3);  // the peak
  const KernelCost cost(device);
  const auto share = [&](double flops, double bytes) {
    const CallWork call{"linear", DType::kF32, flops, bytes};
    return cost.Seconds(call) / cost.Roofline(call);
  };
  CHECK(share(3.2e7, 1e5) > 1.2);
  CHECK(share(3.2e7, 1e5) < 3.8);
  CHECK(share(3e6, 2e4) > share(3e8, 5e5));
  // Far beyond what was measured the nearest share stays.
  CHECK(share(1e15, 1e10) < 2.1);
}

TEST_CASE("a measured kernel changes no time of another class") {
  for (const CallWork& measured : OneOfEach()) {
    proto::Device device = Accelerator();
    AddSample(&device, measured.kernel.c_str(), proto::F32, measured.flops, measured.bytes, 0.5);
    for (const CallWork& call : OneOfEach()) {
      INFO(measured.kernel << " was measured, " << call.kernel << " is timed");
      const double seconds = Seconds(device, call), before = Seconds(Accelerator(), call);
      if (call.kernel == measured.kernel) {
        CHECK(seconds == Approx(0.5));
      } else {
        CHECK(seconds == before);
      }
    }
  }
}

TEST_CASE("copies between host and device say nothing of kernels that were not measured") {
  proto::Device device = Accelerator();
  AddSample(&device, "copy_in", proto::U8, 0, 2e8, 0.5);
  CHECK(Seconds(device, {"copy_in", DType::kU8, 0, 2e8}) == Approx(0.5));
  const CallWork add{"add", DType::kF32, 1e6, 1e9};
  CHECK(Seconds(device, add) == Approx(1e-3));
  CHECK(Seconds(device, {"copy_out", DType::kU8, 0, 1e9}) == Approx(1e-3));
  AddSample(&device, "gelu", proto::F32, 1e6, 1e9, 2e-3);
  CHECK(Seconds(device, add) == Approx(2e-3));
}

TEST_CASE("a type, and then a kernel, that was not measured takes what is nearest in its class") {
  proto::Device device = Accelerator();
  AddSample(&device, "linear", proto::F32, 1e9, 1e6, 2e-5);
  AddSample(&device, "add", proto::F32, 1e6, 1.2e7, 3e-5);
  const KernelCost cost(device);
  const CallWork bf16{"add", DType::kBF16, 1e6, 1.2e7};
  CHECK(cost.Seconds(bf16) == Approx(3e-5).epsilon(1e-9));
  const CallWork unknown{"dropout", DType::kF32, 1e6, 1.2e7};
  CHECK(cost.Seconds(unknown) == Approx(3e-5).epsilon(1e-3));
}

TEST_CASE("no call that moves some bytes is faster than the bound says") {
  std::mt19937 random(7);
  const auto draw = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  const std::vector<std::string> kernels = {"add",        "layer_norm", "embedding", "linear",
                                            "linear+add", "copy_in",    "attention"};
  int close = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    proto::Device device = WithAttention();
    const auto maybe = [&](auto set, double least, double most) {
      if (random() % 2 == 0) set(draw(least, most));
    };
    maybe([&](double x) { device.mutable_memory_shares()->set_elements(x); }, 0.1, 1);
    maybe([&](double x) { device.mutable_memory_shares()->set_rows(x); }, 0.1, 1);
    maybe([&](double x) { device.mutable_memory_shares()->set_gather(x); }, 0.1, 1);
    maybe([&](double x) { device.mutable_sustained()->set_memory(x); }, 0.5, 1);
    maybe([&](double x) { device.mutable_sustained()->set_compute(x); }, 0.5, 1);
    maybe([&](double x) { device.set_kernel_seconds(x); }, 0, 1e-5);
    for (uint32_t samples = random() % 4; samples > 0; --samples) {
      // Some are faster than the roofline: what is in a cache is not read from memory.
      const double bytes = draw(1e3, 1e8);
      AddSample(&device, kernels[random() % kernels.size()].c_str(), proto::F32, draw(0, 1e6),
                bytes, bytes / 1e12 * draw(0.3, 5));
    }
    const KernelCost cost(device);
    for (const std::string& kernel : kernels) {
      CallWork call{kernel, DType::kF32, draw(0, 1e7), draw(1e3, 1e8)};
      if (random() % 2 == 0) call.product.m = 64, call.product.n = 64, call.product.k = 64;
      if (random() % 2 == 0) call.attention = {1 << (random() % 14), 64};
      const double least = cost.LeastSeconds(call.bytes), seconds = cost.Seconds(call);
      REQUIRE(least > 0);
      REQUIRE(least <= seconds * (1 + 1e-12));
      close += seconds < 1.5 * least ? 1 : 0;
    }
  }
  CHECK(close > 500);  // the bound says something
}

}  // namespace
}  // namespace oneflow
