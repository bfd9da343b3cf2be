// oneflow: the command line. `oneflow VERB --help` explains each verb, `oneflow --version` the
// build. Exit codes: 0 good, 1 failed at run time, 2 bad input, 3 above a limit that was asked for.
#include <sys/resource.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "glog/logging.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/call_verb.h"
#include "tools/oneflow/cli/end_in_words.h"
#include "tools/oneflow/cli/help.h"
#include "tools/oneflow/cli/version.h"
#include "tools/oneflow/verbs.h"

namespace oneflow {
namespace {

std::string Usage(int columns) {
  std::string text =
      "oneflow: compile a GPT graph to a proved plan of actors, and train it\n\n"
      "usage: oneflow VERB [--flag=value ...]\n\n";
  for (const Verb& verb : Verbs()) {
    std::string name(verb.name());
    name.resize(11, ' ');
    text.append("  ").append(name).append(Wrapped(verb.summary, columns, 13, 13)).append("\n");
  }
  text.append("\noneflow VERB --help       the flags of a verb, and examples\n");
  text.append("oneflow VERB --help=all   the rarer flags, too\n");
  text.append("oneflow --version         version, build, instruction set and libraries\n");
  return text;
}

// Checks that the output was written: a full disk behind `> file` is a failure, too.
absl::Status FinishOutput() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return absl::OkStatus();
  return absl::UnavailableError("standard output: cannot be written");
}

// Which help a word of the command line asks for: none, or whether all flags are to be shown.
absl::StatusOr<std::optional<bool>> HelpAsked(const std::string& word) {
  if (word == "--help" || word == "-h") return false;
  if (word == "--help=all") return true;
  if (!word.starts_with("--help=")) return std::nullopt;
  return InputError(word, "is not known", "write --help, or --help=all for the rarer flags, too");
}

absl::StatusOr<Verb> FindVerb(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb& verb : Verbs()) {
    if (verb.name() == name) return verb;
    names.emplace_back(verb.name());
  }
  names.insert(names.end(), {"--version", "--help"});
  const std::string best = name == "stop" ? "cancel" : Nearest(name, names);
  return InputError("oneflow " + name, "no such verb",
                    (best.empty() ? "" : "did you mean " + best + "? ") + "try `oneflow --help`");
}

absl::Status Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status Dispatch(std::vector<std::string> argv) {
  if (argv.empty()) return InputError("oneflow", "no verb", "try `oneflow --help`");
  if (argv[0] == "--version") return Print(VersionText());
  ASSIGN_OR_RETURN(const std::optional<bool> help, HelpAsked(argv[0]));
  const bool word = argv[0] == "help";
  if (help || (word && argv.size() == 1)) return Print(Usage(HelpColumns()));
  if (word) {  // oneflow help compile
    argv.erase(argv.begin());
    argv.emplace_back("--help");
  }
  ASSIGN_OR_RETURN(const Verb verb, FindVerb(argv[0]));
  const std::vector<std::string> rest(argv.begin() + 1, argv.end());
  for (const std::string& a : rest) {
    if (a == "--" && verb.takes_rest) break;  // what follows is another program's
    ASSIGN_OR_RETURN(const std::optional<bool> all, HelpAsked(a));
    if (all) return Print(HelpText(verb, *all, HelpColumns()));
  }
  return RunVerb(verb, rest);
}

// Each process of a group is a descriptor or several, each file of data is one, and shells give
// few.
void RaiseDescriptorLimit() {
  rlimit descriptors = {};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;
  oneflow::RaiseDescriptorLimit();
  oneflow::EndInWords();
  absl::Status status = oneflow::Dispatch({argv + 1, argv + argc});
  const absl::Status printed = oneflow::FinishOutput();
  if (status.ok()) status = printed;
  // Another process of the run prints an error that has no message here.
  if (const std::string message(status.message()); !message.empty()) {
    std::fprintf(stderr, "oneflow: error: %s\n", message.c_str());
  }
  return oneflow::ExitCode(status);
}
