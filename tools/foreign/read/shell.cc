#include "tools/foreign/read/shell.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/shell_condition.h"
#include "tools/foreign/read/shell_words.h"

namespace oneflow::foreign {
namespace {

constexpr int kMostEvals = 40;     // of words within words
constexpr int kMostNesting = 200;  // of compound commands

bool IsShellBlank(char c) { return c == ' ' || c == '\t'; }
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

// Commands of a script. One object reads one text; words of `eval` and of bash -c are read by
// another one that shares the variables.
class Parser {
 public:
  Parser(ShellText text, const std::string& name, ShellVariables& variables, Script& script,
         int depth)
      : in_(std::move(text), name, variables, script), depth_(depth) {}

  void ReadAll() {
    while (!in_.AtEnd()) {
      const size_t before = in_.at;
      ReadList({});
      // A closing word without its opening one.
      if (in_.at == before) ++in_.at;
    }
  }

 private:
  // Commands up to one of the words `ends`, or a ")" or ";;".
  void ReadList(const std::vector<std::string>& ends) {
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
  void ReadAndOr() {
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

  Truth ReadPipeline() {
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

  Truth ReadCommand() {
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

  Truth ReadNested() {
    in_.SkipSeparators();
    const std::string word = in_.PeekWord();
    const int line = in_.Line();
    if (word == "if") {
      ReadIf();
    } else if (word == "case") {
      ReadCase();
    } else if (word == "for" || word == "while" || word == "until" || word == "select") {
      in_.Unread(line, in_.text.chars.substr(in_.at, in_.text.chars.find('\n', in_.at) - in_.at));
      SkipBody([&] { ReadList({"do"}); }, "do", "done");
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
      in_.Unread(line, absl::StrCat("the function ", word));
      while (!in_.AtEnd() && in_.Peek() != '{') ++in_.at;
      const bool was_live = in_.live;
      in_.live = false;
      ++in_.at;
      ReadList({"}"});
      in_.TakeWord("}");
      in_.live = was_live;
    } else {
      return ReadSimple();
    }
    return Truth::kCommand;
  }

  bool IsFunction(const std::string& word) const {
    size_t at = in_.at + word.size();
    while (at < in_.text.chars.size() && IsShellBlank(in_.text.chars[at])) ++at;
    return !word.empty() && word.find('=') == std::string::npos &&
           in_.text.chars.compare(at, 2, "()") == 0;
  }

  template <typename Head>
  void SkipBody(const Head& head, std::string_view open, const std::string& close) {
    const bool was_live = in_.live;
    in_.live = false;
    in_.at += in_.PeekWord().size();
    head();
    in_.TakeWord(open);
    ReadList({close});
    in_.TakeWord(close);
    in_.live = was_live;
  }

  Truth ReadArithmeticCommand() {
    const int line = in_.Line();
    const size_t end = in_.text.chars.find("))", in_.at);
    in_.Unread(line,
               in_.text.chars.substr(in_.at, end == std::string::npos ? end : end + 2 - in_.at));
    in_.at = end == std::string::npos ? in_.text.chars.size() : end + 2;
    return Truth::kUnknown;
  }

  // if LIST; then LIST; elif ...; else ...; fi. Where a condition is not read, neither branch is.
  void ReadIf() {
    const bool was_live = in_.live;
    bool done = false;  // a branch was taken, or it is not known which
    in_.at += 2;
    while (true) {
      in_.SkipSeparators();
      const int line = in_.Line();
      const size_t begin = in_.at;
      in_.live = was_live && !done;
      Truth truth = Truth::kCommand;
      while (true) {
        in_.SkipSeparators();
        if (in_.AtEnd() || in_.PeekWord() == "then") break;
        const size_t before = in_.at;
        truth = ReadPipelines();
        if (in_.at == before) ++in_.at;
      }
      if (truth == Truth::kCommand) truth = Truth::kUnknown;
      if (truth == Truth::kUnknown && was_live && !done) {
        const size_t end = std::min(in_.at, in_.text.chars.find('\n', begin));
        in_.Unread(line, "if " + in_.text.chars.substr(begin, end - begin));
      }
      in_.TakeWord("then");
      in_.live = was_live && !done && truth == Truth::kTrue;
      ReadList({"elif", "else", "fi"});
      in_.live = was_live;
      if (truth != Truth::kFalse) done = true;
      if (in_.TakeWord("elif")) continue;
      if (in_.TakeWord("else")) {
        in_.live = was_live && !done;
        ReadList({"fi"});
        in_.live = was_live;
      }
      in_.TakeWord("fi");
      return;
    }
  }

  // Tests joined by && and ||.
  Truth ReadPipelines() {
    Truth truth = ReadPipeline();
    while (true) {
      in_.SkipBlanks();
      const bool both = in_.Looking("&&");
      if (!both && !in_.Looking("||")) return truth;
      in_.at += 2;
      in_.SkipSeparators();
      const Truth other = ReadPipeline();
      truth = both ? And(truth, other) : Or(truth, other);
    }
  }

  void ReadCase() {
    const bool was_live = in_.live;
    const int line = in_.Line();
    in_.at += 4;
    in_.SkipBlanks();
    std::vector<ShellText> subject;
    in_.ReadWord(&subject, /*splits=*/false);
    const std::string value = subject.empty() ? "" : subject[0].chars;
    if (value.find('$') != std::string::npos) in_.Unread(line, "case " + value);
    bool done = value.find('$') != std::string::npos;
    in_.TakeWord("in");
    while (true) {
      in_.SkipSeparators();
      if (in_.AtEnd() || in_.PeekWord() == "esac") break;
      if (in_.Peek() == '(') ++in_.at;
      const size_t begin = in_.at;
      while (!in_.AtEnd() && in_.Peek() != ')') ++in_.at;
      const std::string patterns = in_.text.chars.substr(begin, in_.at - begin);
      if (!in_.AtEnd()) ++in_.at;
      bool matches = false;
      for (const auto pattern : absl::StrSplit(ToAbsl(patterns), '|')) {
        std::string plain(ToStd(absl::StripAsciiWhitespace(pattern)));
        plain.erase(std::remove_if(plain.begin(), plain.end(),
                                   [](char c) { return c == '"' || c == '\''; }),
                    plain.end());
        matches = matches || MatchesPattern(value, plain);
      }
      in_.live = was_live && !done && matches;
      ReadList({"esac"});
      in_.live = was_live;
      done = done || matches;
      if (in_.Looking(";;")) in_.at += 2;
    }
    in_.TakeWord("esac");
  }

  Truth ReadConditional() {
    in_.at += 2;
    std::vector<std::string> words;
    while (!in_.AtEnd()) {
      in_.SkipBlanks();
      if (in_.Peek() == '\n') {
        ++in_.at;
      } else if (in_.Looking("]]")) {
        in_.at += 2;
        break;
      } else if (in_.Looking("&&") || in_.Looking("||")) {
        words.push_back(in_.text.chars.substr(in_.at, 2));
        in_.at += 2;
      } else if (std::string_view("()<>!").find(in_.Peek()) != std::string_view::npos &&
                 (in_.Peek(1) != '=')) {
        words.emplace_back(1, in_.Peek());
        ++in_.at;
      } else {
        std::vector<ShellText> word;
        if (!in_.ReadWord(&word, /*splits=*/false, /*in_test=*/true)) break;
        words.push_back(word.empty() ? "" : word[0].chars);
      }
    }
    return in_.live ? EvaluateTest(words) : Truth::kUnknown;
  }

  // Assignments and words up to the command's end.
  Truth ReadSimple() {
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
    in_.EndHereCommand(target);
    if (!in_.live) return Truth::kUnknown;
    if (words.empty() || declares) {
      for (auto& [name, word] : command.environment) {
        if (declares && words[0].chars == "export") in_.script.exported.emplace_back(name, word);
      }
      return Truth::kCommand;
    }
    for (const ShellText& word : words) {
      command.words.push_back({word.chars, in_.Place(word.lines.empty() ? line : word.lines[0])});
    }
    return RunCommand(command, words);
  }

  Truth RunCommand(ScriptCommand& command, const std::vector<ShellText>& words) {
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
      in_.Unread(words[0].Line(), absl::StrCat(first, " ", words.size() > 1 ? words[1].chars : ""));
      return Truth::kCommand;
    }
    if (first == "set" && words.size() > 1 && words[1].chars == "--") {
      in_.Unread(words[0].Line(), "set --");
    }
    // ShellText that a shell reads again: eval WORDS, and what stands before bash -c TEXT.
    size_t inner = first == "eval" ? 1 : 0;
    for (size_t i = 0; i + 2 < words.size() && inner == 0; ++i) {
      const std::string& shell = words[i].chars;
      const std::string& option = words[i + 1].chars;
      const bool is_shell = shell == "bash" || shell == "sh" || shell.ends_with("/bash");
      if (is_shell && option.starts_with('-') && !option.starts_with("--") &&
          option.ends_with('c')) {
        inner = i + 2;
      }
    }
    if (inner == 0 || depth_ >= kMostEvals) {
      in_.script.commands.push_back(std::move(command));
      return Truth::kCommand;
    }
    ShellText again;
    const size_t end = first == "eval" ? words.size() : inner + 1;
    for (size_t i = inner; i < end; ++i) {
      again.Add(words[i]);
      again.Add(' ', words[i].lines.empty() ? 1 : words[i].lines.back());
    }
    const size_t before = in_.script.commands.size();
    Parser(std::move(again), in_.name, in_.variables, in_.script, depth_ + 1).ReadAll();
    if (first == "eval") return Truth::kCommand;
    // srun --nodes=4 bash -c "torchrun ...": the outer words belong to the inner command.
    for (size_t i = before; i < in_.script.commands.size(); ++i) {
      ScriptCommand& found = in_.script.commands[i];
      found.words.insert(found.words.begin(), command.words.begin(),
                         command.words.begin() + static_cast<int64_t>(inner) - 2);
      found.environment.insert(found.environment.begin(), command.environment.begin(),
                               command.environment.end());
    }
    return Truth::kCommand;
  }

  // NAME=word, NAME+=word, NAME=( words ): sets the variable.
  bool ReadAssignment(ScriptCommand* command) {
    size_t end = in_.at;
    if (!IsNameStart(in_.Peek())) return false;
    while (end < in_.text.chars.size() && IsNamePart(in_.text.chars[end])) ++end;
    const bool adds = in_.text.chars.compare(end, 2, "+=") == 0;
    if (!adds && (end >= in_.text.chars.size() || in_.text.chars[end] != '=')) return false;
    const std::string name = in_.text.chars.substr(in_.at, end - in_.at);
    const int line = in_.Line();
    in_.at = end + (adds ? 2 : 1);
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
        in_.ReadWord(&value.elements, /*splits=*/true);
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
      variable.elements.insert(variable.elements.end(), value.elements.begin(),
                               value.elements.end());
    } else {
      if (variable.elements.empty()) variable.elements.emplace_back();
      variable.elements[0].Add(value.elements[0]);
    }
    if (!value.is_array) {
      command->environment.emplace_back(name, Word{value.elements[0].chars, in_.Place(line)});
    }
    return true;
  }

  ShellCursor in_;
  const int depth_;
  int nesting_ = 0;
};

// Options of a batch system: the words of the lines that begin with #SBATCH.
void ReadBatchLines(std::string_view text, const std::string& name, Script& script) {
  int number = 0;
  for (const auto line : absl::StrSplit(ToAbsl(text), '\n')) {
    ++number;
    std::string_view rest = ToStd(line);
    if (!rest.starts_with("#SBATCH")) continue;
    rest.remove_prefix(7);
    rest = rest.substr(0, rest.find(" #"));
    for (const auto word :
         absl::StrSplit(ToAbsl(rest), absl::ByAnyChar(" \t\r="), absl::SkipEmpty())) {
      script.sbatch.push_back({std::string(ToStd(word)), absl::StrCat(name, ":", number)});
    }
  }
}

}  // namespace

Script ReadScript(std::string_view text, const std::string& name,
                  const std::map<std::string, std::string>& variables) {
  Script script;
  ReadBatchLines(text, name, script);
  ShellVariables all;
  for (const auto& [variable, value] : variables) {
    ShellText given;
    given.Add(value, 1);
    all[variable] = {{given}, false};
  }
  ShellText lined;
  int line = 1;
  for (const char c : text) {
    lined.Add(c, line);
    if (c == '\n') ++line;
  }
  Parser(std::move(lined), name, all, script, 0).ReadAll();
  return script;
}

}  // namespace oneflow::foreign
