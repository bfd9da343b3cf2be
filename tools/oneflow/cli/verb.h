// A verb of the command line: one verb, one file, one entry in the table of main.cc.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/flag_table.h"

namespace oneflow {

// The arguments after the verb on the command line, other than flags.
struct Arguments {
  std::vector<std::string> positional;  // "gpt" in `oneflow model gpt --layers=4`
  std::vector<std::string> Repeated(
      std::string_view flag) const;  // every value of a flag given several times
  // The first value; "" where it is not given.
  std::string First(std::string_view flag) const;
  bool Given(
      std::string_view flag) const;  // true if the user gave it, or the file of --recipe has it

  std::vector<std::pair<std::string, std::string>> flags;  // in the order given
  proto::RecipeFile file;                                  // the file of --recipe
  std::set<std::string> of_recipe;                         // the flags that are given by it
  // The words behind "--", of a verb that takes them: another program's command line.
  std::vector<std::string> rest;
};

struct Verb {
  uint32_t id;                // its bit: flag_table.h, which says what flags it takes
  std::string_view summary;   // one line
  std::string_view examples;  // lines that work as written
  absl::Status (*run)(const Arguments& args);
  std::string_view words = "";  // words that belong to no flag: "A.plan B.plan"; "": none
  bool takes_rest = false;      // words behind "--"
  // Flags of rows whose values the verb reads itself, with blanks around each: " batch sequence ".
  std::string_view own_values = "";
  std::string_view name() const { return verbs::VerbName(id); }
};

// "a,b,c" -> a, b, c. A comma within a part is written with a backslash before it; all other
// backslashes are the part's. JoinCommas writes such a list.
std::vector<std::string> CommaSeparated(const std::string& list);
std::string JoinCommas(const std::vector<std::string>& parts);
// The same of the files that a flag names, none of them empty.
absl::StatusOr<std::vector<std::string>> FilesOfFlag(const std::string& flag,
                                                     const std::string& list);

// The verbs, each defined in the file of its name.
Verb ModelVerb();
Verb CompileVerb();
Verb SearchVerb();
Verb FitVerb();
Verb ExplainVerb();
Verb RecipeVerb();
Verb VerifyVerb();
Verb RunVerb();
Verb DataVerb();
Verb TrainVerb();
Verb FollowVerb();
Verb GenerateVerb();
Verb EvalVerb();
Verb SimulateVerb();
Verb DiffVerb();
Verb CalibrateVerb();
Verb ClusterVerb();
Verb DevicesVerb();
Verb SubmitVerb();
Verb StatusVerb();
Verb LogsVerb();
Verb CancelVerb();
Verb ImportVerb();
Verb ExportVerb();

// Parses `argv` (after the verb's name) strictly against the verb's own flags and sets the gflags.
// Dashes in names count as underscores, and names of other programs as ours where both mean the
// same (foreign_names.h). An error, with what to write instead, are: a flag that the verb does not
// take, a value that is none, and a flag given twice, but for those that may repeat.
absl::StatusOr<Arguments> ParseArguments(const Verb& verb, const std::vector<std::string>& argv);

}  // namespace oneflow
