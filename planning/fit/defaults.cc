#include "planning/fit/defaults.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

constexpr int64_t kMega = int64_t{1} << 20;
// Positions up to which models are trained on all of them; and those of the others.
constexpr int64_t kMostUsual = 8192, kUsual = 4096;
// Tokens of a step by parameters, up to so many.
struct UsualTokens {
  double parameters;
  int64_t tokens;
};
constexpr UsualTokens kTokens[] = {{1e9, kMega / 2}, {4e9, kMega}};
constexpr int64_t kTokensBeyond = 4 * kMega, kLargeStep = 16 * kMega;
constexpr int64_t kMostOfDevice = 65536;
// A batch may be rounded by half of such a part.
constexpr int64_t kNearParts = 8;

}  // namespace

int64_t FindUsualSequence(int64_t positions) {
  return positions <= kMostUsual ? positions : kUsual;
}

int64_t FindUsualBatch(double parameters, int64_t sequence, int64_t devices) {
  sequence = std::max<int64_t>(1, sequence);
  int64_t tokens = kTokensBeyond;
  for (const UsualTokens& usual : kTokens) {
    if (parameters <= usual.parameters) {
      tokens = usual.tokens;
      break;
    }
  }
  tokens = std::min(tokens, kMostOfDevice * devices);
  tokens = std::max(tokens, std::min(devices * sequence, kLargeStep));
  return RoundBatch(tokens, sequence, devices);
}

std::string UsualBatchText(int64_t batch, int64_t sequence) {
  const double tokens = static_cast<double>(batch) * static_cast<double>(sequence);
  const double mega = tokens / static_cast<double>(kMega);
  if (mega >= 1) return absl::StrFormat("about %.3gM tokens", mega);
  return absl::StrFormat("about %.0fk tokens", std::max(1.0, tokens / 1024));
}

int64_t RoundBatch(int64_t tokens, int64_t sequence, int64_t devices) {
  const int64_t sequences = std::max<int64_t>(1, (tokens + sequence / 2) / sequence);
  int64_t unit = std::max<int64_t>(1, devices);
  const auto rounded = [&] { return std::max<int64_t>(1, (sequences + unit / 2) / unit) * unit; };
  const auto is_near = [&] {
    return std::abs(rounded() - sequences) * 2 * kNearParts <= sequences;
  };
  while (unit % 2 == 0 && !is_near()) unit /= 2;
  return is_near() ? rounded() : sequences;
}

}  // namespace oneflow
