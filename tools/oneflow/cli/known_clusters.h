// The clusters that --cluster knows by a name: the files of examples/clusters, held in the program.
//
//   ASSIGN_OR_RETURN(const ClusterText file, ReadClusterText("h100"));   // or
//   "my/cluster.textproto"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

struct ClusterText {
  std::string where;  // for errors: the path, or "cluster h100"
  std::string text;   // textproto
};

// The names, sorted.
std::vector<std::string> KnownClusters();

// The text of a known cluster. Of another name the error begins with `where` and what is so named
// there ("base"), and lists the known names.
absl::StatusOr<ClusterText> KnownClusterText(const std::string& name, std::string_view where,
                                             const std::string& what);

// The text of a known cluster, or of the file at a path. A name goes before a file of that name,
// which is read as "./h100". An error lists the known names where `name` is neither.
absl::StatusOr<ClusterText> ReadClusterText(const std::string& name);

}  // namespace oneflow
