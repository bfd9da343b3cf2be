#include "actor_runtime/kernel/rotary_frequencies.h"

#include <cmath>
#include <cstdint>

#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// One operation of f32. A sum, product or quotient of two floats has the same bits if it is rounded
// to f64 first, and no compiler contracts two operations between which a cast stands.
float Single(double value) { return static_cast<float>(value); }

struct Scaling {
  float factor, low, high_minus_low, original;
  float longest_kept, shortest_scaled;  // wavelengths
};

float Scale(const Scaling& s, float frequency) {
  constexpr double kTwoPi = 6.28318530717958647692;
  const float period = Single(1.0 / frequency);
  const float wavelength = Single(double{period} * Single(kTwoPi));
  if (wavelength < s.longest_kept) return frequency;
  if (wavelength > s.shortest_scaled) return Single(double{frequency} / s.factor);
  const float turns = Single(double{Single(1.0 / wavelength)} * s.original);
  const float smooth = Single(double{Single(double{turns} - s.low)} / s.high_minus_low);
  const float scaled = Single(double{Single(Single(1.0 - smooth) * double{frequency})} / s.factor);
  return Single(double{scaled} + Single(double{smooth} * frequency));
}

}  // namespace

std::vector<float> RotaryFrequencies(const KernelSetup& s) {
  const int64_t d = LastDim(In(s, 0));
  const double theta = Single(DoubleAttr(s, "theta"));
  std::vector<float> frequencies(d / 2);
  for (int64_t j = 0; j < d / 2; ++j) {
    const float exponent = Single(static_cast<double>(2 * j) / static_cast<double>(d));
    frequencies[j] = Single(1.0 / Single(std::pow(theta, exponent)));
  }
  if (s.attrs.find("scale_factor") == s.attrs.end()) return frequencies;
  const double low = DoubleAttr(s, "low_frequency_factor");
  const double high = DoubleAttr(s, "high_frequency_factor");
  const auto original = static_cast<double>(IntAttr(s, "original_positions"));
  const Scaling scaling{.factor = Single(DoubleAttr(s, "scale_factor")),
                        .low = Single(low),
                        .high_minus_low = Single(high - low),
                        .original = Single(original),
                        .longest_kept = Single(original / high),
                        .shortest_scaled = Single(original / low)};
  for (float& frequency : frequencies) frequency = Scale(scaling, frequency);
  return frequencies;
}

}  // namespace oneflow
