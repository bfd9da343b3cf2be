#include "oneflow_core/base/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace oneflow {
namespace {

bool SameLetter(char a, char b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return lower(a) == lower(b);
}

// Insertions, deletions and replacements that turn a into b; the case of letters does not count.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (SameLetter(a[i - 1], b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Nearest(std::string_view name, const std::vector<std::string>& known) {
  size_t best = std::max<size_t>(2, name.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best && distance < name.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace oneflow
