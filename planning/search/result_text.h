// A result of a search, for people and for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/print/report.h"
#include "planning/search/plan_words.h"
#include "planning/search/result.h"
#include "planning/search/search.h"

namespace oneflow {

// The model and the devices of a result.
struct ResultFrame {
  std::string model, cluster;  // names
  int64_t devices = 0;
  int64_t capacity = 0;     // bytes of a device that a plan may take; 0: not limited
  int64_t kept = 0;         // bytes beside them that it leaves to others
  std::string given_flags;  // of compile, beside those of a candidate: "--graph=gpt.textproto ..."
  std::string space;        // DescribeSpace
  // Of experts, at which plans are priced where devices split those of a mixture that drops
  // nothing; 0: of no plan.
  double imbalance = 0;
};

// CandidateFlags of the plan, and the imbalance at which compile prices it so.
std::string PlanFlags(const FoundPlan& plan);
// All flags with which compile makes the plan.
std::string CompileFlags(const ResultFrame& frame, const FoundPlan& plan);

// A letter for each plan, "A", "B", ...: the same where the bits of a run are the same (BitsKey).
std::vector<std::string> GroupByBits(const std::vector<FoundPlan>& found);

// A plan in a table: the cells of `first` and its numbers and choices, and lines below them.
// Without a plan, `first` and the lines are all there is.
struct PlanRow {
  std::vector<std::string> first;
  const FoundPlan* plan = nullptr;
  std::vector<std::string> below;
};
std::string PlanTable(const std::vector<std::string>& first_titles,
                      const std::vector<PlanRow>& plans);

// "predicted: times of a step ± 4 % (...)"; where bands differ, a line for each, which names its
// rows by the first of their cells.
std::string BandLines(const std::vector<PlanRow>& plans);
// "MFU: t² pairs, ..." in the same way: what the MFU of each plan counts, where it may be misread.
std::string MfuLines(const std::vector<PlanRow>& plans);

// "experts: priced at an imbalance of 1.25; ..." in the same way.
std::string PriceLines(const std::vector<PlanRow>& plans);

// `frame`, without its imbalance where none of the plans is priced.
ResultFrame MakeFrame(ResultFrame frame, const std::vector<PlanRow>& plans);

// "gpt on 8 devices of h100, 79.11 GiB each, 3.0 GiB kept for libraries".
std::string FrameText(const ResultFrame& frame);
// The same, with what is given and the space, before `facts`.
nlohmann::ordered_json FrameJson(const ResultFrame& frame, nlohmann::ordered_json facts);

nlohmann::ordered_json FoundPlanJson(const FoundPlan& plan, const std::string& bits,
                                     const std::string& flags);

// The table of plans, each with its flags: first the simplest of those that predictions cannot tell
// apart (planning/search/simplest.h), then the fastest first. And what is known of the rest of the
// space. Requires a plan that was found.
Report DescribeResult(const ResultFrame& frame, const SearchResult& result);

// "68.2 GiB of memory (± 3 %)"
std::string EstimatedBytesText(double bytes, double error);

// One line, without its end.
// "estimated by short plans: 3.48 s, 68.2 GiB of memory (± 3 %) with --mesh=..."
std::string EstimateText(const EstimatedPlan& plan);

std::string ProgressText(const SearchProgress& progress);

// The error of a search that found no plan: why, and what is nearest to fitting.
absl::Status NothingFound(const ResultFrame& frame, const SearchResult& result);

}  // namespace oneflow
