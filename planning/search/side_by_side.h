// Parts of the space that a user names, each searched alone, side by side.
//
//   fix_a: data=32,shard=weights   fix_b: tensor=4,pipe=2
//   DescribeSides(frame, SearchSides(spec, {{"data=32,shard=weights", fix_a}, ...}, options))
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/print/report.h"
#include "planning/search/pareto.h"
#include "planning/search/result_text.h"

namespace oneflow {

struct NamedPart {
  std::string name;  // as it was given
  Fixes fixes;       // of the part, with all others
};

struct Side {
  std::string name;
  absl::StatusOr<SearchResult> result;  // an error: no such plan can be made
};

// One search after the other; the time that is left is shared equally by those to come.
std::vector<Side> SearchSides(const SearchSpec& spec, const std::vector<NamedPart>& parts,
                              const SearchOptions& options, const SearchFunction& search = &Search);

// "the best of the 12 of 40 plan groups that were looked at", "the best of all 40 plan groups".
std::string ExtentText(const SearchResult& result);

// Why a side has no plan, and what it needs at least: that nothing fits is only said where all of
// it was looked at.
std::string NoPlanText(const Side& side, int64_t capacity);

// A row for each side: its best plan and its differences from the first, or why it has none.
Report DescribeSides(const ResultFrame& frame, const std::vector<Side>& sides);

}  // namespace oneflow
