// The text of a PlanDiff: what a reader asks first comes first, a line for each thing that differs.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/base/wrap.h"
#include "oneflow_core/print/fold.h"
#include "oneflow_core/print/plan_diff.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

constexpr size_t kNames = 8;       // lines of actors that are in one plan only
constexpr size_t kWords = 6;       // of an order that is written out
constexpr size_t kWhat = 41;       // columns of what differs
constexpr size_t kLeastSide = 16;  // columns that each plan's value has at least

// The text, or its beginning with "..." behind it.
std::string Truncate(std::string_view text, size_t columns) {
  if (CountColumns(text) <= columns) return std::string(text);
  return std::string(text.substr(0, BytesOfColumns(text, columns - 3))) + "...";
}

bool IsShare(const PlanDiff::Number& number) { return number.what.starts_with("bubble"); }

std::string ValueText(const PlanDiff::Number& number, double value) {
  if (number.unit == "bytes") return SizeText(value);
  if (number.unit == "s") return TimeText(value);
  return IsShare(number) ? PercentText(value) : absl::StrFormat("%.6g", value);
}

std::string ChangeText(const PlanDiff::Number& number) {
  const std::string a = ValueText(number, number.a), b = ValueText(number, number.b);
  std::string text = absl::StrCat(a, " -> ", b);
  if (number.a == 0 || number.b == 0 || IsShare(number)) return text;
  return absl::StrFormat("%s (%+.1f %%)", text, 100 * (number.b / number.a - 1));
}

int CountStages(const PlanDiff::Stages& stages) {
  return stages.first < 0 ? 0 : stages.last - stages.first + 1;
}

// "stage 2", "stages 1 to 62", "stage 2 of 4 that differ"; nothing of what has no stage.
std::string StagesText(const PlanDiff::Stages& stages, int all) {
  if (stages.first < 0) return "";
  std::string text = stages.first == stages.last
                         ? absl::StrCat("stage ", stages.first)
                         : absl::StrCat("stages ", stages.first, " to ", stages.last);
  if (all > CountStages(stages)) absl::StrAppend(&text, " of ", all, " that differ");
  return text;
}

// Of alike things, which differ in their stages, the one that is shown.
template <typename Entry>
struct Alike {
  const Entry* shown = nullptr;
  int stages = 0;  // all that differ
};

// In the order of the first; `more` says that the first argument is to be shown, not the second.
template <typename Entry, typename Key, typename More>
std::vector<Alike<Entry>> JoinAlike(const std::vector<Entry>& entries, Key key, More more) {
  std::vector<Alike<Entry>> joined;
  for (const Entry& entry : entries) {
    const auto known = std::find_if(joined.begin(), joined.end(), [&](const Alike<Entry>& other) {
      return entry.stages.first >= 0 && key(*other.shown) == key(entry);
    });
    Alike<Entry>& alike = known == joined.end() ? joined.emplace_back() : *known;
    alike.stages += CountStages(entry.stages);
    if (alike.shown == nullptr || more(entry, *alike.shown)) alike.shown = &entry;
  }
  return joined;
}

std::string Line(const std::string& what, const std::string& text, const std::string& where) {
  const std::string name = Truncate(what, kWhat);
  const std::string blanks(kWhat - CountColumns(name) + 2, ' ');
  return absl::StrCat("  ", name, blanks, text, where.empty() ? "" : "  ", where, "\n");
}

// What is asked first comes first: the step, bytes of a device, then parts of the step and what is
// received; counts are told behind facts.
enum Rank { kStep, kMemory, kParts, kReceived, kCounts, kLeftOut };

// JSON alone counts actors by kind.
Rank FindRank(const PlanDiff::Number& number) {
  if (number.what.starts_with("actors, ")) return kLeftOut;
  if (number.unit == "bytes") return number.what.starts_with("received") ? kReceived : kMemory;
  if (number.unit == "s") return number.stages.first < 0 ? kStep : kParts;
  return IsShare(number) ? kStep : kCounts;
}

// Of the numbers of these ranks, a line for each thing: of its stages, that which changes most.
std::string NumberLines(const PlanDiff& diff, Rank first, Rank last) {
  std::string text;
  for (int rank = first; rank <= last; ++rank) {
    std::vector<PlanDiff::Number> numbers;
    std::copy_if(diff.numbers.begin(), diff.numbers.end(), std::back_inserter(numbers),
                 [rank](const PlanDiff::Number& number) { return FindRank(number) == rank; });
    const auto what = [](const PlanDiff::Number& number) { return number.what; };
    const auto more = [](const PlanDiff::Number& x, const PlanDiff::Number& y) {
      return std::abs(x.b - x.a) > std::abs(y.b - y.a);
    };
    for (const auto& [number, stages] : JoinAlike(numbers, what, more)) {
      // "time of a step on H100s", "bubble, part of a step": the first line names the cluster.
      const std::string name =
          rank == kStep ? (IsShare(*number) ? "bubble" : "time of a step") : number->what;
      text += Line(name, ChangeText(*number), StagesText(number->stages, stages));
    }
  }
  return text;
}

// A value of a fact. In an order of many single actors, those of equal layers are one:
// "h.*.fc.to1 (12)".
std::string FactText(const std::string& what, const std::string& order) {
  const std::vector<std::string> words = absl::StrSplit(order, ' ');
  const bool repeats = order.find('(') != std::string::npos;
  const bool listed = what.starts_with("order of ") && words.size() > kWords && !repeats;
  if (!listed) return order.empty() ? "none" : order;
  std::vector<std::string> lines = FoldedLines({words.begin(), words.end()});
  for (std::string& line : lines) {
    absl::StrReplaceAll({{"; ", " ("}, {" times", ")"}}, &line);
  }
  return absl::StrJoin(lines, " ");
}

// "order of issue" of each word at which two of them part, "order of send.*" of alike streams.
std::string KindOfFact(const PlanDiff::Fact& fact) {
  return WithoutNumbers(fact.what.substr(0, fact.what.find(", word ")));
}

// A line for each fact: of its stages, the first.
std::string FactLines(const PlanDiff& diff) {
  std::string text;
  const auto never = [](const auto&, const auto&) { return false; };
  for (const auto& [fact, stages] : JoinAlike(diff.facts, KindOfFact, never)) {
    const std::string where = StagesText(fact->stages, stages);
    const size_t taken = kWhat + 4 + std::string_view(" -> ").size() + where.size() + 2;
    const size_t side = std::max(kLeastSide, taken < kTextColumns ? (kTextColumns - taken) / 2 : 0);
    const std::string a = FactText(fact->what, fact->a), b = FactText(fact->what, fact->b);
    text += Line(fact->what, absl::StrCat(Truncate(a, side), " -> ", Truncate(b, side)), where);
  }
  return text;
}

std::string NamesText(const std::string& title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = absl::StrCat(title, ", ", names.size(), ":\n");
  const std::vector<std::string> lines = FoldedLines({names.begin(), names.end()});
  for (size_t i = 0; i < std::min(kNames, lines.size()); ++i) {
    absl::StrAppend(&text, "  ", Truncate(lines[i], kTextColumns - 2), "\n");
  }
  if (lines.size() > kNames) {
    absl::StrAppend(&text, "  ... ", lines.size() - kNames, " more lines; --format=json has all\n");
  }
  return text;
}

// What differs in stages that both plans have.
template <typename Entry>
std::vector<Entry> OfStages(std::vector<Entry> entries, int common) {
  std::erase_if(entries, [common](const Entry& e) { return e.stages.first >= common; });
  for (Entry& e : entries) e.stages.last = std::min(e.stages.last, common - 1);
  return entries;
}

}  // namespace

std::string DiffText(const PlanDiff& all, const std::string& first) {
  if (all.empty()) return "the plans are alike\n";
  PlanDiff diff = all;
  const auto [common, most] = std::minmax(diff.stages_a, diff.stages_b);
  std::string only_one;
  if (common < most) {
    diff.facts = OfStages(std::move(diff.facts), common);
    diff.numbers = OfStages(std::move(diff.numbers), common);
    only_one = Line(StagesText({common, most - 1}, 0),
                    diff.stages_a > diff.stages_b ? "only in the first" : "only in the second", "");
  }
  return absl::StrCat(first, NumberLines(diff, kStep, kMemory), only_one, FactLines(diff),
                      NumberLines(diff, kParts, kCounts),
                      NamesText("actors only in the first", diff.only_a),
                      NamesText("actors only in the second", diff.only_b));
}

}  // namespace oneflow
