#include "oneflow_core/print/band.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/time_text.h"

namespace oneflow {
namespace {

// What no factor brings nearer: another kind of model or program.
constexpr double kAnotherKind = 100;

// How far a value is from a range: the logarithm of the factor between them; 0 within it.
double Distance(const proto::Range& range, double value) {
  if (range.least() <= value && value <= range.most()) return 0;
  if (value <= 0) return kAnotherKind;
  return std::log(value < range.least() ? range.least() / value : value / range.most());
}

// The figures of a run that a region does not contain, in words, and how far off they are together.
struct Misfits {
  std::vector<std::string> words;
  double distance = 0;

  void Add(double off, std::string what) {
    if (off > 0) words.push_back(std::move(what));
    distance += off;
  }
};

Misfits FindMisfits(const proto::Region& region, const RunFigures& run) {
  Misfits misfits;
  const bool experts = run.slots > 0;
  misfits.Add(run.trains ? 0 : kAnotherKind, "no step of training");
  misfits.Add(region.experts() == experts ? 0 : kAnotherKind,
              experts ? "a mixture of experts" : "a dense model");
  misfits.Add(Distance(region.sequence(), static_cast<double>(run.sequence)),
              run.sequence == 0 ? "a model that reads no tokens"
                                : DigitsText(run.sequence) + " tokens of a sequence");
  misfits.Add(Distance(region.parameters(), static_cast<double>(run.parameters)),
              CountText(static_cast<double>(run.parameters)) + " parameters");
  misfits.Add(Distance(region.devices(), static_cast<double>(run.devices)),
              absl::StrCat(DigitsText(run.devices), run.devices == 1 ? " device" : " devices"));
  misfits.Add(Distance(region.device_tokens(), run.device_tokens),
              DigitsText(std::llround(run.device_tokens)) + " tokens of a step a device");
  if (region.experts() && experts) {
    misfits.Add(Distance(region.slots(), run.slots),
                absl::StrFormat("queues of experts of %.3g times even routing", run.slots));
  }
  return misfits;
}

double Square(double x) { return x * x; }

// P(|T| < √freedom tan(angle)).
double StudentShare(int freedom, double angle) {
  const double cosine = std::cos(angle);
  double term = freedom % 2 == 0 ? 1 : cosine, sum = freedom == 1 ? 0 : term;
  for (int i = freedom % 2 == 0 ? 2 : 3; i < freedom - 1; i += 2) {
    term *= cosine * cosine * (i - 1) / i;
    sum += term;
  }
  sum *= std::sin(angle);
  return freedom % 2 == 0 ? sum : (angle + sum) * M_2_PI;
}

}  // namespace

double StudentSigma(int freedom) {
  const double share = std::erf(M_SQRT1_2);
  double low = 0, high = M_PI_2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (StudentShare(freedom, middle) < share ? low : high) = middle;
  }
  return std::sqrt(freedom) * std::tan(low);
}

Band FindBand(const proto::Cluster& cluster, const RunFigures& run) {
  Band band;
  const proto::BetweenSystems& between = cluster.between_systems();
  band.devices = between.what();
  Misfits nearest{.distance = std::numeric_limits<double>::infinity()};
  double squares = 0;
  for (const proto::System& system : cluster.system()) {
    const bool is_meant = system.name() == cluster.as_system();
    if (!cluster.as_system().empty() && !is_meant) continue;
    const proto::Region* narrowest = nullptr;
    for (const proto::Region& region : system.region()) {
      Misfits misfits = FindMisfits(region, run);
      if (misfits.distance > 0) {
        if (misfits.distance < nearest.distance) nearest = std::move(misfits);
      } else if (narrowest == nullptr || region.runs() < narrowest->runs()) {
        narrowest = &region;
      }
    }
    if (is_meant) band.by = system.what();
    if (narrowest == nullptr) continue;
    ++band.systems;
    band.runs += narrowest->runs();
    band.models += narrowest->models();
    squares += Square(narrowest->sigma());
    if (is_meant) band.what = absl::StrCat(system.what(), " on ", band.devices);
  }
  band.system = cluster.as_system();
  if (band.systems == 0) {
    nearest.words.resize(std::min<size_t>(2, nearest.words.size()));
    band.outside = absl::StrJoin(nearest.words, ", ");
    return band;
  }
  squares /= band.systems;
  if (band.system.empty()) {
    band.what = "systems on " + band.devices;
    squares += Square(StudentSigma(between.freedom()) * between.sigma());
  }
  band.sigma = std::sqrt(squares);
  return band;
}

std::string CountText(double count) {
  static constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}, {1e3, "thousand"}};
  // 999.6 million is rounded to 1 billion.
  const double rounded = std::strtod(absl::StrFormat("%.3g", count).c_str(), nullptr);
  for (const auto& [unit, name] : kUnits) {
    if (rounded >= unit) return absl::StrFormat("%g %s", rounded / unit, name);
  }
  return absl::StrFormat("%g", rounded);
}

std::string BandText(const Band& band) {
  if (!band.outside.empty()) {
    return absl::StrCat(" (no run like this (", band.outside, " on ", band.devices, ")",
                        band.by.empty() ? "" : " by " + band.by, " was compared)");
  }
  if (band.systems == 0) return " (no run of this kind was compared)";
  const double percent = 100 * band.sigma;
  std::string text = absl::StrFormat(" ± %.*f %% (1 σ of ", percent < 1 ? 1 : 0, percent);
  if (!band.system.empty()) {
    return absl::StrCat(text, band.runs, band.runs == 1 ? " run of " : " runs of ", band.models,
                        band.models == 1 ? " model by " : " models by ", band.what, ")");
  }
  return absl::StrCat(
      text, "a system that was not compared; ", band.systems, " ",
      band.systems == 1 ? "system on " + band.devices + " was" : band.what + " were",
      "; --system narrows it)");
}

nlohmann::ordered_json BandJson(const Band& band, double seconds) {
  if (!band.outside.empty()) {
    nlohmann::ordered_json json = {{"system", nullptr}, {"outside", band.outside}};
    if (!band.system.empty()) json["system"] = band.system;
    return json;
  }
  if (band.systems == 0) return nullptr;
  nlohmann::ordered_json json = {{"system", nullptr}, {"sigma", band.sigma}};
  if (!band.system.empty()) json["system"] = band.system;
  if (seconds > 0) {
    json["low_seconds"] = seconds * std::exp(-band.sigma);
    json["high_seconds"] = seconds * std::exp(band.sigma);
  }
  json.update({{"runs", band.runs},
               {"models", band.models},
               {"systems", band.systems},
               {"what", band.what}});
  return json;
}

}  // namespace oneflow
