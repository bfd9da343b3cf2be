#include "actor_runtime/trainer/processes/cores_of_host.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// "0,1,5"; empty: none.
absl::StatusOr<std::vector<int>> DecodeCores(absl::string_view text) {
  std::vector<int> cores;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(part, &cores.emplace_back())) {
      return absl::InvalidArgumentError(absl::StrCat("\"", part, "\" is no core"));
    }
  }
  return cores;
}

// The text before the first space, and the cores behind it.
absl::StatusOr<std::pair<std::string, std::vector<int>>> Decode(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    return absl::InvalidArgumentError("cores of a process: no space in it");
  }
  ASSIGN_OR_RETURN(std::vector<int> cores, DecodeCores(ToAbsl(text.substr(space + 1))));
  return std::pair(std::string(text.substr(0, space)), std::move(cores));
}

std::string Encode(const std::string& word, const std::vector<int>& cores) {
  return absl::StrCat(word, " ", absl::StrJoin(cores, ","));
}

}  // namespace

std::vector<int> ShareOfCores(const std::vector<int>& cores, int index, int shares) {
  const auto n = static_cast<int>(cores.size());
  if (n < shares) return cores;
  return {cores.begin() + n * index / shares, cores.begin() + n * (index + 1) / shares};
}

std::vector<CoreShare> ShareCores(const std::vector<ProcessCores>& processes) {
  using Key = std::pair<std::string, std::vector<int>>;
  std::map<Key, std::vector<int>> alike;  // processes of a host that may use the same cores
  for (int p = 0; p < std::ssize(processes); ++p) {
    alike[{processes[p].host, processes[p].cores}].push_back(p);
  }
  std::vector<CoreShare> shares(processes.size());
  std::map<std::pair<std::string, int>, std::vector<int>> users;  // by host and core
  for (const auto& [key, members] : alike) {
    for (int i = 0; i < std::ssize(members); ++i) {
      CoreShare& share = shares[members[i]];
      share.cores = ShareOfCores(key.second, i, static_cast<int>(members.size()));
      for (const int core : share.cores) users[{key.first, core}].push_back(members[i]);
    }
  }
  for (size_t p = 0; p < shares.size(); ++p) {
    std::vector<int> others;
    for (const int core : shares[p].cores) {
      const std::vector<int>& of_core = users[{processes[p].host, core}];
      others.insert(others.end(), of_core.begin(), of_core.end());
    }
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    shares[p].processes = std::max(1, static_cast<int>(others.size()));
  }
  return shares;
}

std::string Encode(const ProcessCores& cores) { return Encode(cores.host, cores.cores); }

absl::StatusOr<ProcessCores> DecodeProcessCores(std::string_view text) {
  ASSIGN_OR_RETURN(auto parts, Decode(text));
  return ProcessCores{std::move(parts.first), std::move(parts.second)};
}

std::string Encode(const CoreShare& share) {
  return Encode(absl::StrCat(share.processes), share.cores);
}

absl::StatusOr<CoreShare> DecodeCoreShare(std::string_view text) {
  ASSIGN_OR_RETURN(auto parts, Decode(text));
  CoreShare share{.cores = std::move(parts.second)};
  if (!absl::SimpleAtoi(parts.first, &share.processes) || share.processes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("\"", parts.first, "\" is no number"));
  }
  return share;
}

}  // namespace oneflow
