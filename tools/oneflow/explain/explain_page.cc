#include "tools/oneflow/explain/explain_page.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/print/fold.h"
#include "oneflow_core/print/variable_text.h"
#include "tools/oneflow/explain/page_head.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPage =
#include "tools/oneflow/explain/page_html.inc"
    ;
constexpr std::string_view kScript =
#include "tools/oneflow/explain/page_js.inc"
    ;

// A browser draws as many in a moment, and they take about 2 MB.
constexpr size_t kMostBlocks = 20000;
constexpr size_t kMostRows = 40, kMostMembers = 12;

// JSON that no name in it can end the script element with.
std::string InScript(const std::string& json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else if (c != '\n') {
      text += c;
    }
  }
  return text;
}

// Actors that are alike in all layers and replicas.
struct PageRow {
  std::vector<const SimulationSummary::Actor*> actors;  // the costliest first
  std::map<int, double> seconds;                        // a step, by stage
  double slack = std::numeric_limits<double>::infinity();
  double most() const {
    double most = 0;
    for (const auto& [stage, of_stage] : seconds) most = std::max(most, of_stage);
    return most;
  }
};

std::vector<PageRow> MakeRows(const SimulationSummary& summary) {
  std::map<std::pair<std::string, std::string>, PageRow> rows;
  for (const SimulationSummary::Actor& actor : summary.actors) {
    if (actor.seconds_a_step == 0) continue;
    PageRow& row = rows[{WithoutNumbers(actor.name), actor.kernel}];
    row.actors.push_back(&actor);
    row.seconds[actor.stage] += actor.seconds_a_step;
    row.slack = std::min(row.slack, actor.slack);
  }
  std::vector<PageRow> sorted;
  sorted.reserve(rows.size());
  for (auto& [name, row] : rows) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PageRow& a, const PageRow& b) { return a.most() > b.most(); });
  return sorted;
}

Json MemberJson(const SimulationSummary::Actor& actor) {
  return {{"name", actor.name},
          {"stage", actor.stage},
          {"firings", actor.firings},
          {"seconds", actor.seconds},
          {"seconds_a_step", actor.seconds_a_step},
          {"slack_seconds", actor.slack},
          {"bytes_moved", actor.bytes_moved},
          {"why", actor.why}};
}

Json RowJson(const PageRow& row) {
  const SimulationSummary::Actor& first = *row.actors[0];
  Json members = Json::array();
  double bytes = 0;
  int64_t fewest = first.firings, most = first.firings;
  double shortest = first.seconds, longest = first.seconds;
  for (const SimulationSummary::Actor* actor : row.actors) {
    if (members.size() < kMostMembers) members.push_back(MemberJson(*actor));
    bytes = std::max(bytes, actor->bytes_moved);
    fewest = std::min(fewest, actor->firings), most = std::max(most, actor->firings);
    shortest = std::min(shortest, actor->seconds), longest = std::max(longest, actor->seconds);
  }
  return {{"name", row.actors.size() == 1 ? first.name : WithoutNumbers(first.name)},
          {"kernel", first.kernel},
          {"boxing", first.boxing},
          {"actors", row.actors.size()},
          {"first_stage", row.seconds.begin()->first},
          {"last_stage", row.seconds.rbegin()->first},
          {"firings", Json::array({fewest, most})},
          {"seconds", Json::array({shortest, longest})},
          {"seconds_a_step", row.most()},
          {"slack_seconds", row.slack},
          {"bytes_moved", bytes},
          {"why", first.why},
          {"members", std::move(members)}};
}

Json VariablesJson(const proto::Plan& plan) {
  const std::vector<VariableLayouts> layouts = FindVariableLayouts(plan);
  return JsonList(GroupVariables(plan, layouts), [&](const VariableGroup& group) {
    Json row = VariableJson(plan, *group.variables[0]);
    row["name"] = group.name;
    row["variables"] = group.variables.size();
    row["text"] = {{"states", group.states},   {"gradients", group.gradient},
                   {"weights", group.weight},  {"gathered", group.gathered},
                   {"reduced", group.reduced}, {"host", group.host}};
    return row;
  });
}

std::string With(std::string_view page, std::string_view mark, std::string_view text) {
  const size_t at = page.find(mark);
  return std::string(page.substr(0, at)) + std::string(text) +
         std::string(page.substr(at + mark.size()));
}

}  // namespace

std::string PageJson(const proto::Plan& plan, const std::string& proof,
                     const SimulationSummary& summary, const Condensation& condensed,
                     const std::string& price, const PageFrame& frame) {
  Json rows = Json::array();
  size_t of_kind[2] = {0, 0};  // others, boxing
  for (const PageRow& row : MakeRows(summary)) {
    if (++of_kind[row.actors[0]->boxing ? 1 : 0] <= kMostRows) rows.push_back(RowJson(row));
  }
  const Json json = {{"title", PageTitle(plan, summary)},
                     {"head", PageHead(summary, frame.device)},
                     {"facts", PageFacts(plan, summary, proof, price)},
                     {"command", frame.origin.command},
                     {"recipe", frame.origin.recipe},
                     {"fingerprint", plan.fingerprint()},
                     {"condensed", {{"seconds", condensed.seconds}, {"blocks", condensed.blocks}}},
                     {"rows", std::move(rows)},
                     {"variables", VariablesJson(plan)}};
  return JsonText(json);
}

std::string ExplainPage(const proto::Plan& plan, const std::string& proof,
                        SimulationSummary summary, const std::string& price,
                        std::string_view live_script, const PageFrame& frame) {
  const Condensation condensed = Condense(&summary, kMostBlocks);
  // The JSON comes last: no mark is looked for in what the user has named.
  std::string page = With(
      kPage, "@LIVE@",
      live_script.empty() ? "" : absl::StrCat("<script>\n", ToAbsl(live_script), "</script>\n"));
  page = With(page, "@SCRIPT@", kScript);
  const size_t facts = page.find("@PLAN@");
  const std::string tail = page.substr(facts + 6);
  return page.substr(0, facts) + InScript(PageJson(plan, proof, summary, condensed, price, frame)) +
         With(tail, "@SIMULATION@", InScript(SummaryJson(summary)));
}

}  // namespace oneflow
