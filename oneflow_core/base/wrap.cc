#include "oneflow_core/base/wrap.h"

#include <algorithm>
#include <cstddef>

namespace oneflow {
namespace {

// A byte that begins a character of UTF-8.
bool Begins(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

void AppendWrapped(std::string_view line, int columns, int indent, std::string* text) {
  // Blanks before the first word are no place to break.
  size_t words = std::min(line.find_first_not_of(' '), line.size());
  int used = 0;
  for (size_t fits = BytesOfColumns(line, columns); fits < line.size();
       fits = BytesOfColumns(line, columns - used)) {
    size_t end = line.rfind(' ', fits);
    if (end == std::string_view::npos || end < words) end = line.find(' ', std::max(fits, words));
    if (end == std::string_view::npos) break;
    const size_t next = line.find_first_not_of(' ', end);
    if (next == std::string_view::npos) break;
    const std::string_view head = line.substr(0, end);
    *text += head.substr(0, head.find_last_not_of(' ') + 1);
    *text += '\n' + std::string(static_cast<size_t>(indent), ' ');
    line.remove_prefix(next);
    words = 0;
    used = indent;
  }
  *text += line;
}

}  // namespace

size_t CountColumns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), Begins));
}

size_t BytesOfColumns(std::string_view text, int columns) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (Begins(text[at]) && --columns < 0) break;
  }
  return at;
}

std::string WrapLines(std::string_view text, int columns, int indent) {
  std::string wrapped;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    AppendWrapped(text.substr(0, end), columns, indent, &wrapped);
    if (end == std::string_view::npos) break;
    wrapped += '\n';
    text.remove_prefix(end + 1);
  }
  return wrapped;
}

}  // namespace oneflow
