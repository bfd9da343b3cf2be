#include "tools/foreign/read/shell.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/shell_parser.h"

namespace oneflow::foreign {
namespace {

constexpr int kMostNesting = 200;  // of compound commands

bool IsNameStart(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsNamePart(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Words that begin or end a compound command.
bool IsReserved(std::string_view word) {
  for (const char* reserved : {"if", "then", "elif", "else", "fi", "for", "while", "until", "do",
                               "done", "case", "esac", "function", "{", "}", "!", "select"}) {
    if (word == reserved) return true;
  }
  return false;
}

}  // namespace

void ShellParser::ReadAll() {
  while (!in_.AtEnd()) {
    const size_t before = in_.at;
    ReadList({});
    // A closing word without its opening one.
    if (in_.at == before) ++in_.at;
  }
}

void ShellParser::ReadList(const std::vector<std::string>& ends) {
  while (true) {
    in_.SkipSeparators();
    if (in_.AtEnd() || in_.Peek() == ')' || in_.Looking(";;")) return;
    const std::string word = in_.PeekWord();
    if (std::find(ends.begin(), ends.end(), word) != ends.end()) return;
    if (ends.empty() && IsReserved(word) && word != "if" && word != "case" && word != "for" &&
        word != "while" && word != "until" && word != "{" && word != "function" && word != "!" &&
        word != "select") {
      in_.at += word.size();
      continue;
    }
    ReadAndOr();
  }
}

// a && b || c: what is behind a test counts if the test says so.
void ShellParser::ReadAndOr() {
  const bool was_live = in_.live;
  Truth truth = ReadPipeline();
  while (true) {
    in_.SkipBlanks();
    const bool both = in_.Looking("&&"), either = in_.Looking("||");
    if (!both && !either) break;
    in_.at += 2;
    in_.SkipSeparators();
    // A command is taken to succeed.
    const Truth known = truth == Truth::kCommand ? Truth::kTrue : truth;
    const bool next = known == (both ? Truth::kTrue : Truth::kFalse);
    if (known == Truth::kUnknown) in_.Unread(in_.Line(), "what follows a test that is not read");
    in_.live = was_live && next;
    const Truth other = ReadPipeline();
    in_.live = was_live;
    if (next) truth = other;
  }
}

Truth ShellParser::ReadPipeline() {
  in_.SkipBlanks();
  bool negated = false;
  while (in_.PeekWord() == "!") {
    negated = !negated;
    ++in_.at;
    in_.SkipBlanks();
  }
  Truth truth = ReadCommand();
  in_.SkipBlanks();
  while (in_.Peek() == '|' && in_.Peek(1) != '|') {
    in_.at += in_.Peek(1) == '&' ? 2 : 1;
    in_.SkipSeparators();
    ReadCommand();
    in_.SkipBlanks();
    truth = Truth::kCommand;
  }
  return negated ? Not(truth) : truth;
}

Truth ShellParser::ReadCommand() {
  if (nesting_ >= kMostNesting) {
    in_.Unread(in_.Line(), "commands nested too deep");
    in_.at = in_.text.chars.size();
    return Truth::kUnknown;
  }
  ++nesting_;
  const Truth truth = ReadNested();
  --nesting_;
  return truth;
}

Truth ShellParser::ReadNested() {
  in_.SkipSeparators();
  const std::string word = in_.PeekWord();
  const int line = in_.Line();
  if (word == "if") {
    ReadIf();
  } else if (word == "case") {
    ReadCase();
  } else if (word == "for") {
    ReadFor();
  } else if (word == "while" || word == "until" || word == "select") {
    in_.Unread(line, in_.text.chars.substr(in_.at, in_.text.chars.find('\n', in_.at) - in_.at));
    SkipBody(/*has_head=*/true, "do", "done");
  } else if (word == "{" || in_.Peek() == '(') {
    const bool brace = word == "{";
    if (!brace && in_.Peek(1) == '(') return ReadArithmeticCommand();
    ++in_.at;
    ReadList(brace ? std::vector<std::string>{"}"} : std::vector<std::string>{});
    in_.SkipSeparators();
    if (in_.Peek() == (brace ? '}' : ')')) ++in_.at;
  } else if (word == "[[") {
    return ReadConditional();
  } else if (word == "function" || IsFunction(word)) {
    ReadFunction(word);
  } else {
    return ReadSimple();
  }
  return Truth::kCommand;
}

// Assignments and words up to the command's end.
Truth ShellParser::ReadSimple() {
  ScriptCommand command;
  std::vector<ShellText> words;
  std::string target;  // of > FILE
  const int line = in_.Line();
  bool declares = false;
  while (true) {
    in_.SkipBlanks();
    const char c = in_.Peek();
    if (in_.AtEnd() || c == '\n' || c == ';' || c == '|' || c == ')' || c == '#') break;
    if (c == '&' && in_.Peek(1) != '>') break;
    if (in_.ReadRedirection(&target)) continue;
    if ((words.empty() || declares) && ReadAssignment(&command)) continue;
    const size_t before = in_.at;
    // A value that nothing sets is kept where a flag is before it.
    in_.keep_unset = !words.empty() && words.back().chars.starts_with("-") &&
                     words.back().chars.find('=') == std::string::npos;
    in_.ReadWord(&words, /*splits=*/true);
    in_.keep_unset = false;
    if (in_.at == before) break;
    if (words.size() == 1) {
      for (const char* verb : {"export", "declare", "local", "readonly", "typeset"}) {
        declares = declares || words[0].chars == verb;
      }
    }
  }
  // sbatch <<EOF: what it reads is a script.
  const std::string program =
      words.empty() ? "" : words[0].chars.substr(words[0].chars.rfind('/') + 1);
  if (target.empty() && (program == "sbatch" || program == "bash" || program == "sh")) {
    target = kJobText;
  }
  in_.EndHereCommand(target);
  if (!in_.live) return Truth::kUnknown;
  if (words.empty() || declares) {
    const bool exports = declares && words[0].chars == "export";
    for (auto& [name, word] : command.environment) {
      if (exports) in_.script.exported.emplace_back(name, word);
    }
    for (size_t i = 1; i < words.size() && exports; ++i) {
      const auto found = in_.variables.find(words[i].chars);
      if (found == in_.variables.end() || found->second.elements.empty()) continue;
      in_.script.exported.emplace_back(words[i].chars,
                                       Word{found->second.elements[0].chars, in_.Place(line)});
    }
    return Truth::kCommand;
  }
  for (const ShellText& word : words) {
    command.words.push_back({word.chars, in_.Place(word.lines.empty() ? line : word.lines[0])});
  }
  return RunCommand(command, words);
}

// NAME=word, NAME+=word, NAME=( words ): sets the variable.
bool ShellParser::ReadAssignment(ScriptCommand* command) {
  size_t end = in_.at;
  if (!IsNameStart(in_.Peek())) return false;
  while (end < in_.text.chars.size() && IsNamePart(in_.text.chars[end])) ++end;
  const bool adds = in_.text.chars.compare(end, 2, "+=") == 0;
  if (!adds && (end >= in_.text.chars.size() || in_.text.chars[end] != '=')) return false;
  const std::string name = in_.text.chars.substr(in_.at, end - in_.at);
  const int line = in_.Line();
  in_.at = end + (adds ? 2 : 1);
  // MORE="$MORE --flag": what is not set yet is empty.
  const size_t quote = in_.Peek() == '"' ? 1 : 0;
  for (const std::string& self : {"$" + name + " ", "${" + name + "}"}) {
    if (in_.live && !in_.AtEnd() &&
        in_.text.chars.compare(in_.at + quote, self.size(), self) == 0) {
      in_.variables.insert({name, {{ShellText()}, false}});
    }
  }
  ShellVariable value;
  if (in_.Peek() == '(') {
    ++in_.at;
    value.is_array = true;
    while (!in_.AtEnd()) {
      in_.SkipSeparators();
      if (in_.Peek() == ')') {
        ++in_.at;
        break;
      }
      const size_t before = in_.at;
      // A value that nothing sets is kept where a flag is before it.
      in_.keep_unset = !value.elements.empty() && value.elements.back().chars.starts_with("-") &&
                       value.elements.back().chars.find('=') == std::string::npos;
      in_.ReadWord(&value.elements, /*splits=*/true);
      in_.keep_unset = false;
      if (in_.at == before) ++in_.at;
    }
  } else {
    in_.ReadWord(&value.elements, /*splits=*/false);
    if (value.elements.empty()) value.elements.emplace_back();
  }
  if (!in_.live) return true;
  ShellVariable& variable = in_.variables[name];
  if (!adds) {
    variable = value;
  } else if (value.is_array || variable.is_array) {
    variable.is_array = true;
    variable.elements.insert(variable.elements.end(), value.elements.begin(), value.elements.end());
  } else {
    if (variable.elements.empty()) variable.elements.emplace_back();
    variable.elements[0].Add(value.elements[0]);
  }
  if (!value.is_array) {
    command->environment.emplace_back(name, Word{value.elements[0].chars, in_.Place(line)});
  }
  return true;
}

void ReadBatchLines(std::string_view text, const std::string& name, int line, Script& script) {
  for (const auto one : absl::StrSplit(ToAbsl(text), '\n')) {
    std::string_view rest = ToStd(one);
    const int number = line++;
    if (!rest.starts_with("#SBATCH")) continue;
    rest.remove_prefix(7);
    rest = rest.substr(0, rest.find(" #"));
    for (const auto word :
         absl::StrSplit(ToAbsl(rest), absl::ByAnyChar(" \t\r="), absl::SkipEmpty())) {
      script.sbatch.push_back({std::string(ToStd(word)), absl::StrCat(name, ":", number)});
    }
  }
}

ShellText MakeShellText(std::string_view text, int line) {
  ShellText lined;
  for (const char c : text) {
    lined.Add(c, line);
    if (c == '\n') ++line;
  }
  return lined;
}

Script ReadScript(std::string_view text, const std::string& name,
                  const std::map<std::string, std::string>& variables, const ShellFiles& files,
                  const std::vector<std::string>& arguments) {
  Script script;
  ReadBatchLines(text, name, 1, script);
  ShellVariables all;
  const auto set = [&](const std::string& variable, const std::vector<std::string>& values,
                       bool is_array) {
    ShellVariable& target = all[variable];
    target.is_array = is_array;
    for (const std::string& value : values) {
      target.elements.emplace_back().Add(value, 1);
    }
  };
  for (const auto& [variable, value] : variables) {
    set(variable, {value}, false);
    script.given.insert(variable);
  }
  if (!arguments.empty()) {
    for (size_t i = 0; i < arguments.size(); ++i) set(absl::StrCat(i + 1), {arguments[i]}, false);
    set("@", arguments, true);
    set("#", {absl::StrCat(arguments.size())}, false);
  }
  ShellParser(MakeShellText(text, 1), name, all, script, files, 0).ReadAll();
  // sbatch <<EOF: the text is a script of its own.
  for (size_t i = 0; i < script.written.size();) {
    if (script.written[i].name != kJobText) {
      ++i;
      continue;
    }
    const WrittenFile job = script.written[i];
    script.written.erase(script.written.begin() + static_cast<int64_t>(i));
    ReadBatchLines(job.text, name, job.line, script);
    ShellParser(MakeShellText(job.text, job.line), name, all, script, files, 1).ReadAll();
  }
  return script;
}

}  // namespace oneflow::foreign
