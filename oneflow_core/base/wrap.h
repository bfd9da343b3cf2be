// Wraps long lines of a printed text for readers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace oneflow {

// Columns of lines that are printed for people and stored as expected texts.
inline constexpr int kTextColumns = 120;

// Characters of UTF-8, each of which is one column; and the bytes of the first `columns`.
size_t CountColumns(std::string_view text);
size_t BytesOfColumns(std::string_view text, int columns);

// Breaks every line of more than `columns` at blanks; the rest of the line follows after `indent`
// blanks. Other lines stay as they are, and so do blanks at the beginning of lines and between
// their words. A wider word gets a line of its own. A character of UTF-8 is one column.
//
//   WrapLines("  a = add b c d\n", 10, 6) is "  a = add\n      b c\n      d\n"
//
// Requires 0 <= indent < columns.
std::string WrapLines(std::string_view text, int columns = kTextColumns, int indent = 6);

}  // namespace oneflow
