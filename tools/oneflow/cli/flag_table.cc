#include "tools/oneflow/cli/flag_table.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using enum FlagGroup;
using namespace verbs;  // NOLINT: the rows read like a table

constexpr bool kCommon = false, kRare = true;

// In `value` of a row: a word of a list may have numbers behind a colon, which are not read here.
constexpr std::string_view kCounts = "[:COUNTS]";

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

// "zb" of "zero_bubble", "i" of nothing: the first letters of two words or more.
std::string Initials(std::string_view words) {
  std::string initials;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i == 0 || words[i - 1] == '_') initials += words[i];
  }
  return initials.size() > 1 ? initials : "";
}

// Names of values in other programs.
constexpr std::pair<std::string_view, std::string_view> kForeignValues[] = {
    {"gpu", "cuda"},      {"fp32", "f32"},     {"float32", "f32"},
    {"bfloat16", "bf16"}, {"flash", "fused"},  {"virtual", "interleaved"},
    {"block", "full"},    {"uniform", "full"}, {"k8s", "kubernetes"},
    {"llm.c", "llmc"},
};

// The choice that a value stands for: in other letters, with more or fewer of them, or as initials.
std::string NearestChoice(const std::string& value, const std::vector<std::string>& choices) {
  std::string plain = absl::AsciiStrToLower(value);
  std::replace(plain.begin(), plain.end(), '-', '_');
  for (const auto& [foreign, choice] : kForeignValues) {
    const bool known = std::find(choices.begin(), choices.end(), choice) != choices.end();
    if (plain == foreign && known) return std::string(choice);
  }
  for (const std::string& choice : choices) {
    const std::string initials = Initials(choice);
    const bool short_form = plain.size() >= 3 && choice.starts_with(plain);
    if (choice == plain || short_form || (!initials.empty() && plain.starts_with(initials))) {
      return choice;
    }
  }
  for (const std::string& choice : choices) {
    if (choice.size() >= 3 && plain.starts_with(choice)) return choice;
  }
  return Nearest(plain, choices);
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

std::vector<std::string> ListChoices(const FlagRow& row) {
  const bool words = row.value.find('|') != std::string_view::npos && !row.value.empty() &&
                     !absl::ascii_isupper(row.value[0]);
  if (!words) return {};
  std::string list(row.value);
  const size_t counts = list.find(kCounts);
  if (counts != std::string::npos) list.erase(counts, kCounts.size());
  const size_t more = list.find("[,");
  if (more != std::string::npos) list = list.substr(0, more) + "|" + list.substr(more + 2);
  if (list.ends_with(']')) list.pop_back();
  return absl::StrSplit(list, '|');
}

std::string OrList(const std::vector<std::string>& words) {
  if (words.size() < 2) return absl::StrJoin(words, "");
  const std::vector<std::string> all_but_last(words.begin(), words.end() - 1);
  return absl::StrCat(absl::StrJoin(all_but_last, ", "), " or ", words.back());
}

absl::Status CheckValue(const FlagRow& row, const std::string& value) {
  const std::vector<std::string> choices = ListChoices(row);
  if (choices.empty()) return absl::OkStatus();
  const bool list = row.value.find('[') != std::string_view::npos;
  const std::vector<std::string> words =
      list ? std::vector<std::string>(absl::StrSplit(value, ',')) : std::vector<std::string>{value};
  const bool counted = row.value.find(kCounts) != std::string_view::npos;
  for (const std::string& word : words) {
    const std::string choice = counted ? word.substr(0, word.find(':')) : word;
    if (std::find(choices.begin(), choices.end(), choice) != choices.end()) continue;
    const std::string nearest = choice.empty() ? "" : NearestChoice(choice, choices);
    return InputError(absl::StrCat("--", std::string(row.name), "=", value),
                      list ? absl::StrCat("\"", word, "\" is not known") : "is not known",
                      absl::StrCat(nearest.empty() ? "" : "did you mean " + nearest + "? ", "use ",
                                   OrList(choices)));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
