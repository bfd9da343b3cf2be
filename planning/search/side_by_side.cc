#include "planning/search/side_by_side.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "planning/search/plan_words.h"

namespace oneflow {

std::vector<Side> SearchSides(const SearchSpec& spec, const std::vector<NamedPart>& parts,
                              const SearchOptions& options, const SearchFunction& search) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::vector<Side> sides;
  for (const NamedPart& part : parts) {
    SearchSpec narrow = spec;
    narrow.fixed = part.fixes;
    SearchOptions one = options;
    const double rest =
        options.budget_seconds - std::chrono::duration<double>(Clock::now() - start).count();
    one.budget_seconds = std::max(0.0, rest) / static_cast<double>(parts.size() - sides.size());
    one.top = 1;
    one.simplest = false;
    sides.push_back({part.name, search(narrow, one)});
  }
  return sides;
}

std::string ExtentText(const SearchResult& result) {
  const SearchCounts& counts = result.counts;
  if (counts.open == 0) {
    return absl::StrCat("the best of all ", DigitsText(counts.groups), " plan groups");
  }
  return absl::StrCat("the best of the ",
                      DigitsText(counts.groups - counts.listed - counts.unlisted), " of ",
                      DigitsText(counts.groups), " plan groups that were looked at");
}

std::string NoPlanText(const Side& side, int64_t capacity) {
  if (!side.result.ok()) return std::string(ToStd(side.result.status().message()));
  const SearchResult& result = *side.result;
  const SearchCounts& counts = result.counts;
  std::string text;
  if (counts.open > 0) {
    text = absl::StrCat(
        "not found within the time: ", DigitsText(counts.groups - counts.listed - counts.unlisted),
        " of ", DigitsText(counts.groups), " plan groups were looked at");
    if (result.estimated) absl::StrAppend(&text, "; ", EstimateText(*result.estimated));
  } else if (counts.cannot_fit + counts.too_large > 0) {
    text = absl::StrCat("does not fit ", ShortBytesText(capacity), ": none of its ",
                        DigitsText(counts.groups), " plan group", counts.groups == 1 ? "" : "s",
                        " does");
  } else {
    text = "none of its plans can be compiled";
  }
  if (result.nearest) {
    absl::StrAppend(
        &text, "; the nearest to fitting needs ", result.nearest->bounded ? "at least " : "",
        ShortBytesText(result.nearest->bytes), ": ", CandidateFlags(result.nearest->candidate));
  }
  return text;
}

Report DescribeSides(const ResultFrame& asked, const std::vector<Side>& sides) {
  using Json = nlohmann::ordered_json;
  const auto first = std::ranges::find_if(
      sides, [](const Side& side) { return side.result.ok() && !side.result->found.empty(); });
  std::vector<PlanRow> rows;
  std::vector<FoundPlan> all;
  Json list = Json::array();
  for (const Side& side : sides) {
    Json member = {{"choices", side.name}, {"flags", nullptr}};
    if (!side.result.ok() || side.result->found.empty()) {
      const std::string why = NoPlanText(side, asked.capacity);
      rows.push_back({{side.name}, nullptr, {why}});
      member["none"] = why;
    } else {
      const SearchResult& result = *side.result;
      const FoundPlan& plan = result.found[0];
      const std::string flags = CompileFlags(asked, plan);
      rows.push_back({{side.name}, &plan, {flags, ExtentText(result)}});
      all.push_back(plan);
      member.update(FoundPlanJson(plan, GroupByBits(all).back(), flags));
      if (&side != &*first) {
        const std::string words = DifferenceText(plan, first->result->found[0], first->name);
        rows.back().below.push_back(words);
        member["differs"] = words;
      }
      member["complete"] = result.complete;
    }
    list.push_back(std::move(member));
  }
  const ResultFrame frame = MakeFrame(asked, rows);
  std::string text =
      absl::StrCat(FrameText(frame), "\n", frame.space, "\n", PlanTable({"choices"}, rows),
                   "\nunder each plan stand the flags of `oneflow compile` that make it\n",
                   BandLines(rows), MfuLines(rows), PriceLines(rows));
  return {std::move(text), FrameJson(frame, {{"compare", std::move(list)}})};
}

}  // namespace oneflow
