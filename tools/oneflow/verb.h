// A verb of the command line: one verb, one file, one entry in the table of main.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// What stands after the verb on the command line, beside its flags.
struct Arguments {
  std::vector<std::string> positional;  // "gpt" in `oneflow model gpt --layers=4`
  std::vector<std::string> Repeated(
      std::string_view flag) const;         // every value of a flag given several times
  bool Given(std::string_view flag) const;  // whether the user gave it

  std::vector<std::pair<std::string, std::string>> flags;  // as given, in order
};

struct Verb {
  std::string_view name;
  std::string_view summary;             // one line
  std::string_view example;             // lines that work as written
  std::vector<std::string_view> flags;  // the gflags it takes
  absl::Status (*run)(const Arguments& args);
  bool takes_words = false;  // words that belong to no flag
};

// "a,b,c" -> a, b, c.
std::vector<std::string> CommaSeparated(const std::string& list);
// The same of the files that a flag names, none of them empty.
absl::StatusOr<std::vector<std::string>> FilesOfFlag(const std::string& flag,
                                                     const std::string& list);

// The verbs, each defined in the file of its name.
Verb ModelVerb();
Verb CompileVerb();
Verb ExplainVerb();
Verb VerifyVerb();
Verb RunVerb();
Verb DataVerb();
Verb TrainVerb();
Verb GenerateVerb();
Verb SimulateVerb();
Verb DiffVerb();
Verb CalibrateVerb();
Verb DevicesVerb();
Verb SubmitVerb();
Verb StatusVerb();
Verb LogsVerb();
Verb CancelVerb();

// Parses `argv` (after the verb's name) strictly against the verb's own flags and sets the gflags.
// An unknown flag is an error that suggests the nearest; a value that does not parse names the
// type.
absl::StatusOr<Arguments> ParseArguments(const Verb& verb, const std::vector<std::string>& argv);

// The text of `oneflow VERB --help`: summary, example, each flag with its default.
std::string HelpText(const Verb& verb);

}  // namespace oneflow
