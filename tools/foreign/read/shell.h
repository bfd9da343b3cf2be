// A subset of shell, read and never run: literals, quotes, backslashes, comments, assignments,
// arrays, ${X}, ${X[@]}, ${X:-d}, $((...)), conditions on strings and numbers, here-documents.
//
//   const Script script = ReadScript(text, "run.sh", {});
//   script.commands[0].words    // {"torchrun", "--nnodes", "4", ...}, each with its line
//   script.unread               // {"run.sh:3: $(nproc)", "run.sh:9: while ..."}
//
// Functions are read where they are called, loops over literal words once for each word, and files
// that the script sources or starts where `files` has them.
//
// What is beyond the subset is named in `unread` and acts on nothing: the body of a loop
// that counts or waits, a condition that asks the machine, the output of a command. A variable that
// nothing sets stays as it is written, "$HEAD", where it is part of a word or the value of a flag;
// a word of its own vanishes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {

struct ScriptCommand {
  std::vector<std::pair<std::string, Word>> environment;  // assigned before its first word
  std::vector<Word> words;                                // not empty
};

// A file that a script writes: cat > FILE <<EOF.
struct WrittenFile {
  std::string name;
  std::string text;
  int line = 0;  // of its first line in the script
};

// The name of a text that a command reads as a script: sbatch <<EOF.
inline constexpr char kJobText[] = "|sh";

struct Script {
  std::vector<ScriptCommand> commands;
  std::vector<std::pair<std::string, Word>> exported;  // environment of all commands
  std::vector<Word> sbatch;                            // words of #SBATCH lines, options alone
  std::vector<WrittenFile> written;
  std::vector<std::string> unread;
  std::set<std::string> given;  // variables that were set before it begins
  int steps = 0;                // functions, loops and files that were read
};

// A script by the word that names it: the name for places, and the text; nothing if it is not
// there.
using ShellFiles =
    std::function<std::optional<std::pair<std::string, std::string>>(const std::string&)>;

// `name` begins the places of words; `variables` are set before the script begins, for the scripts
// that it starts, too; `arguments` are $1 and so on, if there are any.
Script ReadScript(std::string_view text, const std::string& name,
                  const std::map<std::string, std::string>& variables, const ShellFiles& files = {},
                  const std::vector<std::string>& arguments = {});

}  // namespace oneflow::foreign
