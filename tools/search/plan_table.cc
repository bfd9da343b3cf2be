#include "tools/search/plan_table.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/time_text.h"

namespace oneflow {
namespace {

// "A", ..., "Z", "AA", ...
std::string Letter(size_t n) {
  std::string text(1, static_cast<char>('A' + n % 26));
  return n < 26 ? text : Letter(n / 26 - 1) + text;
}

std::string ScheduleText(const PlanFamily& family) {
  if (family.chunks <= 1) return family.schedule;
  return absl::StrCat(family.schedule, " x", family.chunks);
}

std::string WordOr(const std::string& word, const char* otherwise) {
  return word.empty() ? otherwise : word;
}

using Row = std::vector<std::string>;

// Of small models, whose plans take less than a GiB, in MiB.
struct Unit {
  const char* name;
  double bytes;
};
Unit FindUnit(const std::vector<FoundPlan>& found) {
  int64_t most = 0;
  for (const FoundPlan& plan : found) most = std::max(most, plan.bytes);
  return most < (1 << 30) ? Unit{"MiB", 1 << 20} : Unit{"GiB", 1 << 30};
}

Row MakeRow(const FoundPlan& plan, const std::string& bits, const Unit& unit) {
  const PlanFamily& family = plan.candidate.family;
  return {TimeText(plan.step_seconds),
          DigitsText(static_cast<int64_t>(plan.tokens_a_second)),
          plan.mfu ? PercentText(*plan.mfu) : "-",
          absl::StrFormat("%.2f", static_cast<double>(plan.bytes) / unit.bytes),
          PercentText(plan.bubble),
          TimeText(plan.exposed_exchange),
          bits,
          ToString(family.mesh) + (family.split_positions ? " seq" : ""),
          absl::StrCat(family.micro_batches),
          ScheduleText(family),
          WordOr(plan.candidate.blocks.recompute, "none"),
          ToString(family.shard),
          ToString(family.offload)};
}

Row MakeTitles(const Unit& unit) {
  return {"step", "tokens/s",      "MFU",      unit.name,   "bubble", "exposed", "bits",
          "mesh", "micro-batches", "schedule", "recompute", "shard",  "offload"};
}
constexpr size_t kNumbers = 6;  // first columns, of numbers, which end at the same column

// A column that says the same in all rows stays: it answers what was chosen.
std::vector<std::string> AlignRows(const std::vector<Row>& rows, size_t numbers) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      const std::string gap = i == 0 ? "" : "  ";
      absl::StrAppend(&line, gap, i < numbers ? blanks + row[i] : row[i] + blanks);
    }
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1) + "\n");
  }
  return lines;
}

}  // namespace

std::string DigitsText(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string ShortBytesText(int64_t bytes) {
  const char* const units[] = {"KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit < 2; ++unit) value /= 1024;
  return absl::StrFormat("%.2f %s", value, units[unit]);
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

std::string PlanTable(const std::vector<FoundPlan>& found, const std::vector<TableColumn>& first,
                      const std::vector<std::string>& flags) {
  const Unit unit = FindUnit(found);
  const std::vector<std::string> bits = GroupByBits(found);
  std::vector<Row> rows = {MakeTitles(unit)};
  for (size_t i = 0; i < found.size(); ++i) rows.push_back(MakeRow(found[i], bits[i], unit));
  for (size_t c = 0; c < first.size(); ++c) {
    const auto at = static_cast<std::ptrdiff_t>(c);
    rows[0].insert(rows[0].begin() + at, first[c].title);
    for (size_t i = 0; i < found.size(); ++i) {
      rows[i + 1].insert(rows[i + 1].begin() + at, first[c].cells[i]);
    }
  }
  const std::vector<std::string> lines = AlignRows(rows, first.size() + kNumbers);
  std::string text = lines[0];
  for (size_t i = 0; i < found.size(); ++i) {
    absl::StrAppend(&text, lines[i + 1], "    ", flags[i], "\n");
    const std::string& why = found[i].why_above_all;
    if (!why.empty()) absl::StrAppend(&text, "    MFU ", why, "\n");
  }
  return text;
}

nlohmann::ordered_json FoundPlanJson(const FoundPlan& plan, const std::string& bits,
                                     const std::string& flags) {
  const PlanFamily& family = plan.candidate.family;
  nlohmann::ordered_json json = {{"mesh", ToString(family.mesh)},
                                 {"micro_batches", family.micro_batches},
                                 {"schedule", family.schedule},
                                 {"chunks", family.chunks},
                                 {"sequence_parallel", family.split_positions},
                                 {"shard", ToString(family.shard)},
                                 {"offload", ToString(family.offload)},
                                 {"recompute", WordOr(plan.candidate.blocks.recompute, "none")},
                                 {"stage_layers", plan.candidate.blocks.stage_layers},
                                 {"step_seconds", plan.step_seconds},
                                 {"bytes_a_device", plan.bytes},
                                 {"host_bytes_a_device", plan.host_bytes},
                                 {"tokens_a_second", plan.tokens_a_second},
                                 {"mfu", nullptr},
                                 {"bubble", plan.bubble},
                                 {"exposed_exchange_seconds", plan.exposed_exchange},
                                 {"bits", bits},
                                 {"flags", flags}};
  if (plan.mfu) json["mfu"] = *plan.mfu;
  if (!plan.why_above_all.empty()) json["why_above_all"] = plan.why_above_all;
  return json;
}

}  // namespace oneflow
