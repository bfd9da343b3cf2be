// What a simple command of a script does: tests, functions, eval, other scripts.
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/foreign/read/shell_parser.h"

namespace oneflow::foreign {
namespace {

constexpr int kMostShellRuns = 40;     // of texts within texts
constexpr int kMostShellSteps = 2000;  // of texts in all
constexpr size_t kMostShellCommands = 20000;

std::string GetProgramName(const ShellText& word) {
  return word.chars.substr(word.chars.rfind('/') + 1);
}

bool IsShellName(const std::string& name) {
  return name == "bash" || name == "sh" || name == "zsh";
}

bool IsScriptName(const std::string& name) {
  for (const char* ending : {".sh", ".bash", ".sbatch", ".slurm", ".job"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

}  // namespace

bool ShellParser::MayRun() {
  if (depth_ < kMostShellRuns && in_.script.steps < kMostShellSteps &&
      in_.script.commands.size() < kMostShellCommands) {
    ++in_.script.steps;
    return true;
  }
  in_.Unread(in_.Line(), "functions, loops and files without end");
  return false;
}

void ShellParser::RunText(const ShellText& text, const std::string& name,
                          const std::vector<ShellText>& arguments) {
  // $1, $2, ..., $@ and $# of the caller come back afterwards.
  ShellVariables outer;
  const auto is_argument = [](const std::string& variable) {
    return variable == "@" || variable == "#" || absl::ascii_isdigit(variable[0]);
  };
  for (auto at = in_.variables.begin(); at != in_.variables.end();) {
    if (!is_argument(at->first)) {
      ++at;
      continue;
    }
    outer.insert(*at);
    at = in_.variables.erase(at);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    in_.variables[absl::StrCat(i + 1)] = {{arguments[i]}, false};
  }
  ShellText count;
  count.Add(absl::StrCat(arguments.size()), in_.Line());
  in_.variables["@"] = {arguments, true};
  in_.variables["#"] = {{count}, false};
  ShellParser(text, name, in_.variables, in_.script, files_, depth_ + 1).ReadAll();
  for (size_t i = 0; i < arguments.size(); ++i) in_.variables.erase(absl::StrCat(i + 1));
  in_.variables.erase("@");
  in_.variables.erase("#");
  in_.variables.insert(outer.begin(), outer.end());
}

bool ShellParser::Source(const std::vector<ShellText>& words) {
  if (words.size() < 2 || !files_) return false;
  const auto file = files_(words[1].chars);
  if (!file || !MayRun()) return false;
  const ShellText text = MakeShellText(file->second, 1);
  if (words.size() > 2) {
    RunText(text, file->first, {words.begin() + 2, words.end()});
  } else {
    ShellParser(text, file->first, in_.variables, in_.script, files_, depth_ + 1).ReadAll();
  }
  return true;
}

void ShellParser::PutBefore(const ScriptCommand& command, size_t words, size_t first) {
  for (size_t i = first; i < in_.script.commands.size(); ++i) {
    ScriptCommand& found = in_.script.commands[i];
    found.words.insert(found.words.begin(), command.words.begin(),
                       command.words.begin() + static_cast<int64_t>(words));
    found.environment.insert(found.environment.begin(), command.environment.begin(),
                             command.environment.end());
  }
}

bool ShellParser::RunFile(const ScriptCommand& command, const std::vector<ShellText>& words) {
  const std::string first = GetProgramName(words[0]);
  for (const char* other : {"echo", "cat", "cp", "mv", "ls", "rm", "chmod", "sed", "grep", "scp",
                            "rsync", "tee", "touch", "test", "python", "python3", "git"}) {
    if (first == other) return false;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (!IsScriptName(words[i].chars)) {
      // A program ends the words that may start a script.
      if (words[i].chars.ends_with(".py")) return false;
      continue;
    }
    std::optional<std::pair<std::string, std::string>> file;
    int line = 1;
    for (const WrittenFile& written : in_.script.written) {
      if (GetProgramName(words[i]) != written.name.substr(written.name.rfind('/') + 1)) continue;
      file = {in_.name, written.text};
      line = written.line;
    }
    if (!file && files_) file = files_(words[i].chars);
    if (!file || !MayRun()) return false;
    if (first == "sbatch") {
      ReadBatchLines(file->second, file->first, line, in_.script);
    }
    // A script of its own sees what is exported.
    std::set<std::string> seen;
    for (const auto& [name, word] : in_.script.exported) seen.insert(name);
    for (const auto& [name, word] : command.environment) seen.insert(name);
    ShellVariables inner;
    for (const auto& [name, value] : in_.variables) {
      if (seen.count(name) > 0 || in_.script.given.count(name) > 0) inner.insert({name, value});
    }
    const size_t before = in_.script.commands.size();
    ShellParser child({}, file->first, inner, in_.script, files_, depth_ + 1);
    child.RunText(MakeShellText(file->second, line), file->first,
                  {words.begin() + static_cast<int64_t>(i) + 1, words.end()});
    const bool has_shell = i > 0 && IsShellName(GetProgramName(words[i - 1]));
    PutBefore(command, has_shell ? i - 1 : i, before);
    return true;
  }
  return false;
}

void ShellParser::RunAgain(const ScriptCommand& command, const std::vector<ShellText>& words,
                           size_t inner, size_t shell) {
  const bool is_eval = words[0].chars == "eval";
  ShellText again;
  const size_t end = is_eval ? words.size() : inner + 1;
  for (size_t i = inner; i < end; ++i) {
    again.Add(words[i]);
    again.Add(' ', words[i].lines.empty() ? 1 : words[i].lines.back());
  }
  const size_t before = in_.script.commands.size();
  ShellParser(std::move(again), in_.name, in_.variables, in_.script, files_, depth_ + 1).ReadAll();
  // srun --nodes=4 bash -c "torchrun ...": the outer words belong to the inner command.
  if (!is_eval) PutBefore(command, shell, before);
}

Truth ShellParser::RunCommand(ScriptCommand& command, const std::vector<ShellText>& words) {
  const std::string& first = words[0].chars;
  if (first == "[" || first == "test") {
    std::vector<std::string> test;
    for (size_t i = 1; i < words.size(); ++i) test.push_back(words[i].chars);
    if (!test.empty() && test.back() == "]") test.pop_back();
    return EvaluateTest(test);
  }
  if (first == "true" || first == ":") return Truth::kTrue;
  if (first == "false") return Truth::kFalse;
  if (first == "source" || first == ".") {
    if (!Source(words)) {
      in_.Unread(words[0].Line(), absl::StrCat(first, " ", words.size() > 1 ? words[1].chars : ""));
    }
    return Truth::kCommand;
  }
  if (first == "set" && words.size() > 1 && words[1].chars == "--") {
    in_.Unread(words[0].Line(), "set --");
  }
  if (const auto function = in_.variables.find(FunctionKey(first));
      function != in_.variables.end()) {
    const ShellText body = function->second.elements[0];
    if (MayRun()) RunText(body, in_.name, {words.begin() + 1, words.end()});
    return Truth::kCommand;
  }
  // Text that a shell reads again: eval WORDS, and what stands before bash -c TEXT.
  size_t inner = first == "eval" ? 1 : 0, shell = 0;
  for (size_t i = 0; i + 2 < words.size() && inner == 0; ++i) {
    if (!IsShellName(GetProgramName(words[i]))) continue;
    // bash -c TEXT, bash -lc TEXT, bash -x -c TEXT
    for (size_t k = i + 1; k + 1 < words.size() && words[k].chars.starts_with('-'); ++k) {
      if (words[k].chars.starts_with("--") || !words[k].chars.ends_with('c')) continue;
      inner = k + 1;
      shell = i;
      break;
    }
  }
  if (inner > 0 && MayRun()) {
    RunAgain(command, words, inner, shell);
    return Truth::kCommand;
  }
  if (RunFile(command, words)) return Truth::kCommand;
  if (GetProgramName(words[0]) == "sbatch") {
    in_.script.sbatch.insert(in_.script.sbatch.end(), command.words.begin() + 1,
                             command.words.end());
  }
  in_.script.commands.push_back(std::move(command));
  return Truth::kCommand;
}

}  // namespace oneflow::foreign
