// Words of a shell script: quotes, expansions, arithmetic, redirections. Internal to shell.cc.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/foreign/read/shell.h"

namespace oneflow::foreign {

// Text, and the line of the script that each of its characters is written in.
struct ShellText {
  std::string chars;
  std::vector<int> lines;

  void Add(char c, int line) {
    chars += c;
    lines.push_back(line);
  }
  void Add(std::string_view text, int line) {
    for (const char c : text) Add(c, line);
  }
  void Add(const ShellText& other) {
    chars += other.chars;
    lines.insert(lines.end(), other.lines.begin(), other.lines.end());
  }
  int Line() const { return lines.empty() ? 1 : lines.front(); }
};

struct ShellVariable {
  std::vector<ShellText> elements;
  bool is_array = false;
};
using ShellVariables = std::map<std::string, ShellVariable>;

// A position in a script, and all that the meaning of a word depends on.
class ShellCursor {
 public:
  ShellCursor(ShellText text, const std::string& name, ShellVariables& variables, Script& script)
      : text(std::move(text)), name(name), variables(variables), script(script) {}

  bool AtEnd() const { return at >= text.chars.size(); }
  char Peek(size_t ahead = 0) const {
    return at + ahead < text.chars.size() ? text.chars[at + ahead] : '\0';
  }
  bool Looking(std::string_view what) const {
    if (AtEnd()) return false;
    return text.chars.compare(at, what.size(), what) == 0;
  }
  int Line() const;
  std::string Place(int line) const;
  // Names what is not read, once, unless it stands in a branch that is not taken.
  void Unread(int line, std::string_view what);

  void SkipBlanks();
  // Also comments, ends of lines and of commands; reads here-documents behind ends of lines.
  void SkipSeparators();
  // The plain word that begins here, without moving.
  std::string PeekWord() const;
  bool TakeWord(std::string_view word);

  // Reads the word that begins here and adds its fields: none, one, or several where an unquoted
  // expansion `splits`. False if there is no word. In a test, "(" and "<" are words' parts.
  bool ReadWord(std::vector<ShellText>* fields, bool splits, bool in_test = false);
  // Skips "> FILE", "2>&1", "<<EOF": true if there was one. The file of ">" goes to `target`.
  bool ReadRedirection(std::string* target);
  // The command that has a here-document ends: it writes to `target`, "" if to none.
  void EndHereCommand(const std::string& target);

  ShellText text;
  size_t at = 0;
  bool live = true;         // what is read acts; false within a branch that is not taken
  int depth = 0;            // of expansions within expansions
  bool keep_unset = false;  // a variable that nothing sets stays as written
  const std::string& name;
  ShellVariables& variables;
  Script& script;

 private:
  struct HereDocument {
    std::string end, target;
    bool expands = true, strips_tabs = false, is_live = true;
  };
  void ReadHereDocuments();
  // ${...} or $X or $((...)) or $(...), at "$": its fields; `is_list` of ${X[@]}.
  std::vector<ShellText> ReadExpansion(bool* is_list, bool quoted);
  std::vector<ShellText> ReadBraces(bool* is_list, bool quoted);
  std::vector<ShellText> Lookup(const std::string& variable, bool* known) const;
  std::vector<ShellText> Unset(size_t begin, int line, const std::string& variable, bool quoted);
  std::string ReadParenthesized();
  ShellText ExpandAll(const ShellText& source);

  std::vector<HereDocument> here_;  // whose text begins behind the end of the line
  size_t here_of_command_ = 0;      // those before it belong to earlier commands
};

}  // namespace oneflow::foreign
