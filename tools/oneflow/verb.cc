#include "tools/oneflow/verb.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

std::string Suggestion(const Verb& verb, std::string_view flag) {
  const std::string best =
      flag.empty() ? "" : Nearest(flag, {verb.flags.begin(), verb.flags.end()});
  const std::string text = best.empty() ? "" : "did you mean --" + best + "? ";
  return text + "see `oneflow " + std::string(verb.name) + " --help`";
}

// The last value of a flag counts, as scripts add their own after the user's; that it is not the
// first is told.
void TellRepeated(const Arguments& args, const std::string& name, const std::string& value) {
  for (const std::string_view many : {"feed", "fetch", "stop", "sbatch_option"}) {
    if (name == many) return;
  }
  const std::vector<std::string> before = args.Repeated(name);
  if (before.empty() || before.back() == value) return;
  std::fprintf(stderr, "oneflow: warning: --%s is given more than once: %s counts, not %s\n",
               name.c_str(), value.c_str(), before.back().c_str());
}

// 3e-4 rather than 0.00029999999999999997.
std::string DefaultText(const gflags::CommandLineFlagInfo& info) {
  if (info.type != "double") return info.default_value;
  char text[32];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, std::strtod(info.default_value.c_str(), nullptr));
  return std::string(text, end);
}

}  // namespace

std::vector<std::string> CommaSeparated(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

absl::StatusOr<std::vector<std::string>> FilesOfFlag(const std::string& flag,
                                                     const std::string& list) {
  std::vector<std::string> files = CommaSeparated(list);
  const bool comma = list.ends_with(',');  // which CommaSeparated passes over
  if (!comma && std::find(files.begin(), files.end(), "") == files.end()) return files;
  return InputError("--" + flag + "=" + list, "names a file without a name",
                    "write file names with a comma between two");
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
  for (size_t i = 0; i < argv.size(); ++i) {
    std::string_view text = argv[i];
    if (text.substr(0, 2) != "--") {
      if (!verb.takes_words) {
        return InputError("oneflow " + std::string(verb.name) + " " + argv[i],
                          "the last word belongs to no flag", Suggestion(verb, ""));
      }
      args.positional.emplace_back(text);
      continue;
    }
    text.remove_prefix(2);
    const size_t equals = text.find('=');
    std::string name(text.substr(0, equals));
    std::replace(name.begin(), name.end(), '-', '_');  // as gflags has it
    std::string value;
    if (std::find(verb.flags.begin(), verb.flags.end(), name) == verb.flags.end()) {
      return InputError("--" + name, "`oneflow " + std::string(verb.name) + "` has no such flag",
                        Suggestion(verb, name));
    }
    const gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(name.c_str());
    if (equals != std::string_view::npos) {
      value = text.substr(equals + 1);
    } else if (info.type == "bool" || name == "resume") {  // which may be auto, too
      value = "true";
    } else if (i + 1 < argv.size()) {
      value = argv[++i];
    } else {
      return InputError("--" + name, "has no value", "write --" + name + "=VALUE");
    }
    // An unset variable of the shell's must not turn off what the flag asks for. No axes are a
    // mesh.
    if (value.empty() && name != "prompt" && name != "mesh") {
      return InputError("--" + name + "=", "is empty", "give it a value, or leave it out");
    }
    if (gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
      return InputError(absl::StrCat("--", name, "=", value), "is not a valid " + info.type);
    }
    TellRepeated(args, name, value);
    args.flags.emplace_back(std::move(name), std::move(value));
  }
  return args;
}

std::string HelpText(const Verb& verb) {
  std::string text = "oneflow " + std::string(verb.name) + ": " + std::string(verb.summary) +
                     "\n\nexample:\n" + std::string(verb.example) + "\nflags:\n";
  for (std::string_view flag : verb.flags) {
    const auto info = gflags::GetCommandLineFlagInfoOrDie(std::string(flag).c_str());
    std::string left = "  --" + info.name;
    if (!info.default_value.empty()) left += "=" + DefaultText(info);
    left.resize(std::max<size_t>(left.size() + 2, 32), ' ');
    text += left + info.description + "\n";
  }
  return text;
}

}  // namespace oneflow
