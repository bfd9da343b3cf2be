// A result of a search, for people and for programs.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "tools/search/result.h"
#include "tools/search/search.h"

namespace oneflow {

// What a result is of.
struct ResultFrame {
  std::string model, cluster;  // names
  int64_t devices = 0;
  int64_t capacity = 0;     // bytes of a device; 0: not limited
  std::string given_flags;  // of compile, beside those of a candidate: "--graph=gpt.textproto ..."
  std::string space;        // DescribeSpace
};

// All flags with which compile makes the plan of a candidate.
std::string CompileFlags(const ResultFrame& frame, const Candidate& candidate);

// The table of plans, each with its flags, and what is known of the rest of the space. Requires a
// plan that was found.
std::string ResultText(const ResultFrame& frame, const SearchResult& result);
nlohmann::ordered_json ResultJson(const ResultFrame& frame, const SearchResult& result);

// One line, without its end.
std::string ProgressText(const SearchProgress& progress);

// The error of a search that found no plan: why, and what is nearest to fitting.
absl::Status NothingFound(const ResultFrame& frame, const SearchResult& result);

}  // namespace oneflow
