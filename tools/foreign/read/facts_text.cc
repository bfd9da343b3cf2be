#include "tools/foreign/read/facts_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"

namespace oneflow::foreign {
namespace {

constexpr size_t kColumns = 110;

// Words behind a title, in lines of kColumns.
std::string Paragraph(const std::string& title, const std::vector<std::string>& words) {
  std::string text, line = title;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (line.size() + 1 + word.size() > kColumns) {
      text += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return text + line + "\n";
}

std::string DegreesText(const Facts& facts) {
  const DegreeFacts& d = facts.degrees;
  std::vector<std::string> parts;
  const auto add = [&](const char* name, int64_t degree) {
    const bool decided =
        std::find(facts.undecided.begin(), facts.undecided.end(), name) == facts.undecided.end();
    if (decided) parts.push_back(absl::StrCat(name, " ", degree));
  };
  add("tensor", d.tensor);
  add("pipe", d.pipe);
  add("context", d.context);
  if (d.data) parts.push_back(absl::StrCat("data ", *d.data));
  if (d.expert > 1) parts.push_back(absl::StrCat("experts in ", d.expert));
  return absl::StrJoin(parts, ", ");
}

std::string ModelText(const ModelFacts& model) {
  if (!model.model) return "not said";
  const proto::Model& m = *model.model;
  std::string text = model.preset.empty() ? "" : model.preset + ", ";
  absl::StrAppend(&text, absl::StrFormat("%.2f billion parameters", model.parameters * 1e-9), ", ",
                  m.layers(), " blocks of ", m.hidden(), ", vocabulary ", DigitsText(m.vocab()));
  if (m.vocab() != model.vocab_given && model.vocab_given > 0) {
    absl::StrAppend(&text, " (", DigitsText(model.vocab_given), " ", model.vocab_rule, ")");
  }
  return text;
}

std::string BatchText(const Facts& facts) {
  const BatchFacts& b = facts.batch;
  if (!b.global) return "not said";
  std::string text = absl::StrCat(DigitsText(*b.global), " sequences");
  if (facts.sequence) absl::StrAppend(&text, " of ", DigitsText(*facts.sequence), " tokens");
  if (b.micro && b.micro_batches && facts.degrees.data) {
    absl::StrAppend(&text, " = ", *b.micro, " x ", *b.micro_batches, " micro-batches x data ",
                    *facts.degrees.data);
  }
  return text;
}

std::string ScheduleText(const ScheduleFacts& schedule) {
  std::string text = schedule.name;
  if (schedule.chunks > 1) absl::StrAppend(&text, ", ", schedule.chunks, " chunks a stage");
  const auto& blocks = schedule.stage_layers;
  if (blocks.empty()) return text;
  const bool even =
      std::all_of(blocks.begin(), blocks.end(), [&](int64_t b) { return b == blocks.front(); });
  return absl::StrCat(text, ", blocks ",
                      even ? absl::StrCat(blocks.front(), " a slice") : absl::StrJoin(blocks, ","));
}

std::string ShardingText(const ShardingFacts& sharding) {
  if (sharding.what == "none") return "none";
  std::string text = absl::StrCat(sharding.what, " over ", absl::StrJoin(sharding.over, " x "));
  if (sharding.ways) absl::StrAppend(&text, " in ", *sharding.ways);
  if (sharding.replicas > 1) absl::StrAppend(&text, ", ", sharding.replicas, " copies");
  if (!sharding.gather.empty()) absl::StrAppend(&text, ", gathered ", sharding.gather);
  return absl::StrCat(text, ", gradients reduced ", sharding.reduce);
}

std::string ValueWithName(const Setting& setting) {
  const std::string value = setting.ValueText();
  if (value.empty()) return setting.name;
  return absl::StrCat(setting.name, setting.name.starts_with("--") ? " " : "=", value);
}

}  // namespace

std::string FactsText(const Facts& facts) {
  std::string text = absl::StrCat("read as ", facts.system);
  for (const std::string& with : facts.together_with) absl::StrAppend(&text, " with ", with);
  absl::StrAppend(&text, " (", facts.form, ")\n");
  const std::string devices = facts.devices ? DigitsText(*facts.devices) : "not said";
  absl::StrAppend(&text, "  GPUs       ", devices,
                  facts.devices_from.empty() ? "" : " (" + facts.devices_from + ")", ": ",
                  DegreesText(facts), "\n");
  absl::StrAppend(&text, "  model      ", ModelText(facts.model), "\n");
  absl::StrAppend(&text, "  batch      ", BatchText(facts), "\n");
  absl::StrAppend(&text, "  schedule   ", ScheduleText(facts.schedule), "\n");
  absl::StrAppend(&text, "  split      ", ShardingText(facts.sharding),
                  facts.sequence_parallel ? "; positions over tensor" : "", "\n");
  absl::StrAppend(&text, "  recompute  ", facts.recompute.what,
                  facts.recompute.blocks.empty() ? "" : ", " + facts.recompute.blocks, "\n");
  absl::StrAppend(&text, "  precision  ", facts.precision.compute, "\n");
  for (const Difference& difference : facts.model.differences) {
    absl::StrAppend(&text, "  differs    ", difference.what, "\n");
  }
  for (const std::string& note : facts.model.notes) {
    absl::StrAppend(&text, "  left out   ", note, "\n");
  }
  return text;
}

std::string SettingsText(const Facts& facts) {
  std::string text;
  for (const List list :
       {List::kTaken, List::kDefault, List::kNoEffect, List::kNoEquivalent, List::kUnknown}) {
    std::vector<std::string> names;
    std::string lines;
    for (const Setting& setting : facts.settings) {
      if (setting.list != list) continue;
      names.push_back(setting.name);
      if (setting.note.empty()) continue;
      absl::StrAppend(&lines, "    ", ValueWithName(setting), ": ", setting.note, "\n");
    }
    if (names.empty()) continue;
    const std::string title =
        absl::StrCat("  ", std::string(ListText(list)), " (", names.size(), ")");
    const bool explained = list == List::kNoEquivalent;
    absl::StrAppend(&text, explained ? title + "\n" : Paragraph(title + ":", names), lines);
  }
  for (const std::string& unread : facts.unread) {
    absl::StrAppend(&text, "  not read: ", unread, "\n");
  }
  return text;
}

absl::Status CheckRules(const Facts& facts) {
  if (facts.broken.empty()) return absl::OkStatus();
  std::vector<std::string> lines;
  for (const BrokenRule& rule : facts.broken) {
    lines.push_back(absl::StrCat(rule.where.empty() ? facts.system : rule.where,
                                 ": breaks the rule \"", rule.rule, "\": ", rule.numbers, "; ",
                                 rule.hint, "\n  ", facts.system, " says: ", rule.theirs));
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

absl::Status CheckQuestions(const Facts& facts) {
  if (facts.questions.empty()) return absl::OkStatus();
  std::vector<std::string> what, flags;
  for (const Question& question : facts.questions) {
    what.push_back(question.what);
    flags.push_back(question.flag);
  }
  return InputError(facts.files.empty() ? "the command" : absl::StrJoin(facts.files, " "),
                    absl::StrCat("does not say ", absl::StrJoin(what, ", nor ")),
                    "add " + absl::StrJoin(flags, " "));
}

}  // namespace oneflow::foreign
