// oneflow: the command line. `oneflow VERB --help` explains each verb.
// Exit codes: 0 good, 1 failed at run time, 2 bad input.
#include <cstdio>
#include <string>
#include <vector>

#include "glog/logging.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/check_outputs.h"
#include "tools/oneflow/verb.h"

namespace oneflow {
namespace {

std::vector<Verb> Verbs() {
  return {ModelVerb(),    CompileVerb(), ExplainVerb(),   VerifyVerb(),
          RunVerb(),      DataVerb(),    TrainVerb(),     GenerateVerb(),
          SimulateVerb(), DiffVerb(),    CalibrateVerb(), DevicesVerb(),
          SubmitVerb(),   StatusVerb(),  LogsVerb(),      CancelVerb()};
}

std::string Usage() {
  std::string text =
      "oneflow: compile a GPT graph to a proved plan of actors, and train it\n\n"
      "usage: oneflow VERB [--flag=value ...]\n\n";
  for (const Verb& verb : Verbs()) {
    std::string name(verb.name);
    name.resize(11, ' ');
    text.append("  ").append(name).append(verb.summary).append("\n");
  }
  text.append("\n`oneflow VERB --help` shows a verb's flags and an example.\n");
  return text;
}

// What was printed is there: a full disk behind `> file` is a failure, too.
absl::Status FinishOutput() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return absl::OkStatus();
  return absl::UnavailableError("standard output: cannot be written");
}

absl::Status Dispatch(const std::vector<std::string>& argv) {
  if (argv.empty()) return InputError("oneflow", "no verb", "try `oneflow --help`");
  if (argv[0] == "--help" || argv[0] == "-h" || argv[0] == "help") {
    std::fputs(Usage().c_str(), stdout);
    return absl::OkStatus();
  }
  for (const Verb& verb : Verbs()) {
    if (verb.name != argv[0]) continue;
    const std::vector<std::string> rest(argv.begin() + 1, argv.end());
    for (const std::string& a : rest) {
      if (a != "--help" && a != "-h") continue;
      std::fputs(HelpText(verb).c_str(), stdout);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Arguments args, ParseArguments(verb, rest));
    RETURN_IF_ERROR(CheckOutputs(args));
    return verb.run(args);
  }
  std::vector<std::string> names;
  for (const Verb& verb : Verbs()) names.emplace_back(verb.name);
  const std::string best = Nearest(argv[0], names);
  return InputError("oneflow " + argv[0], "no such verb",
                    (best.empty() ? "" : "did you mean " + best + "? ") + "try `oneflow --help`");
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;
  absl::Status status = oneflow::Dispatch({argv + 1, argv + argc});
  const absl::Status printed = oneflow::FinishOutput();
  if (status.ok()) status = printed;
  if (!status.ok() && !oneflow::IsQuiet(status)) {
    const std::string message(status.message());
    std::fprintf(stderr, "oneflow: error: %s\n", message.c_str());
  }
  return oneflow::ExitCode(status);
}
