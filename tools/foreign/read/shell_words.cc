#include "tools/foreign/read/shell_words.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/foreign/read/shell_arithmetic.h"

namespace oneflow::foreign {
namespace {

constexpr int kMostDepth = 40;         // of expansions within expansions
constexpr size_t kMostText = 1 << 18;  // of one word
constexpr size_t kMostFields = 20000;  // of one command

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool StartsName(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool ContinuesName(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// What is not read, as one word, which stays one where a shell reads it again: "$(date +%s)" is
// "$(date...)".
ShellText AsWritten(std::string written, int line) {
  const size_t blank = written.find_first_of(" \t\r\n'\"|;&");
  if (blank != std::string::npos) {
    const char close = written[0] == '`' ? '`' : written.starts_with("${") ? '}' : ')';
    const bool doubled = written.starts_with("$((");
    written = written.substr(0, std::max<size_t>(blank, 2));
    std::replace_if(written.begin(), written.end(), absl::ascii_isspace, '.');
    written += doubled ? "...))" : "...";
    if (!doubled) written += close;
  }
  ShellText same;
  same.Add(written, line);
  return same;
}

}  // namespace

int ShellCursor::Line() const {
  if (text.lines.empty()) return 1;
  return text.lines[std::min(at, text.lines.size() - 1)];
}

std::string ShellCursor::Place(int line) const { return absl::StrCat(name, ":", line); }

void ShellCursor::Unread(int line, std::string_view what) {
  if (!live) return;
  std::string short_text(what.substr(0, what.find('\n')));
  // It was named where it stands.
  if (short_text.ends_with("...)") || short_text.ends_with("...`") ||
      short_text.ends_with("...}")) {
    return;
  }
  if (short_text.size() > 80) short_text = short_text.substr(0, 77) + "...";
  const std::string note = absl::StrCat(Place(line), ": ", short_text);
  auto& unread = script.unread;
  if (std::find(unread.begin(), unread.end(), note) == unread.end()) unread.push_back(note);
}

void ShellCursor::SkipBlanks() {
  while (!AtEnd()) {
    if (IsBlank(Peek()) || Peek() == '\r') {
      ++at;
    } else if (Looking("\\\n")) {
      at += 2;
    } else if (Looking("\\\r\n")) {
      at += 3;
    } else {
      break;
    }
  }
}

void ShellCursor::SkipSeparators() {
  while (!AtEnd()) {
    SkipBlanks();
    if (Peek() == '#') {
      while (!AtEnd() && Peek() != '\n') ++at;
    }
    if (Peek() == '\n') {
      ++at;
      ReadHereDocuments();
    } else if ((Peek() == ';' && Peek(1) != ';') || (Peek() == '&' && Peek(1) != '&')) {
      ++at;
    } else {
      break;
    }
  }
}

std::string ShellCursor::PeekWord() const {
  if (AtEnd()) return "";
  size_t end = at;
  while (end < text.chars.size() && !IsBlank(text.chars[end]) &&
         std::string_view("\n;&|()<>\r").find(text.chars[end]) == std::string_view::npos) {
    ++end;
  }
  return text.chars.substr(at, end - at);
}

bool ShellCursor::TakeWord(std::string_view word) {
  SkipSeparators();
  if (PeekWord() != word) return false;
  at += word.size();
  return true;
}

bool ShellCursor::ReadWord(std::vector<ShellText>* fields, bool splits, bool in_test) {
  ShellText field;
  bool any = false;   // the field exists, though it may be empty: it has quotes
  bool read = false;  // there was a word
  const auto end_field = [&] {
    if (any || !field.chars.empty()) fields->push_back(std::move(field));
    field = {};
    any = false;
  };
  const auto add_expansion = [&](bool quoted) {
    bool is_list = false;
    const std::vector<ShellText> parts = ReadExpansion(&is_list, quoted);
    for (size_t i = 0; i < parts.size(); ++i) {
      // A script that doubles its own variables has no end.
      if (field.chars.size() + parts[i].chars.size() > kMostText || fields->size() > kMostFields) {
        Unread(Line(), "a text without end");
        break;
      }
      if (i > 0) {
        // A="${LIST[@]}" is one text.
        if (splits && (is_list || !quoted)) {
          end_field();
        } else {
          field.Add(' ', Line());
        }
      }
      if (quoted || !splits) {
        field.Add(parts[i]);
        continue;
      }
      for (size_t k = 0; k < parts[i].chars.size(); ++k) {
        const char c = parts[i].chars[k];
        if (absl::ascii_isspace(c)) {
          end_field();
        } else {
          field.Add(c, parts[i].lines[k]);
        }
      }
    }
    // "${EMPTY[@]}" is no word.
    if (quoted && !(is_list && parts.empty())) any = true;
  };
  while (!AtEnd()) {
    const char c = Peek();
    const std::string_view ends = in_test ? " \t\n\r" : " \t\n\r;&|<>()";
    if (ends.find(c) != std::string_view::npos) {
      if (!in_test && c == '(' && read) Unread(Line(), text.chars.substr(at, 20));
      break;
    }
    if (in_test && (Looking("]]") && !read)) break;
    read = true;
    if (c == '\\') {
      if (Peek(1) == '\n') {
        at += 2;
        continue;
      }
      if (Peek(1) == '\r' && Peek(2) == '\n') {
        at += 3;
        continue;
      }
      if (Peek(1) != '\0') field.Add(Peek(1), Line());
      at += 2;
    } else if (c == '\'') {
      any = true;
      ++at;
      while (!AtEnd() && Peek() != '\'') {
        field.Add(Peek(), Line());
        ++at;
      }
      ++at;
    } else if (c == '"') {
      ++at;
      any = any || Peek() == '"';
      while (!AtEnd() && Peek() != '"') {
        if (Peek() == '\\' &&
            std::string_view("\\\"$`\n").find(Peek(1)) != std::string_view::npos) {
          if (Peek(1) != '\n') field.Add(Peek(1), Line());
          at += 2;
        } else if (Peek() == '$' || Peek() == '`') {
          add_expansion(/*quoted=*/true);
        } else {
          field.Add(Peek(), Line());
          ++at;
        }
      }
      ++at;
    } else if (c == '$' || c == '`') {
      if (c == '$' && Peek(1) == '\'') {
        ++at;  // $'...' is read as '...'
        continue;
      }
      add_expansion(/*quoted=*/false);
    } else {
      field.Add(c, Line());
      ++at;
    }
  }
  end_field();
  return read;
}

std::vector<ShellText> ShellCursor::Lookup(const std::string& variable, bool* known) const {
  const auto found = variables.find(variable == "*" ? "@" : variable);
  *known = found != variables.end();
  if (!*known || found->second.elements.empty()) return {};
  if (variable == "@" || variable == "*") return found->second.elements;
  return {found->second.elements[0]};
}

// The text as written, of which a reader says later that it is no number; or nothing.
std::vector<ShellText> ShellCursor::Unset(size_t begin, int line, const std::string& variable,
                                          bool quoted) {
  const char before = begin > 0 ? text.chars[begin - 1] : ' ';
  const char after = Peek();
  const bool is_part =
      quoted || !absl::ascii_isspace(before) || !(absl::ascii_isspace(after) || after == '\0');
  const bool is_argument =
      variable == "@" || variable == "*" || (!variable.empty() && absl::ascii_isdigit(variable[0]));
  if (!is_argument) Unread(line, absl::StrCat("$", variable, ", which nothing sets"));
  if (is_argument || (!is_part && !keep_unset)) return {};
  ShellText as_written;
  as_written.Add(text.chars.substr(begin, at - begin), line);
  return {as_written};
}

// The text between two parentheses, the first of which is here; ends behind the last.
std::string ShellCursor::ReadParenthesized() {
  const size_t begin = at + 1;
  int open = 0;
  char quote = '\0';
  for (; !AtEnd(); ++at) {
    const char c = Peek();
    if (quote != '\0') {
      if (c == '\\' && quote == '"') {
        ++at;
      } else if (c == quote) {
        quote = '\0';
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(') {
      ++open;
    } else if (c == ')' && --open == 0) {
      ++at;
      return text.chars.substr(begin, at - 1 - begin);
    }
  }
  return text.chars.substr(std::min(begin, text.chars.size()));
}

std::vector<ShellText> ShellCursor::ReadExpansion(bool* is_list, bool quoted) {
  const size_t begin = at;
  const int line = Line();
  const auto as_written = [&] {
    return std::vector<ShellText>{AsWritten(text.chars.substr(begin, at - begin), line)};
  };
  if (Peek() == '`') {
    const size_t end = text.chars.find('`', at + 1);
    at = end == std::string::npos ? text.chars.size() : end + 1;
    Unread(line, text.chars.substr(begin, at - begin));
    return as_written();
  }
  ++at;
  if (Looking("((")) {
    ++at;
    const std::string inside = ReadParenthesized();
    if (Peek() == ')') ++at;
    const std::optional<long long> value = EvaluateArithmetic(inside, variables);
    if (!value) {
      Unread(line, text.chars.substr(begin, at - begin));
      return as_written();
    }
    ShellText number;
    number.Add(absl::StrCat(*value), line);
    return {number};
  }
  if (Peek() == '(') {
    ReadParenthesized();
    Unread(line, text.chars.substr(begin, at - begin));
    return as_written();
  }
  if (Peek() == '{') return ReadBraces(is_list, quoted);
  std::string variable;
  if (StartsName(Peek())) {
    while (ContinuesName(Peek())) {
      variable += Peek();
      ++at;
    }
  } else if (absl::ascii_isdigit(Peek()) ||
             std::string_view("@*#?$!-").find(Peek()) != std::string_view::npos) {
    if (AtEnd()) return as_written();
    variable = Peek();
    ++at;
    *is_list = variable == "@";
  } else {
    return as_written();
  }
  bool known = false;
  std::vector<ShellText> value = Lookup(variable, &known);
  return known ? value : Unset(begin, line, variable, quoted);
}

// ${X}, ${X[@]}, ${X[2]}, ${#X[@]}, ${X:-default} and the like; at "{".
std::vector<ShellText> ShellCursor::ReadBraces(bool* is_list, bool quoted) {
  const size_t begin = at - 1;
  const int line = Line();
  ++at;
  const auto skip_to_end = [&] {
    int open = 1;
    while (!AtEnd() && open > 0) {
      open += Peek() == '{' ? 1 : Peek() == '}' ? -1 : 0;
      ++at;
    }
  };
  const auto not_read = [&] {
    skip_to_end();
    Unread(line, text.chars.substr(begin, at - begin));
    return std::vector<ShellText>{AsWritten(text.chars.substr(begin, at - begin), line)};
  };
  if (depth > kMostDepth) return not_read();
  const bool counts = Peek() == '#' && StartsName(Peek(1));
  if (counts) ++at;
  std::string variable;
  while (ContinuesName(Peek()) || (variable.empty() && (Peek() == '@' || Peek() == '*'))) {
    variable += Peek();
    ++at;
  }
  const bool is_all = variable == "@" || variable == "*";
  const auto found = variables.find(is_all ? "@" : variable);
  const bool known = found != variables.end();
  std::vector<ShellText> value;
  if (known && !found->second.elements.empty()) value = {found->second.elements[0]};
  if (known && is_all) {
    value = found->second.elements;
    *is_list = variable == "@";
  }
  if (Peek() == '[') {
    const size_t close = text.chars.find(']', at);
    if (close == std::string::npos) return not_read();
    const std::string index = text.chars.substr(at + 1, close - at - 1);
    at = close + 1;
    if (index == "@" || index == "*") {
      *is_list = index == "@";
      if (known) value = found->second.elements;
    } else {
      const std::optional<long long> i = EvaluateArithmetic(index, variables);
      if (!i) return not_read();
      value.clear();
      if (known && *i >= 0 && *i < static_cast<long long>(found->second.elements.size())) {
        value = {found->second.elements[*i]};
      }
    }
  }
  if (counts) {
    if (Peek() != '}' || !known) return not_read();
    ++at;
    ShellText number;
    number.Add(absl::StrCat(found->second.is_array ? value.size()
                            : value.empty()        ? 0
                                                   : value[0].chars.size()),
               line);
    return {number};
  }
  if (Peek() == '}') {
    ++at;
    return known ? value : Unset(begin, line, variable, quoted);
  }
  // ${X:-word}, ${X-word}, ${X:=word}, ${X:+word}, ${X:?word}
  const bool colon = Peek() == ':';
  const char op = Peek(colon ? 1 : 0);
  if (std::string_view("-=+?").find(op) == std::string_view::npos) return not_read();
  at += colon ? 2 : 1;
  const size_t word_begin = at;
  int open = 1;
  while (!AtEnd()) {
    if (Peek() == '\\') {
      ++at;
    } else if (Peek() == '{') {
      ++open;
    } else if (Peek() == '}' && --open == 0) {
      break;
    }
    ++at;
  }
  ShellText word;
  for (size_t i = word_begin; i < std::min(at, text.chars.size()); ++i) {
    word.Add(text.chars[i], text.lines[i]);
  }
  if (!AtEnd()) ++at;
  bool is_empty = true;
  for (const ShellText& part : value) is_empty = is_empty && part.chars.empty();
  const bool is_set = known && !(colon && is_empty);
  if (op == '+' ? !is_set : is_set) return op == '+' ? std::vector<ShellText>{} : value;
  if (op == '?') return Unset(begin, line, variable, quoted);
  const ShellText expanded = ExpandAll(word);
  if (op == '=' && live) variables[variable] = {{expanded}, false};
  return {expanded};
}

// Expansions and quotes of a text, without splitting it.
ShellText ShellCursor::ExpandAll(const ShellText& source) {
  ShellCursor inner(source, name, variables, script);
  inner.live = live;
  inner.keep_unset = true;
  inner.depth = depth + 1;
  ShellText result;
  while (!inner.AtEnd() && result.chars.size() < kMostText) {
    const char c = inner.Peek();
    if (absl::ascii_isspace(c) || std::string_view(";&|<>()").find(c) != std::string_view::npos) {
      result.Add(c, inner.Line());
      ++inner.at;
      continue;
    }
    std::vector<ShellText> fields;
    const size_t before = inner.at;
    inner.ReadWord(&fields, /*splits=*/false);
    for (const ShellText& field : fields) result.Add(field);
    if (inner.at == before) ++inner.at;
  }
  return result;
}

}  // namespace oneflow::foreign
