#include "oneflow_core/cost/kernel_cost.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

// 100 TFLOP/s, 200 in bf16, at 90 % from 1 GFLOP on, half below; 1 TB/s at 80 %.
proto::Device Accelerator() {
  proto::Device device;
  device.set_peak_flops(1e14);
  device.set_peak_flops_bf16(2e14);
  device.set_memory_bandwidth(1e12);
  const auto add = [](proto::Efficiency* e, double above, double share) {
    e->set_above(above);
    e->set_share(share);
  };
  add(device.add_matrix_efficiency(), 1e9, 0.9);
  add(device.add_matrix_efficiency(), 0, 0.5);
  add(device.add_memory_efficiency(), 1e8, 0.8);
  return device;
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

TEST_CASE("without measurements the slower of compute and memory counts") {
  const KernelCost cost(Accelerator());
  CHECK(cost.Seconds({"linear", DType::kF32, 9e10, 1e6}) == Approx(1e-3));
  CHECK(cost.Seconds({"linear", DType::kBF16, 9e10, 1e6}) == Approx(0.5e-3));
  CHECK(cost.Seconds({"linear", DType::kF32, 1e8, 1}) == Approx(2e-6));
  CHECK(cost.Seconds({"add", DType::kF32, 1e6, 8e8}) == Approx(1e-3));
  // Below the smallest class its share counts.
  CHECK(cost.Seconds({"add", DType::kF32, 0, 8e4}) == Approx(1e-7));
  CHECK(cost.Seconds({"slice", DType::kF32, 0, 0}) == 0);
}

TEST_CASE("what is no product computes at the f32 peak, whatever it is stored as") {
  const KernelCost cost(Accelerator());
  CHECK(cost.Seconds({"gelu", DType::kBF16, 1e12, 1e6}) == Approx(1e-2));
  CHECK(cost.Seconds({"gelu", DType::kF32, 1e12, 1e6}) == Approx(1e-2));
  CHECK(cost.Seconds({"no_such_kernel", DType::kBF16, 1e12, 1e6}) == Approx(1e-2));
  for (const char* product : {"batch_matmul", "linear+add", "linear+gelu", "causal_attention"}) {
    CHECK(cost.Seconds({product, DType::kBF16, 9e11, 1e6}) == Approx(5e-3));
  }
}

TEST_CASE("where nothing overlaps, compute and memory add up") {
  proto::Device device = Accelerator();
  device.set_no_overlap(true);
  const KernelCost cost(device);
  CHECK(cost.Seconds({"linear", DType::kF32, 9e10, 8e8}) == Approx(2e-3));
  CHECK(cost.Seconds({"add", DType::kF32, 0, 8e8}) == Approx(1e-3));
}

TEST_CASE("tiles of a product are computed in whole waves") {
  proto::Device device = Accelerator();
  device.set_processors(4);
  device.set_tile_rows(256);
  device.set_tile_columns(128);
  const auto loss = [&](double products, double rows, double columns) {
    const CallWork call{"linear", DType::kF32, 9e10, 1e6, products, rows, columns};
    return KernelCost(device).Seconds(call) / 1e-3;
  };
  CHECK(loss(0, 0, 0) == Approx(1));                // not known
  CHECK(loss(1, 512, 256) == Approx(1));            // four tiles
  CHECK(loss(1, 1280, 256) == Approx(12.0 / 10));   // ten tiles in three waves of four
  CHECK(loss(5, 256, 256) == Approx(12.0 / 10));    // of five products
  CHECK(loss(1, 128, 1024) == Approx(1));           // the tile lies the other way
  CHECK(loss(1, 500, 256) == Approx(512.0 / 500));  // a tile stands out
  CHECK(loss(4, 16, 16) == Approx(1));              // tiles no larger than a result
  CHECK(loss(4, 16, 12) == Approx(16.0 / 12));      // but for a power of two
  CHECK(loss(1, 16, 16) == Approx(4));              // one processor of four computes
  // A measured call has its waves in what was measured.
  AddSample(&device, "linear", proto::F32, 9e10, 1e6, 3e-3);
  CHECK(loss(1, 1280, 256) == Approx(3));
  device.clear_kernel_time();
  // What is no product has no tiles, nor has a kernel that splits its own.
  CHECK(KernelCost(device).Seconds({"gelu", DType::kF32, 9e10, 1e6, 5, 256, 128}) == Approx(9e-4));
}

TEST_CASE("a device that says nothing has 100 GFLOP/s and 10 GB/s") {
  const KernelCost cost(proto::Device{});
  CHECK(cost.Seconds({"linear", DType::kF32, 1e11, 1e3}) == Approx(1));
  CHECK(cost.Seconds({"add", DType::kF32, 1, 1e10}) == Approx(1));
}

TEST_CASE("a measured call costs what was measured") {
  proto::Device device = Accelerator();
  AddSample(&device, "linear", proto::F32, 1e9, 1e6, 3e-5);
  AddSample(&device, "linear", proto::F32, 1e6, 1e4, 2e-6);
  AddSample(&device, "linear", proto::BF16, 1e9, 5e5, 7e-6);
  AddSample(&device, "linear", proto::BF16, 1e9, 1e6, 9e-6);
  AddSample(&device, "gelu", proto::F32, 1e7, 8e6, 4e-5);
  AddSample(&device, "gelu", proto::F32, 1e7, 8e6, 0);  // no measurement
  const KernelCost cost(device);
  CHECK(cost.Seconds({"linear", DType::kF32, 1e9, 1e6}) == Approx(3e-5).epsilon(1e-9));
  CHECK(cost.Seconds({"linear", DType::kF32, 1e6, 1e4}) == Approx(2e-6).epsilon(1e-9));
  CHECK(cost.Seconds({"linear", DType::kBF16, 1e9, 5e5}) == Approx(7e-6).epsilon(1e-9));
  CHECK(cost.Seconds({"linear", DType::kBF16, 1e9, 1e6}) == Approx(9e-6).epsilon(1e-9));
  CHECK(cost.Seconds({"gelu", DType::kF32, 1e7, 8e6}) == Approx(4e-5).epsilon(1e-9));
}

TEST_CASE("a call between two classes takes a share between theirs, nearer to the nearer") {
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

TEST_CASE("copies between host and device say nothing of kernels that were not measured") {
  proto::Device device = Accelerator();
  AddSample(&device, "copy_in", proto::U8, 0, 2e8, 0.5);
  CHECK(KernelCost(device).Seconds({"copy_in", DType::kU8, 0, 2e8}) == Approx(0.5));
  const CallWork add{"add", DType::kF32, 1e6, 8e8};
  CHECK(KernelCost(device).Seconds(add) == Approx(1e-3));
  AddSample(&device, "gelu", proto::F32, 1e6, 8e8, 2e-3);
  CHECK(KernelCost(device).Seconds(add) == Approx(2e-3));
}

TEST_CASE("a type, and then a kernel, that was not measured takes what is nearest") {
  proto::Device device = Accelerator();
  AddSample(&device, "linear", proto::F32, 1e9, 1e6, 2e-5);
  AddSample(&device, "add", proto::F32, 1e6, 1.2e7, 3e-5);
  const KernelCost cost(device);
  const CallWork bf16{"add", DType::kBF16, 1e6, 1.2e7};
  CHECK(cost.Seconds(bf16) == Approx(3e-5).epsilon(1e-9));
  const CallWork unknown{"dropout", DType::kF32, 1e6, 1.2e7};
  CHECK(cost.Seconds(unknown) == Approx(3e-5).epsilon(1e-3));
}

}  // namespace
}  // namespace oneflow
