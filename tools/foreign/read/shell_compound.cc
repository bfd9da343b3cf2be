// Compound commands: if, case, for, functions, [[ ... ]] and (( ... )).
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/shell_arithmetic.h"
#include "tools/foreign/read/shell_parser.h"

namespace oneflow::foreign {
namespace {

bool IsShellBlank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

bool ShellParser::IsFunction(const std::string& word) const {
  size_t at = in_.at + word.size();
  while (at < in_.text.chars.size() && IsShellBlank(in_.text.chars[at])) ++at;
  return !word.empty() && word.find('=') == std::string::npos &&
         in_.text.chars.compare(at, 2, "()") == 0;
}

// Keeps the body, which is read where the function is called.
void ShellParser::ReadFunction(std::string name) {
  if (name == "function") {
    in_.at += name.size();
    in_.SkipBlanks();
    name = in_.PeekWord();
  }
  while (!in_.AtEnd() && in_.Peek() != '{') ++in_.at;
  const bool was_live = in_.live;
  in_.live = false;
  if (!in_.AtEnd()) ++in_.at;
  const size_t begin = in_.at;
  ReadList({"}"});
  const size_t end = std::min(in_.at, in_.text.chars.size());
  in_.TakeWord("}");
  in_.live = was_live;
  if (!in_.live || name.empty() || begin > end) return;
  ShellText body;
  body.chars = in_.text.chars.substr(begin, end - begin);
  body.lines.assign(in_.text.lines.begin() + static_cast<int64_t>(begin),
                    in_.text.lines.begin() + static_cast<int64_t>(end));
  in_.variables[FunctionKey(name)] = {{body}, false};
}

// for NAME in WORDS; do LIST; done: the list once for each word. Words that are not known, and
// loops that count, are named.
void ShellParser::ReadFor() {
  const int line = in_.Line();
  const size_t begin = in_.at;
  std::string head = in_.text.chars.substr(begin, in_.text.chars.find('\n', begin) - begin);
  in_.at += 3;
  in_.SkipBlanks();
  const std::string variable = in_.PeekWord();
  in_.at += variable.size();
  std::vector<ShellText> values;
  bool known = in_.TakeWord("in") && !variable.empty();
  while (known) {
    in_.SkipBlanks();
    const size_t before = in_.at;
    in_.ReadWord(&values, /*splits=*/true);
    if (in_.at == before) break;
  }
  for (const ShellText& value : values) {
    known = known && value.chars.find_first_of("$`") == std::string::npos;
  }
  while (!in_.AtEnd() && in_.PeekWord() != "do") {
    // (( i = 0; i < n; i++ ))
    in_.SkipSeparators();
    if (in_.PeekWord() == "do") break;
    if (!in_.AtEnd()) ++in_.at;
  }
  in_.TakeWord("do");
  const size_t body_begin = in_.at;
  const bool was_live = in_.live;
  in_.live = false;
  ReadList({"done"});
  in_.live = was_live;
  const size_t body_end = std::min(in_.at, in_.text.chars.size());
  in_.TakeWord("done");
  if (!in_.live) return;
  if (!known) return in_.Unread(line, head);
  ShellText body;
  if (body_begin < body_end) {
    body.chars = in_.text.chars.substr(body_begin, body_end - body_begin);
    body.lines.assign(in_.text.lines.begin() + static_cast<int64_t>(body_begin),
                      in_.text.lines.begin() + static_cast<int64_t>(body_end));
  }
  for (const ShellText& value : values) {
    if (!MayRun()) return;
    in_.variables[variable] = {{value}, false};
    ShellParser(body, in_.name, in_.variables, in_.script, files_, depth_ + 1).ReadAll();
  }
}

void ShellParser::SkipBody(bool has_head, const std::string& open, const std::string& close) {
  const bool was_live = in_.live;
  in_.live = false;
  in_.at += in_.PeekWord().size();
  if (has_head) ReadList({open});
  in_.TakeWord(open);
  ReadList({close});
  in_.TakeWord(close);
  in_.live = was_live;
}

// (( a > b )), (( a % b != 0 )): a comparison is read.
Truth ShellParser::ReadArithmeticCommand() {
  const int line = in_.Line();
  const size_t begin = in_.at, end = in_.text.chars.find("))", in_.at);
  const std::string text =
      in_.text.chars.substr(begin, end == std::string::npos ? end : end + 2 - begin);
  in_.at = end == std::string::npos ? in_.text.chars.size() : end + 2;
  for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (end == std::string::npos) break;
    const std::string_view inside = std::string_view(text).substr(2, text.size() - 4);
    const size_t found = inside.find(op);
    if (found == std::string_view::npos) continue;
    const auto a = EvaluateArithmetic(inside.substr(0, found), in_.variables);
    const auto b = EvaluateArithmetic(inside.substr(found + op.size()), in_.variables);
    if (!a || !b) break;
    const bool holds = op == "=="   ? *a == *b
                       : op == "!=" ? *a != *b
                       : op == "<=" ? *a <= *b
                       : op == ">=" ? *a >= *b
                       : op == "<"  ? *a < *b
                                    : *a > *b;
    return holds ? Truth::kTrue : Truth::kFalse;
  }
  in_.Unread(line, text);
  return Truth::kUnknown;
}

// if LIST; then LIST; elif ...; else ...; fi. Where a condition is not read, neither branch is.
void ShellParser::ReadIf() {
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
Truth ShellParser::ReadPipelines() {
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

void ShellParser::ReadCase() {
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
      plain.erase(
          std::remove_if(plain.begin(), plain.end(), [](char c) { return c == '"' || c == '\''; }),
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

Truth ShellParser::ReadConditional() {
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

}  // namespace oneflow::foreign
