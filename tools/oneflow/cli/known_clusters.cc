#include "tools/oneflow/cli/known_clusters.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

struct Known {
  std::string_view name, text;
};

constexpr Known kKnown[] = {
#include "tools/oneflow/cli/known_clusters.inc"
};

}  // namespace

std::vector<std::string> KnownClusters() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<ClusterText> ReadClusterText(const std::string& name) {
  for (const Known& known : kKnown) {
    if (name == known.name) return ClusterText{"cluster " + name, std::string(known.text)};
  }
  // A word with a slash or a dot is meant as a path; any other may be a name one letter off.
  std::error_code error;
  const bool path = name.find_first_of("/.") != std::string::npos;
  if (!path && !std::filesystem::exists(name, error)) {
    const std::string nearest = Nearest(name, KnownClusters());
    return InputError(
        "--cluster=" + name, "is neither a known cluster nor a file",
        absl::StrCat(nearest.empty() ? "" : "did you mean " + nearest + "? ", "known are ",
                     absl::StrJoin(KnownClusters(), ", "), "; or write the path of a textproto"));
  }
  const absl::StatusOr<std::string> text =
      ReadFile(name, "--cluster wants a textproto, or one of the names " +
                         absl::StrJoin(KnownClusters(), ", "));
  if (!text.ok()) return text.status();
  return ClusterText{name, *text};
}

}  // namespace oneflow
