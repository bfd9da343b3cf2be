#include "actor_runtime/random/random.h"

#include <cmath>
#include <numbers>

#include "xxhash.h"

namespace oneflow {
namespace {

constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

uint64_t Join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

double UnitInterval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

// Both normals of a block: numbers 2i and 2i + 1 of a stream share block i.
std::array<double, 2> NormalPair(const PhiloxBlock& block) {
  // 1 - u is in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - UnitInterval(Join(block[0], block[1]))));
  const double angle = 2.0 * std::numbers::pi * UnitInterval(Join(block[2], block[3]));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

PhiloxBlock Philox4x32(PhiloxBlock counter, uint64_t key) {
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * counter[0], p1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(p0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

RandomStream::RandomStream(uint64_t seed, std::string_view name, uint64_t part)
    : key_(seed), stream_(XXH3_64bits_withSeed(name.data(), name.size(), part)) {}

PhiloxBlock RandomStream::Bits(uint64_t index) const {
  return Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                     static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                    key_);
}

uint32_t RandomStream::Word(uint64_t index) const {
  const uint64_t group = index / 32, within = index % 32;
  return Bits(group * 8 + within % 16 / 2)[within / 16 * 2 + within % 2];
}

uint64_t RandomStream::Below(uint64_t index, uint64_t n) const {
  const PhiloxBlock block = Bits(index);
  const auto product = static_cast<unsigned __int128>(Join(block[0], block[1])) * n;
  return static_cast<uint64_t>(product >> 64);
}

double RandomStream::Uniform(uint64_t index) const {
  const PhiloxBlock block = Bits(index);
  return UnitInterval(Join(block[0], block[1]));
}

void RandomStream::Normals(uint64_t begin, std::span<double> values) const {
  size_t done = 0;
  while (done < values.size()) {
    const uint64_t index = begin + done;
    const std::array<double, 2> pair = NormalPair(Bits(index / 2));
    if (index % 2 == 1) {
      values[done++] = pair[1];
      continue;
    }
    values[done++] = pair[0];
    if (done < values.size()) values[done++] = pair[1];
  }
}

}  // namespace oneflow
