#include "tools/oneflow/cli/known_clusters.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

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

std::optional<ClusterText> FindKnown(const std::string& name) {
  for (const Known& known : kKnown) {
    if (name != known.name) continue;
    return ClusterText{"cluster " + name, std::string(known.text)};
  }
  return std::nullopt;
}

// "did you mean h100? known are a100, ..."
std::string NamesText(const std::string& name) {
  const std::vector<std::string> names = KnownClusters();
  const std::string nearest = Nearest(name, names);
  return absl::StrCat(nearest.empty() ? "" : "did you mean " + nearest + "? ", "known are ",
                      absl::StrJoin(names, ", "));
}

}  // namespace

std::vector<std::string> KnownClusters() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<ClusterText> KnownClusterText(const std::string& name, std::string_view where,
                                             const std::string& what) {
  if (std::optional<ClusterText> text = FindKnown(name)) return *std::move(text);
  return InputError(where, absl::StrCat(what, " is \"", name, "\", which is no known cluster"),
                    NamesText(name));
}

absl::StatusOr<ClusterText> ReadClusterText(const std::string& name) {
  if (std::optional<ClusterText> text = FindKnown(name)) return *std::move(text);
  // A word with a slash or a dot is meant as a path; any other may be a name one letter off.
  std::error_code error;
  const bool path = name.find_first_of("/.") != std::string::npos;
  if (!path && !std::filesystem::exists(name, error)) {
    return InputError("--cluster=" + name, "is neither a known cluster nor a file",
                      NamesText(name) + "; or write the path of a textproto");
  }
  const absl::StatusOr<std::string> text =
      ReadFile(name, "--cluster wants a textproto, or one of the names " +
                         absl::StrJoin(KnownClusters(), ", "));
  if (!text.ok()) return text.status();
  return ClusterText{name, *text};
}

}  // namespace oneflow
