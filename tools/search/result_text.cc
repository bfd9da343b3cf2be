#include "tools/search/result_text.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/print/compared_text.h"
#include "tools/search/plan_table.h"

namespace oneflow {
namespace {

std::string CountsText(const SearchCounts& counts) {
  std::string text = DigitsText(counts.families) + " families of plans";
  const auto add = [&](int64_t count, const char* what) {
    if (count > 0) absl::StrAppend(&text, ", ", DigitsText(count), " ", what);
  };
  add(counts.refused, "cannot be compiled");
  add(counts.too_large, "are too large");
  add(counts.too_slow, "are too slow");
  add(counts.open, "are undecided");
  add(counts.short_plans, "short plans made");
  add(counts.compiled, "plans compiled and simulated");
  add(counts.did_not_fit, "plans did not fit");
  return text;
}

nlohmann::ordered_json CountsJson(const SearchCounts& counts) {
  return {{"families", counts.families},   {"refused", counts.refused},
          {"too_large", counts.too_large}, {"too_slow", counts.too_slow},
          {"open", counts.open},           {"short_plans", counts.short_plans},
          {"compiled", counts.compiled},   {"did_not_fit", counts.did_not_fit}};
}

std::string GapText(const SearchResult& result) {
  const double gap = FindGap(result);
  if (std::isinf(gap)) {
    return "nothing is known of the plans that were not tried: give a larger --budget_seconds\n";
  }
  return absl::StrCat(
      "no plan of the space is more than ", PercentText(gap), " faster, by the simulator's times",
      result.complete ? "" : "; the time of --budget_seconds ended the search", "\n");
}

}  // namespace

std::string CompileFlags(const ResultFrame& frame, const Candidate& candidate) {
  return absl::StrCat(frame.given_flags, frame.given_flags.empty() ? "" : " ",
                      CandidateFlags(candidate));
}

std::string ResultText(const ResultFrame& frame, const SearchResult& result) {
  std::string text =
      absl::StrCat(frame.model, " on ", DigitsText(frame.devices), " devices of ", frame.cluster);
  if (frame.capacity > 0) absl::StrAppend(&text, ", ", ShortBytesText(frame.capacity), " each");
  absl::StrAppend(&text, "\n", frame.space, CountsText(result.counts), ", in ",
                  TimeText(result.seconds), "\n\n");
  TableColumn rank;
  std::vector<std::string> flags;
  for (size_t i = 0; i < result.found.size(); ++i) {
    rank.cells.push_back(absl::StrCat(i + 1));
    flags.push_back(CompileFlags(frame, result.found[i].candidate));
  }
  text += PlanTable(result.found, {rank}, flags);
  text +=
      "\nunder each plan stand the flags of `oneflow compile` that make it; seq: "
      "--sequence_parallel; plans of one letter of bits give the same bits\n";
  absl::StrAppend(&text, "predicted: step ", TimeText(result.found[0].step_seconds),
                  ComparedText(result.compared), "\n", GapText(result));
  return text;
}

nlohmann::ordered_json ResultJson(const ResultFrame& frame, const SearchResult& result) {
  nlohmann::ordered_json json = {{"model", frame.model},
                                 {"cluster", frame.cluster},
                                 {"devices", frame.devices},
                                 {"device_capacity_bytes", frame.capacity},
                                 {"given", frame.given_flags},
                                 {"space", frame.space},
                                 {"counts", CountsJson(result.counts)},
                                 {"seconds", result.seconds},
                                 {"complete", result.complete},
                                 {"bound_seconds", nullptr},
                                 {"gap", nullptr},
                                 {"compared", ComparedJson(result.compared)}};
  if (result.bound_seconds > 0) {
    json["bound_seconds"] = result.bound_seconds;
    json["gap"] = FindGap(result);
  }
  json["plans"] = nlohmann::ordered_json::array();
  const std::vector<std::string> bits = GroupByBits(result.found);
  for (size_t i = 0; i < result.found.size(); ++i) {
    json["plans"].push_back(
        FoundPlanJson(result.found[i], bits[i], CompileFlags(frame, result.found[i].candidate)));
  }
  return json;
}

std::string ProgressText(const SearchProgress& progress) {
  std::string text = absl::StrFormat("%.0f s: %s", progress.seconds, CountsText(progress.counts));
  if (progress.best) {
    absl::StrAppend(&text, "; best ", TimeText(progress.best->step_seconds), " with ",
                    CandidateFlags(progress.best->candidate));
  }
  if (progress.bound_seconds > 0) {
    absl::StrAppend(&text, "; none takes less than ", TimeText(progress.bound_seconds));
  }
  return text;
}

absl::Status NothingFound(const ResultFrame& frame, const SearchResult& result) {
  const SearchCounts& counts = result.counts;
  std::string where =
      absl::StrCat(frame.model, " on ", DigitsText(frame.devices), " devices of ", frame.cluster);
  if (counts.too_large + counts.did_not_fit == 0) {
    const bool open = counts.open > 0;
    return InputError(where,
                      open ? "the time ended before a plan was found"
                           : "none of the plans can be compiled: " + CountsText(counts),
                      open ? "give a larger --budget_seconds"
                           : "compile one with `oneflow compile`, which says why");
  }
  std::string hint = "use more devices, or more of the host's memory (--host_memory)";
  if (result.nearest) {
    hint =
        absl::StrCat("nearest to it is a plan that needs ", ShortBytesText(result.nearest->bytes),
                     ": ", CandidateFlags(result.nearest->candidate), "; ", hint);
  }
  return absl::ResourceExhaustedError(absl::StrCat(where, ": no plan that was tried fits ",
                                                   ShortBytesText(frame.capacity), " (",
                                                   CountsText(counts), "); ", hint));
}

}  // namespace oneflow
