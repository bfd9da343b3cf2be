// The files that --data and --eval_data name: "a.bin,b.bin", or with weights,
// "a.bin:0.7,b.bin:0.3".
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

struct DataList {
  std::vector<std::string> files;
  std::vector<double> weights;  // the written ones; empty: none has one
};

// A number behind the last colon of a name is its weight; numbers that cannot be weights are left
// to TokenMixture. Errors: a file without a name; some files with weights and others
// without.
absl::StatusOr<DataList> ParseDataList(const std::string& flag, const std::string& list);

// The name of one entry, and its weight as it is written, with the colon; empty: none.
struct DataName {
  std::string file, weight;
};
DataName SplitDataName(const std::string& entry);

}  // namespace oneflow
