// Divides the cores of a host among its processes: a pure function of the cores that each may use.
//
//   const std::vector<CoreShare> shares = ShareCores({{"a", {0, 1}}, {"a", {0, 1}}});
//   // process 0 takes core 0, process 1 takes core 1
//
// Processes of a host that may use the same cores divide them, where there are enough: whoever
// started them has not. A process that was given exclusive cores (Slurm, process 0 of
// --processes=N) keeps them. A quota of processor time is divided among the processes of its host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

struct ProcessCores {
  std::string host;
  std::vector<int> cores;  // ascending
  int quota = 0;           // cores' worth of time, shared with others of its host; 0: all
  bool operator==(const ProcessCores&) const = default;
};

struct CoreShare {
  std::vector<int> cores;  // the process is to use these
  int processes = 1;       // processes of its host that are to use any of them, itself included
  int threads = 1;         // threads that may compute at once
  bool operator==(const CoreShare&) const = default;
};

// By process.
std::vector<CoreShare> ShareCores(const std::vector<ProcessCores>& processes);

// Share `index` of `shares` of the cores, consecutive ones; all of them where there are fewer cores
// than shares.
std::vector<int> ShareOfCores(const std::vector<int>& cores, int index, int shares);

// Text for other processes, and back; INVALID_ARGUMENT if a text is none.
std::string Encode(const ProcessCores& cores);
absl::StatusOr<ProcessCores> DecodeProcessCores(std::string_view text);
std::string Encode(const CoreShare& share);
absl::StatusOr<CoreShare> DecodeCoreShare(std::string_view text);

}  // namespace oneflow
