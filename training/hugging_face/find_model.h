// Finds the folder of a model in what a user names.
//
//   ASSIGN_OR_RETURN(const std::string folder, FindModel("cache/hub/models--org--name"));
//   // cache/hub/models--org--name/snapshots/0123..., which refs/main names
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

// `path` itself if it has a config.json, or a snapshot of a model in a cache of the hub. An input
// error says what is there instead.
absl::StatusOr<std::string> FindModel(const std::string& path);

// True of a symbolic link that leads nowhere, too.
bool PathExists(const std::string& path);

// The error of a folder that has no weights which can be read; names those it has.
absl::Status NoWeights(const std::string& folder);

}  // namespace oneflow
