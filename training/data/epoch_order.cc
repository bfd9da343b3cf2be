#include "training/data/epoch_order.h"

#include <algorithm>
#include <bit>

#include "glog/logging.h"

namespace oneflow {
namespace {

constexpr int kFeistelRounds = 8;
// Of fewer bits there are few permutations, and they are not equally frequent.
constexpr int kFewestBits = 6;

}  // namespace

EpochOrder::EpochOrder(uint64_t seed, uint64_t epoch, int64_t records)
    : rounds_(seed, "epoch_order", epoch), records_(records) {
  CHECK_GE(records, 1);
  const int bits = std::max(kFewestBits, static_cast<int>(std::bit_width(records_ - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

// Each round adds to one half a function of the other, which is undone by adding it again.
uint64_t EpochOrder::Permute(uint64_t value) const {
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1;
  const uint64_t high_mask = (uint64_t{1} << high_bits_) - 1;
  uint64_t low = value & low_mask, high = value >> low_bits_;
  for (uint64_t round = 0; round < kFeistelRounds; round += 2) {
    low ^= rounds_.Bits(round << 32 | high)[0] & low_mask;
    high ^= rounds_.Bits((round + 1) << 32 | low)[0] & high_mask;
  }
  return high << low_bits_ | low;
}

int64_t EpochOrder::operator()(int64_t i) const {
  auto value = static_cast<uint64_t>(i);
  CHECK_LT(value, records_);
  do {
    value = Permute(value);
  } while (value >= records_);
  return static_cast<int64_t>(value);
}

}  // namespace oneflow
