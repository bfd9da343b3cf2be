#include "tools/oneflow/cli/flag_table.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/recipe/words.h"

namespace oneflow {
namespace {

using enum FlagGroup;
using namespace verbs;  // NOLINT: the rows read like a table

constexpr bool kCommon = false, kRare = true;

// As the source has it: 3e-4, not 0.00029999999999999997.
constexpr std::string_view DefaultText(std::string_view source, std::string_view sentence) {
  if (sentence.find("efault") != std::string_view::npos) return "";
  if (source.starts_with('"')) source = source.substr(1, source.size() - 2);
  return source;
}

constexpr FlagRow kRows[] = {
#define FLAG(type, name, value, verbs, group, rare, kind, sentence) \
  {#name, verbs, group, rare, kind, sentence, DefaultText(#value, sentence)},
#define FLAG_OF(verb, name, value, kind, sentence)
#include "tools/oneflow/cli/flag_table.inc"
#undef FLAG
#undef FLAG_OF
};

struct OfVerb {
  uint32_t verb;
  std::string_view name, default_text, value, sentence;
};

constexpr OfVerb kOfVerbs[] = {
#define FLAG(type, name, value, verbs, group, rare, kind, sentence)
#define FLAG_OF(verb, name, value, kind, sentence) \
  {verb, #name, DefaultText(value, sentence), kind, sentence},
#include "tools/oneflow/cli/flag_table.inc"
#undef FLAG
#undef FLAG_OF
};

constexpr std::string_view kVerbNames[] = {"model",     "compile", "explain",  "verify",   "run",
                                           "data",      "train",   "generate", "simulate", "diff",
                                           "calibrate", "devices", "submit",   "status",   "logs",
                                           "cancel",    "import",  "export",   "search",   "eval"};

// By verb and name, with what differs for the verb.
const std::map<std::pair<uint32_t, std::string_view>, FlagRow>& RowsOfVerbs() {
  static const auto* rows = [] {
    auto* all = new std::map<std::pair<uint32_t, std::string_view>, FlagRow>;
    for (const FlagRow& row : kRows) {
      for (uint32_t verb = 1; verb < kAll; verb <<= 1) {
        if (row.verbs & verb) all->emplace(std::pair(verb, row.name), row);
      }
    }
    for (const OfVerb& own : kOfVerbs) {
      FlagRow& row = all->at({own.verb, own.name});
      row.default_text = own.default_text;
      row.value = own.value;
      row.sentence = own.sentence;
    }
    return all;
  }();
  return *rows;
}

}  // namespace

std::string_view verbs::VerbName(uint32_t verb) {
  for (size_t i = 0; i < std::size(kVerbNames); ++i) {
    if (verb == 1U << i) return kVerbNames[i];
  }
  return "";
}

std::string_view GroupTitle(FlagGroup group) {
  switch (group) {
    case kModelGroup: return "model";
    case kParallelismGroup: return "parallelism";
    case kScheduleGroup: return "schedule";
    case kMemoryGroup: return "memory";
    case kOptimizerGroup: return "optimizer";
    case kSamplingGroup: return "sampling";
    case kSearchGroup: return "search";
    case kRunGroup: return "run";
    case kDataGroup: return "data and output";
    case kProcessesGroup: return "processes";
    case kJobGroup: return "job";
  }
  return "";
}

std::span<const FlagRow> FlagTable() { return kRows; }

const FlagRow* FindFlag(uint32_t verb, std::string_view name) {
  const auto row = RowsOfVerbs().find({verb, name});
  return row == RowsOfVerbs().end() ? nullptr : &row->second;
}

std::vector<std::string_view> FlagsOfVerb(uint32_t verb) {
  std::vector<std::string_view> names;
  for (const FlagRow& row : kRows) {
    if (row.verbs & verb) names.push_back(row.name);
  }
  return names;
}

bool HasProperty(std::string_view name, uint32_t property) {
  return std::any_of(std::begin(kRows), std::end(kRows), [&](const FlagRow& row) {
    return row.name == name && (row.verbs & property) != 0;
  });
}

absl::Status CheckValue(const FlagRow& row, const std::string& value) {
  return CheckWords(absl::StrCat("--", std::string(row.name), "=", value), row.value, value);
}

}  // namespace oneflow
