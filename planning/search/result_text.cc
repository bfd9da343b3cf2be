#include "planning/search/result_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/table.h"
#include "planning/search/simplest.h"

namespace oneflow {
namespace {

// "A", ..., "Z", "AA", ...
std::string Letter(size_t n) {
  std::string text(1, static_cast<char>('A' + n % 26));
  return n < 26 ? text : Letter(n / 26 - 1) + text;
}

// The unit of bytes: MiB for small models, whose plans take less than a GiB.
struct Unit {
  const char* name;
  double bytes;
};
Unit FindUnit(const std::vector<PlanRow>& plans) {
  int64_t most = 0;
  for (const PlanRow& row : plans) most = std::max(most, row.plan ? row.plan->bytes : 0);
  return most < (1 << 30) ? Unit{"MiB", 1 << 20} : Unit{"GiB", 1 << 30};
}

// The cells of a plan, of which the first kNumbers are numbers.
constexpr size_t kNumbers = 7;
std::vector<std::string> MakeCells(const FoundPlan& plan, const Unit& unit) {
  const proto::Recipe& candidate = plan.candidate;
  const auto words = [&](std::string_view name) { return ChoiceText(candidate, name); };
  return {TimeText(plan.step_seconds),
          DigitsText(static_cast<int64_t>(plan.tokens_a_second)),
          DigitsText(std::llround(plan.device_tokens_a_second)),
          plan.mfu ? PercentText(*plan.mfu) : "-",
          absl::StrFormat("%.2f", static_cast<double>(plan.bytes) / unit.bytes),
          PercentText(plan.bubble),
          TimeText(plan.exposed_exchange),
          words("mesh") + (candidate.sequence_parallel() ? " seq" : ""),
          words("micro_batches"),
          words("schedule") + (candidate.chunks() > 1 ? " x" + words("chunks") : ""),
          words("recompute"),
          words("shard"),
          words("offload")};
}

// The counts in the order of the reports: what JSON calls them, and what text says of them.
struct CountRow {
  const char *name, *words;
  int64_t SearchCounts::*count;
};
constexpr CountRow kCounts[] = {
    {"families", "plan groups", &SearchCounts::groups},
    {"refused", "cannot be compiled", &SearchCounts::refused},
    {"cannot_fit", "cannot fit", &SearchCounts::cannot_fit},
    {"too_large", "are too large", &SearchCounts::too_large},
    {"too_slow", "are too slow", &SearchCounts::too_slow},
    {"open", "are undecided", &SearchCounts::open},
    {"listed", "of these known by formulas alone", &SearchCounts::listed},
    {"unlisted", "of these not looked at", &SearchCounts::unlisted},
    {"short_plans", "short plans made", &SearchCounts::short_plans},
    {"compiled", "plans compiled and simulated", &SearchCounts::compiled},
    {"did_not_fit", "plans did not fit", &SearchCounts::did_not_fit}};

std::string CountsText(const SearchCounts& counts) {
  std::string text;
  for (const CountRow& row : kCounts) {
    if (!text.empty() && counts.*row.count == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", DigitsText(counts.*row.count), " ", row.words);
  }
  return text;
}

nlohmann::ordered_json CountsJson(const SearchCounts& counts) {
  nlohmann::ordered_json json;
  for (const CountRow& row : kCounts) json[row.name] = counts.*row.count;
  return json;
}

// Says how much faster another plan of the space may be; `than`: which plan, if that is not plain.
std::string FasterText(const SearchResult& result, const std::string& than) {
  if (result.complete) {
    return absl::StrCat("no plan of the space is more than ", PercentText(FindGap(result)),
                        " faster", than, ", by the simulator's times");
  }
  const SearchCounts& counts = result.counts;
  if (counts.unlisted > 0) {
    return absl::StrCat("nothing is known of ", DigitsText(counts.unlisted), " of ",
                        DigitsText(counts.groups), " plan groups: the search ended before");
  }
  return absl::StrCat("estimated: no other plan group is more than ",
                      PercentText(FindEstimatedGap(result)), " faster", than, "; of ",
                      DigitsText(counts.groups), ", ", DigitsText(counts.listed),
                      " are known by formulas alone: the search ended before");
}

// A line for each note that plans have, behind `what`; it names its rows where not all have it.
std::string GroupNotes(const std::vector<PlanRow>& plans, const char* what,
                       const std::function<std::string(const FoundPlan&)>& note) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;  // with their rows
  for (const PlanRow& row : plans) {
    if (row.plan == nullptr) continue;
    const std::string words = note(*row.plan);
    auto at = std::ranges::find_if(notes, [&](const auto& known) { return known.first == words; });
    if (at == notes.end()) at = notes.insert(at, {words, {}});
    at->second.push_back(row.first[0]);
  }
  std::string text;
  for (const auto& [words, rows] : notes) {
    if (words.empty()) continue;
    const std::string which = notes.size() > 1 ? " (" + absl::StrJoin(rows, ", ") + ")" : "";
    absl::StrAppend(&text, what, which, words, "\n");
  }
  return text;
}

std::string PriceText(const ResultFrame& frame) {
  return frame.imbalance > 0 ? absl::StrCat(", experts priced at an imbalance of ", frame.imbalance)
                             : "";
}

nlohmann::ordered_json Known(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace

std::string EstimatedBytesText(double bytes, double error) {
  return ShortBytesText(static_cast<int64_t>(bytes)) +
         absl::StrFormat(" of memory (± %.0f %%)", 100 * error);
}

std::string EstimateText(const EstimatedPlan& plan) {
  return absl::StrCat("estimated by short plans: ", TimeText(plan.step_seconds), ", ",
                      EstimatedBytesText(plan.bytes, plan.bytes_error), " with ",
                      CandidateFlags(plan.candidate));
}

std::string PlanFlags(const FoundPlan& plan) {
  const bool usual = plan.imbalance == 0 || plan.imbalance == kUsualImbalance;
  return CandidateFlags(plan.candidate) +
         (usual ? "" : absl::StrCat(" --imbalance=", plan.imbalance));
}

std::string CompileFlags(const ResultFrame& frame, const FoundPlan& plan) {
  return absl::StrCat(frame.given_flags, frame.given_flags.empty() ? "" : " ", PlanFlags(plan));
}

std::vector<std::string> GroupByBits(const std::vector<FoundPlan>& found) {
  std::map<std::string, std::string> letters;
  std::vector<std::string> groups;
  for (const FoundPlan& plan : found) {
    const auto [at, is_new] = letters.emplace(BitsKey(plan.candidate), "");
    if (is_new) at->second = Letter(letters.size() - 1);
    groups.push_back(at->second);
  }
  return groups;
}

// A column that says the same in all rows stays: it answers what was chosen.
std::string PlanTable(const std::vector<std::string>& first_titles,
                      const std::vector<PlanRow>& plans) {
  const Unit unit = FindUnit(plans);
  std::vector<std::vector<std::string>> rows = {first_titles};
  rows[0].insert(rows[0].end(),
                 {"step", "tokens/s", "a device", "MFU", unit.name, "bubble", "exposed", "mesh",
                  "micro-batches", "schedule", "recompute", "shard", "offload"});
  for (const PlanRow& row : plans) {
    rows.push_back(row.first);
    if (row.plan == nullptr) {
      rows.back() = {absl::StrJoin(row.first, "  ")};
    } else {
      for (const std::string& cell : MakeCells(*row.plan, unit)) rows.back().push_back(cell);
    }
    for (const std::string& line : row.below) rows.push_back({"    " + line});
    if (row.plan && !row.plan->why_above_all.empty()) {
      rows.push_back({"    MFU " + row.plan->why_above_all});
    }
  }
  std::vector<Column> columns(rows[0].size());
  for (size_t i = first_titles.size(); i < first_titles.size() + kNumbers; ++i) {
    columns[i].right = true;
  }
  return TableText(rows, columns);
}

std::string BandLines(const std::vector<PlanRow>& plans) {
  return GroupNotes(plans, "predicted: times of a step",
                    [](const FoundPlan& plan) { return BandText(plan.band); });
}

std::string MfuLines(const std::vector<PlanRow>& plans) {
  return GroupNotes(plans, "MFU", [](const FoundPlan& plan) {
    return plan.mfu && !plan.mfu_counts.empty() ? ": " + plan.mfu_counts : "";
  });
}

std::string PriceLines(const std::vector<PlanRow>& plans) {
  return GroupNotes(plans, "experts", [](const FoundPlan& plan) {
    return plan.imbalance == 0
               ? ""
               : absl::StrCat(": time and memory are priced at an imbalance of ", plan.imbalance,
                              "; `oneflow compile` says what a plan needs at the worst");
  });
}

ResultFrame MakeFrame(ResultFrame frame, const std::vector<PlanRow>& plans) {
  const bool priced = std::ranges::any_of(
      plans, [](const PlanRow& row) { return row.plan != nullptr && row.plan->imbalance > 0; });
  if (!priced) frame.imbalance = 0;
  return frame;
}

std::string FrameText(const ResultFrame& frame) {
  return absl::StrCat(frame.model, " on ", DigitsText(frame.devices), " devices of ", frame.cluster,
                      frame.capacity > 0
                          ? absl::StrCat(", ", ShortBytesText(frame.capacity + frame.kept), " each",
                                         KeptText(frame.kept))
                          : "",
                      PriceText(frame));
}

nlohmann::ordered_json FrameJson(const ResultFrame& frame, nlohmann::ordered_json facts) {
  nlohmann::ordered_json json = {{"model", frame.model},
                                 {"cluster", frame.cluster},
                                 {"devices", frame.devices},
                                 {"device_capacity_bytes", frame.capacity + frame.kept},
                                 {"device_kept_bytes", frame.kept},
                                 {"given", frame.given_flags},
                                 {"space", frame.space}};
  if (frame.imbalance > 0) json["imbalance"] = frame.imbalance;
  json.update(facts);
  return json;
}

nlohmann::ordered_json FoundPlanJson(const FoundPlan& plan, const std::string& bits,
                                     const std::string& flags) {
  using Json = nlohmann::ordered_json;
  Json json;
  for (const Row& row : CandidateRows()) {
    const std::string text = FieldText(row, plan.candidate);
    // Numbers and switches as they are, and a list of layers; all else in the words of its flag.
    const bool layers = row.name == "stage_layers";
    const Json value = Json::parse(layers ? "[" + text + "]" : text, nullptr, false);
    json[std::string(row.name)] = value.is_discarded() || row.name == "mesh" ? Json(text) : value;
  }
  json.update({{"step_seconds", plan.step_seconds},
               {"compared", BandJson(plan.band, plan.step_seconds)},
               {"bytes_a_device", plan.bytes},
               {"host_bytes_a_device", plan.host_bytes},
               {"tokens_a_second", plan.tokens_a_second},
               {"tokens_per_second_per_device", plan.device_tokens_a_second},
               {"mfu", nullptr},
               {"bubble", plan.bubble},
               {"exposed_exchange_seconds", plan.exposed_exchange},
               {"bits", bits},
               {"flags", flags}});
  if (plan.imbalance > 0) json["imbalance"] = plan.imbalance;
  if (plan.mfu) json["mfu"] = *plan.mfu;
  if (plan.mfu && !plan.mfu_counts.empty()) json["mfu_counts"] = plan.mfu_counts;
  if (!plan.why_above_all.empty()) json["why_above_all"] = plan.why_above_all;
  return json;
}

Report DescribeResult(const ResultFrame& asked, const SearchResult& result) {
  using Json = nlohmann::ordered_json;
  const std::vector<FoundPlan>& found = result.found;
  const std::vector<std::string> bits = GroupByBits(found);
  const size_t simplest = FindSimplest(found, asked.capacity), alike = CountClass(found);
  std::vector<PlanRow> rows;
  Json plans = Json::array();
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string flags = CompileFlags(asked, found[i]);
    PlanRow row{.plan = &found[i], .below = {flags}};
    if (i != simplest) row.below.push_back(DifferenceText(found[i], found[simplest], "1"));
    rows.insert(i == simplest ? rows.begin() : rows.end(), std::move(row));
    plans.push_back(FoundPlanJson(found[i], bits[i], flags));
  }
  for (size_t i = 0; i < rows.size(); ++i) rows[i].first = {absl::StrCat(i + 1)};
  const ResultFrame frame = MakeFrame(asked, rows);
  const double gap = FindGap(result);
  std::string text =
      absl::StrCat(FrameText(frame), "\n", frame.space, CountsText(result.counts), ", in ",
                   TimeText(result.seconds), "\n\n", PlanTable({""}, rows),
                   "\nunder each plan stand the flags of `oneflow compile` that make it; seq: "
                   "--sequence_parallel\n");
  if (alike > 1) {
    absl::StrAppend(&text, "1 is the simplest of ", alike, " plans within ",
                    PercentText(kOrderSpread), ", by which predictions misjudge the order of two",
                    simplest == 0 ? "; it is the fastest, too"
                                  : "; the fastest is 2: " + TradeText(found[0], found[simplest]),
                    "\n");
  }
  absl::StrAppend(&text, "predicted: step ", TimeText(found[simplest].step_seconds),
                  BandText(found[simplest].band), "\n", MfuLines(rows), PriceLines(rows));
  absl::StrAppend(&text, FasterText(result, simplest == 0 ? "" : " than 2"), "\n");
  return {
      std::move(text),
      FrameJson(frame, {{"counts", CountsJson(result.counts)},
                        {"seconds", result.seconds},
                        {"complete", result.complete},
                        {"bound_seconds", result.complete ? Json(result.bound_seconds) : Json()},
                        {"gap", result.complete ? Json(gap) : Json()},
                        {"estimated_gap",
                         result.counts.unlisted > 0 ? Json() : Json(FindEstimatedGap(result))},
                        {"cpu_seconds_until_estimate", Known(result.cpu_until_estimate)},
                        {"cpu_seconds_until_plan", Known(result.cpu_until_plan)},
                        {"simplest", simplest},
                        {"class", {{"spread", kOrderSpread}, {"plans", alike}}},
                        {"plans", std::move(plans)}})};
}

std::string ProgressText(const SearchProgress& progress) {
  std::string text = absl::StrFormat("%.0f s: %s", progress.seconds, CountsText(progress.counts));
  if (progress.best) {
    absl::StrAppend(&text, "; best ", TimeText(progress.best->step_seconds), " with ",
                    CandidateFlags(progress.best->candidate));
  }
  if (progress.estimated) absl::StrAppend(&text, "; ", EstimateText(*progress.estimated));
  return text;
}

absl::Status NothingFound(const ResultFrame& frame, const SearchResult& result) {
  const SearchCounts& counts = result.counts;
  const std::string where = absl::StrCat(frame.model, " on ", DigitsText(frame.devices),
                                         " devices of ", frame.cluster, PriceText(frame));
  if (counts.refused == counts.groups) {
    return InputError(where, "none of the plans can be compiled: " + CountsText(counts),
                      "compile one with `oneflow compile`, which says why");
  }
  const std::string fitted = absl::StrCat(
      ShortBytesText(frame.capacity),
      frame.kept > 0 ? absl::StrCat(" (of ", ShortBytesText(frame.capacity + frame.kept),
                                    KeptText(frame.kept), ")")
                     : "");
  std::string what = absl::StrCat("nothing fits ", fitted, ": every plan group",
                                  counts.refused > 0 ? " that can be compiled" : "",
                                  " needs more, by a bound of its bytes");
  std::string hint =
      "use more devices, more of the host's memory (--host_memory), or what --largest finds to fit";
  if (counts.open > 0) {
    what = absl::StrCat("no plan was found yet: ", DigitsText(counts.listed + counts.unlisted),
                        " of ", DigitsText(counts.groups), " plan groups were not looked at");
    hint = "give a larger --budget_seconds, narrow the space with --fix, or " + hint;
  } else if (counts.too_large > 0) {
    what = absl::StrCat("no plan fits ", fitted, ": ", DigitsText(counts.cannot_fit),
                        " plan groups by a bound of their bytes, ", DigitsText(counts.too_large),
                        " by short plans or as compiled");
  }
  if (result.estimated) hint = EstimateText(*result.estimated) + "; " + hint;
  if (result.nearest) {
    hint = absl::StrCat("nearest to it is a plan that needs ",
                        result.nearest->bounded ? "at least " : "",
                        ShortBytesText(result.nearest->bytes), ": ",
                        CandidateFlags(result.nearest->candidate), "; ", hint);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(where, ": ", what, " (", CountsText(counts), "); ", hint));
}

}  // namespace oneflow
