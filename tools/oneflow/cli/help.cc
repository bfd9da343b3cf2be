#include "tools/oneflow/cli/help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/words.h"

namespace oneflow {
namespace {

constexpr int kLeastColumns = 60, kMostColumns = 100;
constexpr int kText = 28;           // the column of the sentences
constexpr size_t kShortValue = 16;  // longer lists of values stand in the sentence

// The words of a shell's line: blanks within quotes part none.
std::vector<std::string> ShellWords(std::string_view line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"' || c == '\'') quoted = !quoted;
    if (c != ' ' || quoted) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// One example, in several lines where it is long.
std::string ExampleText(std::string_view line, int columns) {
  std::string text = " ";
  int column = 1;
  for (const std::string& word : ShellWords(line)) {
    const int size = static_cast<int>(word.size());
    if (column > 1 && column + 1 + size + 2 > columns) {
      text += " \\\n     ";
      column = 5;
    }
    absl::StrAppend(&text, " ", word);
    column += 1 + size;
  }
  return text + "\n";
}

// "  --schedule=NAME"
std::string LeftColumn(const FlagRow& row, bool values_in_left) {
  std::string text = absl::StrCat("  --", std::string(row.name));
  if (row.value == "BOOL") return text + "=true|false";
  if (row.value.empty()) return text;
  return absl::StrCat(text, "=", values_in_left ? std::string(row.value) : "NAME");
}

std::string FlagText(const FlagRow& row, int columns) {
  const std::vector<std::string> choices = ListChoices(row.value);
  const bool in_left = choices.empty() || row.value.size() <= kShortValue;
  std::string left = LeftColumn(row, in_left);
  if (left.size() + 2 <= kText) {
    left.resize(kText, ' ');
  } else {
    left += "\n" + std::string(kText, ' ');
  }
  std::string sentence(row.sentence);
  const size_t bracket = row.value.find("[,");
  if (!in_left && bracket == std::string_view::npos) {
    absl::StrAppend(&sentence, " One of ", OrList(choices), ".");
  } else if (!in_left) {
    absl::StrAppend(&sentence, " One of ", OrList({choices.begin(), choices.end() - 1}),
                    "; and, after a comma, ", choices.back(), ".");
  }
  const bool is_switch = row.value.empty();
  if (!row.default_text.empty() && !is_switch) {
    absl::StrAppend(&sentence, " Default: ", std::string(row.default_text), ".");
  }
  return left + Wrapped(sentence, columns, kText, kText) + "\n";
}

}  // namespace

std::string Wrapped(std::string_view text, int columns, int indent, int column) {
  std::string lines;
  bool begins = true;
  for (const absl::string_view word : absl::StrSplit(ToAbsl(text), ' ', absl::SkipEmpty())) {
    const int size = static_cast<int>(word.size());
    if (!begins && column + 1 + size > columns) {
      lines += "\n" + std::string(static_cast<size_t>(indent), ' ');
      column = indent;
      begins = true;
    }
    absl::StrAppend(&lines, begins ? "" : " ", word);
    column += size + (begins ? 0 : 1);
    begins = false;
  }
  return lines;
}

int HelpColumns() {
  int columns = 0;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  const char* given = std::getenv("COLUMNS");
  if (columns == 0 && (given == nullptr || !absl::SimpleAtoi(given, &columns)))
    columns = kMostColumns;
  return std::clamp(columns, kLeastColumns, kMostColumns);
}

std::string HelpText(const Verb& verb, bool all, int columns) {
  const std::string name(verb.name());
  const std::string words(verb.words);
  std::string text = absl::StrCat(
      Wrapped(absl::StrCat("oneflow ", name, ": ", std::string(verb.summary)), columns, 2, 0),
      "\n\n",
      Wrapped(absl::StrCat("usage: oneflow ", name, words.empty() ? "" : " " + words,
                           " [--flag=value ...]"),
              columns, 2, 0),
      "\n");
  int hidden = 0;
  std::string_view title;
  for (const std::string_view flag : FlagsOfVerb(verb.id)) {
    const FlagRow& row = *FindFlag(verb.id, flag);
    if (row.rare && !all) {
      ++hidden;
      continue;
    }
    if (title != GroupTitle(row.group)) {
      title = GroupTitle(row.group);
      absl::StrAppend(&text, "\n", std::string(title), "\n");
    }
    text += FlagText(row, columns);
  }
  if (hidden > 0) {
    absl::StrAppend(&text, "\n", hidden, hidden == 1 ? " rarer flag" : " rarer flags", ": oneflow ",
                    name, " --help=all\n");
  }
  text += "\nexamples\n";
  for (const absl::string_view line :
       absl::StrSplit(ToAbsl(verb.examples), '\n', absl::SkipEmpty())) {
    text += ExampleText(std::string(line), columns);
  }
  return text;
}

}  // namespace oneflow
