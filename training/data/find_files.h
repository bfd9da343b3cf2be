// FindFiles: the files that a name of data stands for: a file, a folder, or a pattern.
//
//   ASSIGN_OR_RETURN(const FoundFiles found, FindFiles("corpus/**/*.jsonl.gz"));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

struct FoundFiles {
  std::vector<std::string> paths;  // sorted, byte by byte, but for a file that is named itself
  bool named = true;               // the name is that of a file, or of nothing: paths holds it
  bool folder = false;             // the name is that of a folder
};

// `name`:
//   - what is there and no folder, or has no *, ? or [ and is not there: the name itself;
//   - a folder: all files below it;
//   - a pattern: the files that match it. `*`, `?` and `[a-z]` match within a name, as in a shell;
//     `**` as a name of its own matches folders, any number of them.
// Names that begin with a dot are left out unless they are written so. Links to folders are not
// followed below a folder or `**`. Errors: a folder without files, a pattern that matches none, a
// folder that cannot be read.
absl::StatusOr<FoundFiles> FindFiles(const std::string& name);

}  // namespace oneflow
