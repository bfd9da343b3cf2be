#include "training/trainer/processes/cores_of_host.h"

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

// "WORD NUMBER CORES".
struct Parts {
  std::string word;
  int number = 0;
  std::vector<int> cores;
};

absl::StatusOr<Parts> Decode(std::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(ToAbsl(text), ' ');
  Parts parts;
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], &parts.number) || parts.number < 0) {
    return absl::InvalidArgumentError("cores of a process: not a word, a number and cores");
  }
  parts.word = words[0];
  ASSIGN_OR_RETURN(parts.cores, DecodeCores(words[2]));
  return parts;
}

std::string EncodeParts(const std::string& word, int number, const std::vector<int>& cores) {
  return absl::StrCat(word, " ", number, " ", absl::StrJoin(cores, ","));
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
  std::map<std::string, int> of_host;
  for (const ProcessCores& process : processes) ++of_host[process.host];
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
    CoreShare& share = shares[p];
    share.processes = std::max(1, static_cast<int>(others.size()));
    share.threads = static_cast<int>(share.cores.size()) / share.processes;
    if (const int quota = processes[p].quota; quota > 0) {
      share.threads = std::min(share.threads, quota / of_host[processes[p].host]);
    }
    share.threads = std::max(1, share.threads);
  }
  return shares;
}

std::string Encode(const ProcessCores& cores) {
  return EncodeParts(cores.host, cores.quota, cores.cores);
}

absl::StatusOr<ProcessCores> DecodeProcessCores(std::string_view text) {
  ASSIGN_OR_RETURN(Parts parts, Decode(text));
  return ProcessCores{std::move(parts.word), std::move(parts.cores), parts.number};
}

std::string Encode(const CoreShare& share) {
  return EncodeParts(absl::StrCat(share.processes), share.threads, share.cores);
}

absl::StatusOr<CoreShare> DecodeCoreShare(std::string_view text) {
  ASSIGN_OR_RETURN(Parts parts, Decode(text));
  CoreShare share{.cores = std::move(parts.cores), .threads = parts.number};
  if (!absl::SimpleAtoi(parts.word, &share.processes) || share.processes < 1 || share.threads < 1) {
    return absl::InvalidArgumentError(absl::StrCat("\"", parts.word, "\" is no number"));
  }
  return share;
}

}  // namespace oneflow
