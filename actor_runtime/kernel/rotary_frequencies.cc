#include "actor_runtime/kernel/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// One operation of f32. A sum, product or quotient of two floats has the same bits if it is rounded
// to f64 first, and no compiler contracts two operations between which a cast stands.
float Single(double value) { return static_cast<float>(value); }

// Of Llama 3.1.
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

void ScaleLlama(const KernelSetup& s, std::vector<float>* frequencies) {
  const double low = DoubleAttr(s, "low_frequency_factor");
  const double high = DoubleAttr(s, "high_frequency_factor");
  const auto original = static_cast<double>(IntAttr(s, "original_positions"));
  const Scaling scaling{.factor = Single(DoubleAttr(s, "scale_factor")),
                        .low = Single(low),
                        .high_minus_low = Single(high - low),
                        .original = Single(original),
                        .longest_kept = Single(original / high),
                        .shortest_scaled = Single(original / low)};
  for (float& frequency : *frequencies) frequency = Scale(scaling, frequency);
}

// The pair, a fraction, that turns so often over the original positions.
double FindPair(const KernelSetup& s, int64_t rotated, double turns) {
  constexpr double kTwoPi = 6.28318530717958647692;
  const auto positions = static_cast<double>(IntAttr(s, "original_positions"));
  return static_cast<double>(rotated) * std::log(positions / (turns * kTwoPi)) /
         (2 * std::log(DoubleAttr(s, "theta")));
}

// `powers` are those of theta. Pairs up to `first` keep their frequency, those from `last` on have
// a scaled one, and between them there is a ramp.
std::vector<float> MakeYarn(const KernelSetup& s, const std::vector<float>& powers) {
  const auto rotated = static_cast<int64_t>(2 * powers.size());
  double first = FindPair(s, rotated, DoubleAttr(s, "high_frequency_factor"));
  double last = FindPair(s, rotated, DoubleAttr(s, "low_frequency_factor"));
  if (!BoolAttr(s, "exact")) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, static_cast<double>(rotated - 1));
  if (first == last) last += 0.001;
  const double factor = Single(DoubleAttr(s, "scale_factor"));
  std::vector<float> frequencies;
  for (const double power : powers) {
    const auto pair = static_cast<double>(frequencies.size());
    const float ramp = Single(double{Single(pair - Single(first))} / Single(last - first));
    const float kept = Single(1.0 - std::clamp(ramp, 0.0f, 1.0f));
    const float scaled = Single(1.0 / Single(factor * power));
    const float rest = Single(double{scaled} * Single(1.0 - kept));
    frequencies.push_back(Single(double{rest} + Single(double{Single(1.0 / power)} * kept)));
  }
  return frequencies;
}

}  // namespace

std::vector<float> RotaryFrequencies(const KernelSetup& s) {
  const int64_t rotated = IntAttr(s, "rotated", LastDim(In(s, 0)));
  const double theta = Single(DoubleAttr(s, "theta"));
  std::vector<float> powers((rotated + 1) / 2);
  for (int64_t j = 0; j < static_cast<int64_t>(powers.size()); ++j) {
    const float exponent = Single(static_cast<double>(2 * j) / static_cast<double>(rotated));
    powers[j] = Single(std::pow(theta, exponent));
  }
  const std::string scaling = StringAttr(s, "scaling");
  if (scaling == "yarn") return MakeYarn(s, powers);
  std::vector<float> frequencies = std::move(powers);
  for (float& f : frequencies) f = Single(1.0 / f);
  const double factor = DoubleAttr(s, "scale_factor");
  if (scaling == "linear") {
    for (float& f : frequencies) f = Single(double{f} / Single(factor));
  } else if (factor != 0) {
    ScaleLlama(s, &frequencies);
  }
  return frequencies;
}

}  // namespace oneflow
