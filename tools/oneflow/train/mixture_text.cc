#include "tools/oneflow/train/mixture_text.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

std::string Percent(double part) { return absl::StrFormat("%.1f %%", 100 * part); }

}  // namespace

std::string MixtureText(const TokenMixture& data) {
  std::string text = "data:";
  const char* separator = " ";
  for (const MixturePart& part : data.parts()) {
    absl::StrAppend(&text, std::exchange(separator, ", "), part.file, " ", Percent(part.weight));
  }
  return text + "\n";
}

std::string SharesText(const TokenMixture& data, uint64_t seed, int64_t steps, int64_t batch) {
  const std::vector<int64_t> counts = data.CountSamples(seed, steps, batch);
  const auto all = static_cast<double>(steps) * static_cast<double>(batch);
  std::string text = absl::StrCat("data of ", steps, " steps:");
  const char* separator = " ";
  for (size_t i = 0; i < counts.size(); ++i) {
    absl::StrAppend(&text, std::exchange(separator, ", "), data.parts()[i].file, " ", counts[i],
                    " sequences, ", Percent(all > 0 ? static_cast<double>(counts[i]) / all : 0));
  }
  return text + "\n";
}

}  // namespace oneflow
