// Commands of a script. Internal to shell.cc.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/foreign/read/shell_condition.h"
#include "tools/foreign/read/shell_words.h"

namespace oneflow::foreign {

// One object reads one text; functions, loops, other files and words of `eval` and of bash -c are
// read by another one that shares the variables.
class ShellParser {
 public:
  ShellParser(ShellText text, const std::string& name, ShellVariables& variables, Script& script,
              const ShellFiles& files, int depth)
      : in_(std::move(text), name, variables, script), files_(files), depth_(depth) {}

  void ReadAll();

 private:
  // Commands up to one of the words `ends`, or a ")" or ";;".
  void ReadList(const std::vector<std::string>& ends);
  void ReadAndOr();
  Truth ReadPipeline();
  Truth ReadCommand();
  Truth ReadNested();
  Truth ReadSimple();
  bool ReadAssignment(ScriptCommand* command);

  // Compound commands.
  bool IsFunction(const std::string& word) const;
  void ReadFunction(std::string name);
  void ReadFor();
  void SkipBody(bool has_head, const std::string& open, const std::string& close);
  Truth ReadArithmeticCommand();
  void ReadIf();
  Truth ReadPipelines();
  void ReadCase();
  Truth ReadConditional();

  // What a simple command does.
  Truth RunCommand(ScriptCommand& command, const std::vector<ShellText>& words);
  // Reads a text with other arguments, $1 and so on.
  void RunText(const ShellText& text, const std::string& name,
               const std::vector<ShellText>& arguments);
  // source FILE; false if the file is not there.
  bool Source(const std::vector<ShellText>& words);
  // A script that the command starts, beside the words that start it: bash FILE, srun FILE.
  bool RunFile(const ScriptCommand& command, const std::vector<ShellText>& words);
  // eval, or `shell` -c: words from `inner` on are a text.
  void RunAgain(const ScriptCommand& command, const std::vector<ShellText>& words, size_t inner,
                size_t shell);
  // The words before a text that a command starts belong to the commands of the text.
  void PutBefore(const ScriptCommand& command, size_t words, size_t first);
  // False once a script does more than any that is meant.
  bool MayRun();

  ShellCursor in_;
  const ShellFiles& files_;
  const int depth_;
  int nesting_ = 0;
};

// Options of a batch system in lines that begin with #SBATCH; `line`: of the first.
void ReadBatchLines(std::string_view text, const std::string& name, int line, Script& script);
// The text, each character with its line.
ShellText MakeShellText(std::string_view text, int line);

// The key of a function among variables: no variable's name has parentheses.
inline std::string FunctionKey(const std::string& name) { return name + "()"; }

}  // namespace oneflow::foreign
