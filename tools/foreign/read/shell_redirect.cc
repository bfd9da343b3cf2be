// Redirections and here-documents of a shell script.
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "tools/foreign/read/shell_words.h"

namespace oneflow::foreign {
namespace {

constexpr size_t kMostHereText = 1 << 18;

}  // namespace

bool ShellCursor::ReadRedirection(std::string* target) {
  const size_t begin = at;
  size_t look = at;
  while (look < text.chars.size() && absl::ascii_isdigit(text.chars[look])) ++look;
  if (look < text.chars.size() && text.chars[look] == '&' && look == at && Peek(1) == '>') ++look;
  const char c = look < text.chars.size() ? text.chars[look] : '\0';
  if (c != '<' && c != '>') return false;
  at = look;
  if (Looking("<<<")) {
    at += 3;
  } else if (Looking("<<")) {
    at += 2;
    HereDocument document;
    document.strips_tabs = Peek() == '-';
    if (document.strips_tabs) ++at;
    SkipBlanks();
    document.expands = Peek() != '\'' && Peek() != '"' && Peek() != '\\';
    std::vector<ShellText> word;
    const bool was_live = live;
    ReadWord(&word, /*splits=*/false);
    live = was_live;
    document.end = word.empty() ? "" : word[0].chars;
    document.is_live = live;
    here_.push_back(document);
    return true;
  } else if (Peek() == '<' && Peek(1) == '(') {
    ++at;
    Unread(Line(), text.chars.substr(begin, 20));
    ReadParenthesized();
    return true;
  } else {
    const bool out = Peek() == '>';
    while (Peek() == '<' || Peek() == '>' || Peek() == '|' || Peek() == '&') ++at;
    SkipBlanks();
    std::vector<ShellText> word;
    ReadWord(&word, /*splits=*/false);
    if (out && !word.empty() && text.chars[begin] != '2') *target = word[0].chars;
    return true;
  }
  SkipBlanks();
  std::vector<ShellText> word;
  ReadWord(&word, /*splits=*/false);
  return true;
}

void ShellCursor::EndHereCommand(const std::string& target) {
  for (; here_of_command_ < here_.size(); ++here_of_command_) {
    here_[here_of_command_].target = target;
  }
}

void ShellCursor::ReadHereDocuments() {
  for (const HereDocument& document : here_) {
    ShellText body;
    const int line = Line();
    while (!AtEnd()) {
      size_t end = text.chars.find('\n', at);
      if (end == std::string::npos) end = text.chars.size();
      size_t begin = at;
      while (document.strips_tabs && begin < end && text.chars[begin] == '\t') ++begin;
      std::string_view here = std::string_view(text.chars).substr(begin, end - begin);
      if (here.ends_with('\r')) here.remove_suffix(1);
      at = std::min(end + 1, text.chars.size());
      if (here == document.end) break;
      for (size_t i = begin; i < end; ++i) body.Add(text.chars[i], text.lines[i]);
      body.Add('\n', text.lines[begin < text.lines.size() ? begin : text.lines.size() - 1]);
    }
    if (!document.is_live || document.target.empty()) continue;
    ShellText written = body;
    if (document.expands) {
      // Quotes stay as they are in a here-document.
      ShellCursor inner(body, name, variables, script);
      inner.keep_unset = true;
      written = {};
      while (!inner.AtEnd() && written.chars.size() < kMostHereText) {
        if (inner.Peek() == '\\' &&
            std::string_view("$`\\").find(inner.Peek(1)) != std::string_view::npos) {
          written.Add(inner.Peek(1), inner.Line());
          inner.at += 2;
        } else if (inner.Peek() == '$' || inner.Peek() == '`') {
          bool is_list = false;
          bool is_first = true;
          for (const ShellText& part : inner.ReadExpansion(&is_list, /*quoted=*/true)) {
            if (!is_first) written.Add(' ', inner.Line());
            written.Add(part);
            is_first = false;
          }
        } else {
          written.Add(inner.Peek(), inner.Line());
          ++inner.at;
        }
      }
    }
    script.written.push_back({document.target, written.chars, line});
  }
  here_.clear();
  here_of_command_ = 0;
}

}  // namespace oneflow::foreign
