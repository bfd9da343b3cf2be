// Prints a table for people: cells beside each other, padded with blanks.
//
//   TableText({{"", "step"}, {"promised", "1.234 ms"}}, {{}, {.right = true}}, /*indent=*/2)
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace oneflow {

struct Column {
  bool right = false;  // as numbers are: its cells end at the same place
  size_t least = 0;    // columns that it takes at least
};

// Prints a line for each row, titles like others. A column is as wide as its widest cell, two
// blanks before the next, and `indent` before the first; no line ends with blanks. A row of one
// cell is a line of any width. Requires a column for each cell of the longest row.
std::string TableText(const std::vector<std::vector<std::string>>& rows,
                      std::vector<Column> columns, size_t indent = 0);

}  // namespace oneflow
