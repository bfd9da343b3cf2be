#include "tools/oneflow/cli/verb.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/foreign_names.h"
#include "tools/oneflow/cli/flag_value.h"
#include "tools/oneflow/cli/stray_word.h"

namespace oneflow {
namespace {

constexpr std::string_view kMayRepeat[] = {"feed",          "fetch", "stop",
                                           "sbatch_option", "fix",   "compare"};

bool MayRepeat(std::string_view flag) {
  return std::find(std::begin(kMayRepeat), std::end(kMayRepeat), flag) != std::end(kMayRepeat);
}

std::string SeeHelp(const Verb& verb) {
  return absl::StrCat("see `oneflow ", std::string(verb.name()), " --help`");
}

// "compile, train, submit".
std::string VerbsWith(std::string_view flag) {
  std::string list;
  for (const FlagRow& row : FlagTable()) {
    if (row.name != flag) continue;
    for (uint32_t verb = 1; verb < verbs::kAll; verb <<= 1) {
      if (row.verbs & verb)
        absl::StrAppend(&list, list.empty() ? "" : ", ", ToAbsl(verbs::VerbName(verb)));
    }
  }
  return list;
}

// The flag that a mistyped one may be, also by another program's name of it; "" where none is near.
std::string NearestFlag(const Verb& verb, std::string_view name) {
  const std::vector<std::string_view> own = FlagsOfVerb(verb.id);
  std::vector<std::string> known(own.begin(), own.end());
  for (std::string& foreign : ForeignNames()) {
    if (FindFlag(verb.id, FlagMeantBy(foreign)) != nullptr) known.push_back(std::move(foreign));
  }
  const std::string best = Nearest(name, known);
  const std::string_view meant = FlagMeantBy(best);
  return meant.empty() || FindFlag(verb.id, best) != nullptr ? best : std::string(meant);
}

// Advice for a flag that search chooses, or does not take; "" for others.
std::string AdviceOnSearched(std::string_view flag) {
  if (flag == "sync_every") {
    return "write in --batch the sequences of all steps that share an update";
  }
  const Row* row = FindRow(RecipeRows(), flag);
  if (row == nullptr || row->searched == Searched::kGiven) return "";
  if (row->searched == Searched::kNever) return std::string(row->advice);
  return "it is chosen; to fix it write --fix=" + std::string(flag) + "=VALUE";
}

// Why the verb does not take a flag, and what to write instead.
absl::Status NoSuchFlag(const Verb& verb, const std::string& name) {
  const std::string who = absl::StrCat("`oneflow ", std::string(verb.name()), "`");
  const std::string meant(FlagMeantBy(name));
  const std::string ours = meant.empty() ? name : meant;
  if (const std::string advice = AdviceOnSearched(ours);
      (verb.id == verbs::kSearch || verb.id == verbs::kFit) && !advice.empty()) {
    return InputError("--" + ours, "is not given to " + who, advice);
  }
  if (const std::string list = VerbsWith(ours); !list.empty()) {
    const std::string which = meant.empty() ? "it is" : "it may mean --" + meant + ", which is";
    return InputError("--" + name, who + " has no such flag",
                      absl::StrCat(which, " a flag of ", list, "; ", SeeHelp(verb)));
  }
  if (const std::string_view advice = AdviceOn(name); !advice.empty()) {
    return InputError("--" + name, "is not a flag of oneflow", advice);
  }
  const std::string positive = name.substr(std::min(name.size(), name.find_first_not_of('_', 2)));
  const FlagRow* turned = name.starts_with("no") ? FindFlag(verb.id, positive) : nullptr;
  const std::string best = NearestFlag(verb, name);
  const std::string hint = turned != nullptr ? "write --" + positive + "=false; "
                           : best.empty()    ? ""
                                             : "did you mean --" + best + "? ";
  return InputError("--" + name, who + " has no such flag", hint + SeeHelp(verb));
}

// The flag of ours that a word means: "learning_rate" of "lr", of "learning-rate" and of
// "optimizer.lr".
std::string FlagOfWord(const Verb& verb, std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  const std::string last = name.substr(name.rfind('.') + 1);
  if (FindFlag(verb.id, last) != nullptr) return last;
  const std::string meant(FlagMeantBy(last));
  return FindFlag(verb.id, meant) != nullptr ? meant : name;
}

// True of "--graph=x", where the verb takes it: then it is not the value of the flag before it.
bool IsFlag(const Verb& verb, std::string_view word) {
  if (!word.starts_with("--")) return false;
  return FindFlag(verb.id, FlagOfWord(verb, std::string(word.substr(2, word.find('=') - 2)))) !=
         nullptr;
}

bool ReadsItself(const Verb& verb, const std::string& name) {
  return verb.own_values.find(" " + name + " ") != std::string_view::npos;
}

absl::Status CheckOnce(const Arguments& args, const std::string& name, const std::string& word) {
  if (MayRepeat(name) || !args.Given(name)) return absl::OkStatus();
  return InputError(
      word,
      absl::StrCat("is given twice: --", name, "=", args.Repeated(name)[0], " stands before it"),
      "give it once");
}

}  // namespace

std::vector<std::string> CommaSeparated(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  bool goes_on = false;
  for (std::string part; std::getline(stream, part, ',');) {
    if (goes_on) {
      parts.back().back() = ',';
      parts.back() += part;
    } else {
      parts.push_back(part);
    }
    goes_on = part.ends_with('\\') && !stream.eof();
  }
  if (goes_on) parts.back().back() = ',';
  return parts;
}

std::string JoinCommas(const std::vector<std::string>& parts) {
  std::string list;
  for (const std::string& part : parts) {
    absl::StrAppend(&list, list.empty() ? "" : ",", absl::StrReplaceAll(part, {{",", "\\,"}}));
  }
  return list;
}

absl::StatusOr<std::vector<std::string>> FilesOfFlag(const std::string& flag,
                                                     const std::string& list) {
  std::vector<std::string> files = CommaSeparated(list);
  const bool comma =
      list.ends_with(',') && !list.ends_with("\\,");  // CommaSeparated passes it over
  if (!comma && std::find(files.begin(), files.end(), "") == files.end()) return files;
  return InputError(
      "--" + flag + "=" + list, "names a file without a name",
      "write file names with a comma between two, and \"\\\\,\" for one within a name");
}

std::string Arguments::First(std::string_view flag) const {
  const std::vector<std::string> values = Repeated(flag);
  return values.empty() ? "" : values.front();
}

std::vector<std::string> Arguments::Repeated(std::string_view flag) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : flags) {
    if (name == flag) values.push_back(value);
  }
  return values;
}

bool Arguments::Given(std::string_view flag) const { return !Repeated(flag).empty(); }

absl::StatusOr<Arguments> ParseArguments(const Verb& verb, const std::vector<std::string>& argv) {
  Arguments args;
  std::string switch_before;  // a switch that stands alone, just before the word
  for (size_t i = 0; i < argv.size(); ++i) {
    std::string_view text = argv[i];
    if (text == "--" && verb.takes_rest) {
      args.rest.assign(argv.begin() + static_cast<ptrdiff_t>(i) + 1, argv.end());
      if (!args.rest.empty()) break;
      return InputError("--", "has no words behind it",
                        "write the command line that is asked about, as -- torchrun ...");
    }
    if (!text.starts_with("--")) {
      if (verb.words.empty() || text.starts_with('-')) {
        return StrayWord(verb, argv[i], switch_before);
      }
      args.positional.emplace_back(text);
      continue;
    }
    text.remove_prefix(2);
    const size_t equals = text.find('=');
    const std::string word(text.substr(0, equals));
    std::string name = FlagOfWord(verb, word);
    const FlagRow* row = FindFlag(verb.id, name);
    if (row == nullptr) return NoSuchFlag(verb, name);
    const bool alone = equals == std::string_view::npos && MayStandAlone(*row);
    switch_before = alone ? name : "";
    std::string value;
    if (equals != std::string_view::npos) {
      value = text.substr(equals + 1);
    } else if (alone) {
      value = "true";
    } else if (i + 1 < argv.size() && !(IsFlag(verb, argv[i + 1]) && !MayRepeat(name))) {
      value = argv[++i];
    } else {
      return InputError("--" + name, "has no value", "write --" + name + "=VALUE");
    }
    RETURN_IF_ERROR(CheckOnce(args, name, absl::StrCat("--", word, "=", value)));
    // An unset variable of the shell's must not turn off what the flag asks for. No axes are a
    // mesh.
    if (value.empty() && name != "prompt" && name != "mesh") {
      return InputError("--" + name + "=", "is empty", "give it a value, or leave it out");
    }
    if (!ReadsItself(verb, name)) RETURN_IF_ERROR(SetFlag(*row, value));
    args.flags.emplace_back(std::move(name), std::move(value));
  }
  return args;
}

}  // namespace oneflow
