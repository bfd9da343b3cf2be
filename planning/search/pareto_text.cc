#include "planning/search/pareto_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/time_text.h"

namespace oneflow {
namespace {

// By ParetoAxis.
constexpr const char* kNames[] = {"bytes_a_device", "devices", "cost_of_1e9_tokens"};
constexpr const char* kTitles[] = {"bytes of a device", "devices", "cost of 10^9 tokens"};

std::string CapacityText(int64_t capacity) {
  return capacity == 0 ? "without a limit" : ShortBytesText(capacity);
}

std::string SearchText(const ParetoSearch& search) {
  std::string text =
      absl::StrCat(DigitsText(search.devices), " devices, ", CapacityText(search.capacity), ": ");
  if (!search.none.empty()) return text + search.none + "\n";
  if (search.gap) {
    absl::StrAppend(&text, "no plan is more than ", PercentText(*search.gap), " faster");
  } else {
    text += "nothing is known of the plans that were not tried";
  }
  return text + (search.complete ? "\n" : "; its time ended\n");
}

}  // namespace

std::string PointFlags(const ResultFrame& frame, const ParetoPoint& point) {
  std::string flags = frame.given_flags;
  if (point.capacity > 0) absl::StrAppend(&flags, " --memory=", point.capacity + frame.kept);
  absl::StrAppend(&flags, " ", PlanFlags(point.plan));
  return flags;
}

std::string AxisTitle(ParetoAxis axis) { return kTitles[static_cast<int>(axis)]; }

Report DescribeFront(const ResultFrame& frame, const ParetoResult& result) {
  using Json = nlohmann::ordered_json;
  const bool priced =
      std::ranges::any_of(result.points, [](const ParetoPoint& point) { return point.cost > 0; });
  std::vector<FoundPlan> all;
  std::vector<PlanRow> front;
  std::vector<std::string> titles = {"devices"};
  if (priced) titles.emplace_back("cost");
  for (const ParetoPoint& point : result.points) {
    all.push_back(point.plan);
    if (!point.on_front) continue;
    front.push_back({{DigitsText(point.devices)}, &point.plan, {PointFlags(frame, point)}});
    if (priced) front.back().first.push_back(absl::StrFormat("%.2f", point.cost));
  }
  std::string text = absl::StrCat(
      frame.model, " on ", frame.cluster, ": plans that are best by time of a step and ",
      AxisTitle(result.axis), "\n", frame.space, "\n", PlanTable(titles, front),
      "\nunder each plan stand the flags of `oneflow compile` that make it\n",
      priced ? "cost: of 10^9 tokens, in the unit of --price_per_device_hour\n" : "",
      BandLines(front), MfuLines(front), PriceLines(front), "by the simulator's times, on\n");
  for (const ParetoSearch& search : result.searches) text += "  " + SearchText(search);
  Json json = {{"model", frame.model},
               {"cluster", frame.cluster},
               {"axis", kNames[static_cast<int>(result.axis)]},
               {"given", frame.given_flags},
               {"space", frame.space},
               {"seconds", result.seconds}};
  const std::vector<std::string> bits = GroupByBits(all);
  for (size_t i = 0; i < all.size(); ++i) {
    const ParetoPoint& point = result.points[i];
    Json member = {{"devices", point.devices}, {"memory", point.capacity}};
    if (point.cost > 0) member["cost_of_1e9_tokens"] = point.cost;
    member["on_front"] = point.on_front;
    member.update(FoundPlanJson(point.plan, bits[i], PointFlags(frame, point)));
    json["points"].push_back(std::move(member));
  }
  json["searches"] = JsonList(result.searches, [](const ParetoSearch& search) {
    Json member = {{"devices", search.devices},
                   {"memory", search.capacity},
                   {"complete", search.complete},
                   {"gap", nullptr}};
    if (search.gap) member["gap"] = *search.gap;
    if (!search.none.empty()) member["none"] = search.none;
    return member;
  });
  return {std::move(text), std::move(json)};
}

}  // namespace oneflow
