#include "tools/oneflow/cli/data_list.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

DataName SplitDataName(const std::string& entry) {
  const size_t colon = entry.rfind(':');
  double number = 0;
  if (colon == std::string::npos || !absl::SimpleAtod(entry.substr(colon + 1), &number)) {
    return {entry, ""};
  }
  return {entry.substr(0, colon), entry.substr(colon)};
}

absl::StatusOr<DataList> ParseDataList(const std::string& flag, const std::string& list) {
  ASSIGN_OR_RETURN(const std::vector<std::string> entries, FilesOfFlag(flag, list));
  DataList made;
  std::string with, without;  // a file of each sort
  for (const std::string& entry : entries) {
    const DataName name = SplitDataName(entry);
    if (name.file.empty()) {
      return InputError("--" + flag + "=" + list, "names a file without a name",
                        "write FILE:WEIGHT");
    }
    made.files.push_back(name.file);
    (name.weight.empty() ? without : with) = name.file;
    if (name.weight.empty()) continue;
    double weight = 0;
    (void)absl::SimpleAtod(name.weight.substr(1), &weight);  // it reads as a number
    made.weights.push_back(weight);
  }
  if (with.empty() || without.empty()) return made;
  return InputError("--" + flag + "=" + list, with + " has a weight, and " + without + " has none",
                    "give a weight to each file, or to none");
}

std::vector<std::string> FoundData::paths() const {
  std::vector<std::string> all;
  for (const FoundFiles& found : entries) {
    all.insert(all.end(), found.paths.begin(), found.paths.end());
  }
  return all;
}

absl::StatusOr<FoundData> ExpandDataList(const std::string& flag, const std::string& list) {
  ASSIGN_OR_RETURN(const DataList data, ParseDataList(flag, list));
  FoundData made{.weights = data.weights};
  for (const std::string& name : data.files) {
    ASSIGN_OR_RETURN(FoundFiles found, FindFiles(name));
    made.entries.push_back(std::move(found));
  }
  return made;
}

}  // namespace oneflow
