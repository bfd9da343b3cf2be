// Long lines of a printed text, wrapped for readers.
#pragma once

#include <string>
#include <string_view>

namespace oneflow {

// Columns of lines that are printed for people and stored as expected texts.
inline constexpr int kTextColumns = 120;

// The text with every line of more than `columns` broken at blanks; what follows a break stands
// after `indent` blanks. Other lines stay as they are, blanks at their beginning and between their
// words, too. A word that is wider than a line has one alone. A character of UTF-8 is one column.
//
//   WrapLines("  a = add b c d\n", 10, 6) is "  a = add\n      b c\n      d\n"
//
// Requires 0 <= indent < columns.
std::string WrapLines(std::string_view text, int columns = kTextColumns, int indent = 6);

}  // namespace oneflow
