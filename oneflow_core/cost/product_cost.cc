#include "oneflow_core/cost/product_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace oneflow {
namespace {

struct Tile {
  double rows, columns;
};
constexpr Tile kTiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};
constexpr double kLargest = 256 * 128;
constexpr int64_t kAlignment = 16;  // bytes

bool IsAligned(const ProductSpec& p, DType dtype) {
  const auto bytes = static_cast<int64_t>(ElementBytes(dtype));
  for (const int64_t row : {p.transpose_a ? p.m : p.k, p.transpose_b ? p.k : p.n, p.n}) {
    if (row * bytes % kAlignment != 0) return false;
  }
  return true;
}

}  // namespace

double ProductSeconds(const proto::Products& device, double peak, const ProductSpec& product,
                      DType dtype) {
  const auto m = static_cast<double>(product.m), n = static_cast<double>(product.n),
             k = static_cast<double>(product.k), batch = static_cast<double>(product.batch);
  const double rate = peak / device.processors() * OrOne(device.share()) *
                      (IsAligned(product, dtype) ? 1 : OrOne(device.unaligned()));
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = batch * std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    const double area = tile.rows * tile.columns;
    const double reached = rate * std::pow(area / kLargest, device.small_tiles());
    const double waves = std::ceil(tiles / device.processors());
    least = std::min(least, waves * 2 * area * (k + device.depth()) / reached);
  }
  return device.start_seconds() + least;
}

}  // namespace oneflow
