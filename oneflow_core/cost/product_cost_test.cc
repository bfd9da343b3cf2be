#include "oneflow_core/cost/product_cost.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace oneflow {
namespace {

// Four processors of 1 TFLOP/s each. Small tiles reach so little that a wave of any tile takes as
// long as one of the largest: only waves count.
constexpr double kPeak = 4e12;
proto::Products OnlyWaves() {
  proto::Products device;
  device.set_processors(4);
  device.set_small_tiles(1);
  return device;
}

ProductSpec Product(int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
  ProductSpec product;
  product.batch = batch, product.m = m, product.n = n, product.k = k;
  return product;
}

// A wave of the largest tiles, 256 x 128, with sums of k terms.
double Wave(double k) { return 2 * 256 * 128 * k / 1e12; }

double Seconds(const proto::Products& device, const ProductSpec& product,
               DType dtype = DType::kBF16) {
  return ProductSeconds(device, kPeak, product, dtype);
}

TEST_CASE("tiles are computed in whole waves") {
  const auto waves = [](int64_t m, int64_t n, int64_t batch = 1) {
    return Seconds(OnlyWaves(), Product(m, n, 64, batch)) / Wave(64);
  };
  CHECK(waves(512, 256) == Approx(1));     // four tiles
  CHECK(waves(1280, 256) == Approx(3));    // ten
  CHECK(waves(256, 256, 5) == Approx(3));  // ten, of five products
  CHECK(waves(128, 1024) == Approx(1));    // the tile lies the other way
  CHECK(waves(504, 248) == Approx(1));     // a tile stands out
  CHECK(waves(520, 256) == Approx(2));     // six
  CHECK(waves(16, 16) == Approx(1));       // one processor of four computes
}

TEST_CASE("a small tile is computed at a power of its part of the largest") {
  proto::Products device = OnlyWaves();
  const auto waves = [&] { return Seconds(device, Product(16, 16, 64)) / Wave(64); };
  device.set_small_tiles(0);
  CHECK(waves() == Approx(1.0 / 8));  // 64 x 64
  device.set_small_tiles(0.5);
  CHECK(waves() == Approx(std::sqrt(1.0 / 8)));
  // Where larger tiles leave fewer processors idle in the last wave they are the faster ones: 20
  // tiles of 128 x 128 or 10 of 256 x 128 are 5 waves of half, or 3 of a full tile.
  device.set_small_tiles(0);
  CHECK(Seconds(device, Product(1280, 256, 64)) / Wave(64) == Approx(2.5));
  device.set_small_tiles(0.5);
  CHECK(Seconds(device, Product(1280, 256, 64)) / Wave(64) == Approx(3));
}

TEST_CASE("a tile takes some terms of a sum to begin and end; a product takes a start") {
  proto::Products device = OnlyWaves();
  device.set_depth(64);
  CHECK(Seconds(device, Product(512, 256, 192)) == Approx(Wave(256)));
  device.set_share(0.5);
  CHECK(Seconds(device, Product(512, 256, 192)) == Approx(2 * Wave(256)));
  device.set_start_seconds(1e-5);
  CHECK(Seconds(device, Product(512, 256, 192)) == Approx(1e-5 + 2 * Wave(256)));
}

TEST_CASE("rows that are no multiple of 16 bytes slow a product down") {
  proto::Products device = OnlyWaves();
  const auto slower = [&](const ProductSpec& product, DType dtype = DType::kBF16) {
    device.set_unaligned(0.5);
    const double with = Seconds(device, product, dtype);
    device.clear_unaligned();
    return with / Seconds(device, product, dtype);
  };
  // A vocabulary of GPT-2, and one that is padded.
  CHECK(slower(Product(1024, 50257, 768)) == Approx(2));
  CHECK(slower(Product(1024, 50304, 768)) == Approx(1));
  // 50,260 values are a multiple of 16 bytes in f32 alone.
  CHECK(slower(Product(1024, 50260, 768), DType::kBF16) == Approx(2));
  CHECK(slower(Product(1024, 50260, 768), DType::kF32) == Approx(1));
  // The rows are those in memory: of a [m, k] and b [k, n], or the other way around.
  ProductSpec product = Product(50257, 768, 1024);
  CHECK(slower(product) == Approx(1));
  product.transpose_a = true;
  CHECK(slower(product) == Approx(2));
  product = Product(1024, 768, 50257);
  CHECK(slower(product) == Approx(2));
  product.transpose_a = true;
  CHECK(slower(product) == Approx(1));
  product.transpose_b = true;
  CHECK(slower(product) == Approx(2));
}

}  // namespace
}  // namespace oneflow
