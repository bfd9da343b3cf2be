#include "planning/lock/compare_locks.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/table.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;
using Choices = PlanLock::Choices;

// A choice that a release does not know has what is its default in the next one.
std::string Said(const Choices& choices, const std::string& name) {
  const auto found = choices.find(name);
  if (found != choices.end()) return found->second;
  for (const std::span<const Row> rows : {RecipeRows(), OptimizerRows()}) {
    const Row* row = FindRow(rows, name);
    if (row != nullptr && !row->default_text.empty()) return std::string(row->default_text);
  }
  return "none";
}

template <typename Map>
std::set<std::string> NamesOfBoth(const Map& a, const Map& b) {
  std::set<std::string> names;
  for (const Map* side : {&a, &b}) {
    for (const auto& [name, value] : *side) names.insert(name);
  }
  return names;
}

// The part of a choice that moves bits. A value that this release cannot read counts as it stands.
std::string MovingPart(const Row& row, const Choices& choices) {
  const auto found = choices.find(std::string(row.name));
  if (found == choices.end() || row.moves == nullptr) return Said(choices, std::string(row.name));
  proto::Recipe recipe;
  for (const Row& other : RecipeRows()) {  // `moves` may read other fields beside its own
    const auto value = choices.find(std::string(other.name));
    if (value == choices.end() || (other.form != nullptr && other.form->is_file)) continue;
    if (!SetField(other, value->second, &recipe).ok() && &other == &row) return found->second;
  }
  return row.moves(recipe);
}

void CompareBits(const PlanLock& was, const PlanLock& now, LockChanges* changes) {
  using Kind = LockChanges::Bits;
  if (changes->graph) {
    changes->bits = Kind::kValues;
    return;
  }
  for (const std::span<const Row> rows : {RecipeRows(), OptimizerRows()}) {
    for (const Row& row : rows) {
      const bool moves = rows.data() == OptimizerRows().data() || row.bits != Bits::kNone;
      if (!moves || MovingPart(row, was.choices) == MovingPart(row, now.choices)) continue;
      const Kind kind = row.bits == Bits::kSums ? Kind::kSums : Kind::kValues;
      changes->bits = std::max(changes->bits, kind);
      changes->moving.emplace_back(row.name);
    }
  }
  // Choices that this release does not know.
  if (changes->bits == Kind::kSame && was.bits != now.bits) changes->bits = Kind::kValues;
}

// Adds numbers that differ, each held against its limit.
class NumberList {
 public:
  explicit NumberList(LockChanges* changes) : changes_(*changes) {}

  void Add(const std::string& what, const std::string& unit, double was, double now,
           const LockLimit* limit) {
    if (was == now) return;
    LockChanges::Number number{what, unit, was, now, limit == nullptr ? "" : limit->text};
    if (limit != nullptr) {
      // A limit of 10 % is not exceeded by roundings of 1.1.
      constexpr double kRoundings = 1 + 1e-12;
      number.above = now > std::max(was, (was * (1 + limit->share) + limit->most) * kRoundings);
    }
    changes_.numbers.push_back(std::move(number));
  }

  // The same of each stage; those that change alike, one after the other, are one.
  void AddStages(const std::string& what, const std::vector<int64_t>& was,
                 const std::vector<int64_t>& now, const LockLimit* limit) {
    const auto most = [](const std::vector<int64_t>& bytes) {
      return bytes.empty() ? 0.0
                           : static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
    };
    if (was.size() != now.size()) {
      Add(what + " of the largest stage", "bytes", most(was), most(now), limit);
      return;
    }
    for (size_t first = 0, next = 0; first < was.size(); first = next) {
      while (next < was.size() && was[next] == was[first] && now[next] == now[first]) ++next;
      const std::string stages = next == first + 1
                                     ? absl::StrCat(" of stage ", first)
                                     : absl::StrCat(" of stages ", first, " to ", next - 1);
      Add(what + stages, "bytes", static_cast<double>(was[first]), static_cast<double>(now[first]),
          limit);
    }
  }

 private:
  LockChanges& changes_;
};

const LockLimit* Get(const std::optional<LockLimit>& limit) { return limit ? &*limit : nullptr; }

void AddExchanges(const PlanLock& was, const PlanLock& now, const LockLimit* limit,
                  NumberList* numbers) {
  const auto bytes = [](const PlanLock& lock, const std::string& name) {
    const auto found = lock.exchanges.find(name);
    return found == lock.exchanges.end() ? 0.0 : static_cast<double>(found->second);
  };
  const std::set<std::string> names = NamesOfBoth(was.exchanges, now.exchanges);
  double all_was = 0, all_now = 0;
  for (const std::string& name : names) all_was += bytes(was, name), all_now += bytes(now, name);
  numbers->Add("exchanges", "bytes", all_was, all_now, limit);
  for (const std::string& name : names) {
    numbers->Add("exchanges, " + name, "bytes", bytes(was, name), bytes(now, name), nullptr);
  }
}

std::string GrowthText(const LockChanges::Number& number) {
  const bool alike = SizeText(number.was) == SizeText(number.now);
  const auto text = [&](double value) {
    if (number.unit != "bytes") return TimeText(value);
    return alike ? DigitsText(static_cast<int64_t>(value)) + " bytes" : SizeText(value);
  };
  std::string change = absl::StrCat(text(number.was), " -> ", text(number.now));
  if (number.was != 0 && number.now != 0) {
    absl::StrAppendFormat(&change, " (%+.3g %%)", 100 * (number.now / number.was - 1));
  }
  return change;
}

std::string CostsText(const LockChanges& changes) {
  if (!changes.version && !changes.rates) return "the same";
  const auto& [was, now] = std::pair(changes.costs_was, changes.costs_now);
  std::vector<std::string> parts;
  if (changes.version) {
    parts.push_back(absl::StrCat("ours changed, version ", was.version, " -> ", now.version));
  }
  if (changes.rates) {
    parts.push_back(was.cluster == now.cluster ? absl::StrCat("rates of ", was.cluster, " changed")
                                               : absl::StrCat("rates of another cluster, ",
                                                              was.cluster, " -> ", now.cluster));
  }
  return absl::StrCat(absl::StrJoin(parts, "; "),
                      changes.step_held
                          ? ""
                          : ": the step is not held against the lock's; to hold it, lock the old "
                            "recipe with these costs first");
}

std::string LetterText(const LockChanges& changes) {
  if (changes.bits == LockChanges::Bits::kSame) {
    return changes.version || changes.rates ? "the same, A, if costs choose the same layouts"
                                            : "the same, A";
  }
  const std::string why =
      changes.moving.empty() ? "" : absl::StrCat(" (", absl::StrJoin(changes.moving, ", "), ")");
  return changes.bits == LockChanges::Bits::kSums
             ? absl::StrCat("A -> B, within rounding: sums are made in another order", why)
             : absl::StrCat("A -> B: other numbers are computed", why);
}

Json CostsJson(const PlanLock::Costs& costs) {
  return {
      {"version", costs.version}, {"cluster", costs.cluster}, {"fingerprint", costs.fingerprint}};
}

}  // namespace

LockChanges CompareLocks(const PlanLock& was, const PlanLock& now, const LockLimits& limits) {
  LockChanges changes{.graph = was.graph != now.graph,
                      .version = was.costs.version != now.costs.version,
                      .rates = was.costs.fingerprint != now.costs.fingerprint,
                      .costs_was = was.costs,
                      .costs_now = now.costs};
  for (const std::string& name : NamesOfBoth(was.choices, now.choices)) {
    const std::string a = Said(was.choices, name), b = Said(now.choices, name);
    if (a != b) changes.choices.push_back({name, a, b});
  }
  if (was.imbalance != now.imbalance) {
    changes.choices.push_back({"imbalance", ExactText(was.imbalance), ExactText(now.imbalance)});
  }
  CompareBits(was, now, &changes);
  NumberList numbers(&changes);
  numbers.AddStages("bytes", was.bytes, now.bytes, Get(limits.bytes));
  numbers.AddStages("bytes of the host", was.host_bytes, now.host_bytes, Get(limits.bytes));
  changes.step_held = limits.step && !changes.version && !changes.rates;
  if (was.step_seconds && now.step_seconds) {
    numbers.Add("step", "s", *was.step_seconds, *now.step_seconds,
                changes.step_held ? Get(limits.step) : nullptr);
  }
  AddExchanges(was, now, Get(limits.exchanges), &numbers);
  for (const LockChanges::Number& number : changes.numbers) {
    if (!number.above) continue;
    changes.above.push_back(
        absl::StrCat(number.what, ": ", GrowthText(number), ", above ", number.limit));
  }
  return changes;
}

Report LockChangesReport(const LockChanges& changes) {
  const bool same_costs = !changes.version && !changes.rates;
  Json why = Json(changes.moving);
  if (changes.graph) why = Json::array({"graph"});
  Report report{
      .json = {{"graph", changes.graph ? "changed" : "same"},
               {"choices", JsonList(changes.choices,
                                    [](const LockChanges::Choice& c) -> Json {
                                      return {{"name", c.name}, {"was", c.was}, {"now", c.now}};
                                    })},
               {"bits",
                {{"letter", changes.bits == LockChanges::Bits::kSame ? "A" : "B"}, {"why", why}}},
               {"costs",
                {{"same", same_costs},
                 {"was", CostsJson(changes.costs_was)},
                 {"now", CostsJson(changes.costs_now)}}},
               {"step_held", changes.step_held},
               {"numbers", JsonList(changes.numbers,
                                    [](const LockChanges::Number& n) -> Json {
                                      return {{"what", n.what},   {"unit", n.unit},
                                              {"was", n.was},     {"now", n.now},
                                              {"limit", n.limit}, {"above", n.above}};
                                    })},
               {"above", changes.above}}};
  if (changes.empty()) {
    report.text = "the plan is as locked\n";
    return report;
  }
  std::vector<std::vector<std::string>> rows = {{"graph", changes.graph ? "changed" : "the same"}};
  rows.push_back({"recipe", changes.choices.empty() ? "the same" : "changed"});
  for (const auto& [name, was, now] : changes.choices) {
    rows.push_back({"  " + name, absl::StrCat(was, " -> ", now)});
  }
  rows.push_back({"bits", LetterText(changes)});
  rows.push_back({"costs", CostsText(changes)});
  for (const LockChanges::Number& number : changes.numbers) {
    rows.push_back({number.what, GrowthText(number) +
                                     (number.above ? ", above " + number.limit : std::string())});
  }
  report.text = TableText(rows, std::vector<Column>(2));
  return report;
}

}  // namespace oneflow
