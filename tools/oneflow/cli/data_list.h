// The files that --data and --eval_data name: "a.bin,b.bin", or with weights,
// "a.bin:0.7,b.bin:0.3".
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "training/data/find_files.h"

namespace oneflow {

struct DataList {
  std::vector<std::string> files;
  std::vector<double> weights;  // the written ones; empty: none has one
};

// A number behind the last colon of a name is its weight; numbers that cannot be weights are left
// to TokenMixture. Errors: a file without a name; some files with weights and others
// without.
absl::StatusOr<DataList> ParseDataList(const std::string& flag, const std::string& list);

// The files that the names of a list stand for.
struct FoundData {
  std::vector<FoundFiles> entries;         // of each name
  std::vector<double> weights;             // as in DataList
  std::vector<std::string> paths() const;  // of all entries, in their order
};

// ExpandDataList("data", "corpus,d/*.bin"): the files of folder corpus, then those of the pattern.
// Errors: those of ParseDataList and FindFiles. A file that is named itself need not exist.
absl::StatusOr<FoundData> ExpandDataList(const std::string& flag, const std::string& list);

// The name of one entry, and its weight as it is written, with the colon; empty: none.
struct DataName {
  std::string file, weight;
};
DataName SplitDataName(const std::string& entry);

}  // namespace oneflow
