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

// The default that the help adds to the sentence.
constexpr std::string_view DefaultText(std::string_view text, std::string_view sentence) {
  return sentence.find("efault") == std::string_view::npos ? text : "";
}

// The text as the source has it: 3e-4, not 0.00029999999999999997.
constexpr std::string_view SourceText(std::string_view source) {
  return source.starts_with('"') ? source.substr(1, source.size() - 2) : source;
}

constexpr FlagRow kOwn[] = {
#define FLAG(type, name, value, verbs, group, rare, kind, sentence) \
  {#name, verbs, group, rare, kind, sentence, DefaultText(SourceText(#value), sentence)},
#define FLAG_OF(verb, name, value, kind, sentence)
#define TAKES(verbs, name)
#include "tools/oneflow/cli/flag_table.inc"
#undef FLAG
#undef FLAG_OF
#undef TAKES
};

struct OfVerb {
  uint32_t verb;
  std::string_view name, default_text, value, sentence;
};

constexpr OfVerb kOfVerbs[] = {
#define FLAG(type, name, value, verbs, group, rare, kind, sentence)
#define FLAG_OF(verb, name, value, kind, sentence) \
  {verb, #name, DefaultText(value, sentence), kind, sentence},
#define TAKES(verbs, name)
#include "tools/oneflow/cli/flag_table.inc"
#undef FLAG
#undef FLAG_OF
#undef TAKES
};

constexpr std::pair<std::string_view, uint32_t> kTaken[] = {
#define FLAG(type, name, value, verbs, group, rare, kind, sentence)
#define FLAG_OF(verb, name, value, kind, sentence) {#name, verb},
#define TAKES(verbs, name) {#name, verbs},
#include "tools/oneflow/cli/flag_table.inc"
#undef FLAG
#undef FLAG_OF
#undef TAKES
};

uint32_t RecipeVerbs(const Row& row) {
  return kWithPlan | kRecipe | (row.is_limit ? 0 : kFixedByPlan) |
         (row.searched == Searched::kGiven ? kSearch | kFit : 0);
}

// A job says its processes and where it writes (RunOfJob).
uint32_t RunVerbs(const Row& row) {
  constexpr std::string_view kOfJob[] = {"resume", "metrics", "checkpoint_dir", "processes"};
  const bool of_job = std::find(std::begin(kOfJob), std::end(kOfJob), row.name) != std::end(kOfJob);
  return of_job ? kTrain : kTrain | kSubmit;
}

std::vector<FlagRow> MakeTable() {
  std::vector<FlagRow> table;
  const auto add = [&](std::span<const Row> rows, uint32_t (*verbs)(const Row&),
                       const google::protobuf::Message& message) {
    for (const Row& row : rows) {
      if (!row.is_flag) continue;
      table.push_back({row.name, verbs(row), row.group, row.rare, row.value, row.sentence,
                       DefaultText(row.default_text, row.sentence), &row, &message});
    }
  };
  const auto of_model = [](const Row&) { return kModel; };
  const auto of_optimizer = [](const Row&) { return kOptimized | kRecipe; };
  add(ModelRows(), of_model, proto::Model::default_instance());
  add(RecipeRows(), RecipeVerbs, proto::Recipe::default_instance());
  add(OptimizerRows(), of_optimizer, proto::Optimizer::default_instance());
  add(RunRows(), RunVerbs, proto::Run::default_instance());
  for (const auto& [name, verbs] : kTaken) {
    for (FlagRow& row : table) row.verbs |= row.name == name ? verbs : 0;
  }
  table.insert(table.end(), std::begin(kOwn), std::end(kOwn));
  std::stable_sort(table.begin(), table.end(),
                   [](const FlagRow& a, const FlagRow& b) { return a.group < b.group; });
  return table;
}

constexpr std::string_view kVerbNames[] = {
    "model",    "compile", "explain",   "verify",  "run",    "data",    "train", "generate",
    "simulate", "diff",    "calibrate", "devices", "submit", "status",  "logs",  "cancel",
    "import",   "export",  "search",    "eval",    "recipe", "cluster", "fit",   "completion"};

// By verb and name, with what differs for the verb.
const std::map<std::pair<uint32_t, std::string_view>, FlagRow>& RowsOfVerbs() {
  static const auto* rows = [] {
    auto* all = new std::map<std::pair<uint32_t, std::string_view>, FlagRow>;
    for (const FlagRow& row : FlagTable()) {
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

std::span<const FlagRow> FlagTable() {
  static const auto* table = new std::vector<FlagRow>(MakeTable());
  return *table;
}

const FlagRow* FindFlag(uint32_t verb, std::string_view name) {
  const auto row = RowsOfVerbs().find({verb, name});
  return row == RowsOfVerbs().end() ? nullptr : &row->second;
}

std::vector<std::string_view> FlagsOfVerb(uint32_t verb) {
  std::vector<std::string_view> names;
  for (const FlagRow& row : FlagTable()) {
    if (row.verbs & verb) names.push_back(row.name);
  }
  return names;
}

bool HasProperty(std::string_view name, uint32_t property) {
  return std::any_of(FlagTable().begin(), FlagTable().end(), [&](const FlagRow& row) {
    return row.name == name && (row.verbs & property) != 0;
  });
}

absl::Status CheckValue(const FlagRow& row, const std::string& value) {
  return CheckWords(absl::StrCat("--", std::string(row.name), "=", value), row.value, value);
}

}  // namespace oneflow
