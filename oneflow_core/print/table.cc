#include "oneflow_core/print/table.h"

#include <algorithm>

#include "oneflow_core/base/wrap.h"

namespace oneflow {

std::string TableText(const std::vector<std::vector<std::string>>& rows,
                      std::vector<Column> columns, size_t indent) {
  for (const auto& row : rows) {
    for (size_t i = 0; row.size() > 1 && i < row.size(); ++i) {
      columns[i].least = std::max(columns[i].least, CountColumns(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t width = row.size() == 1 ? 0 : columns[i].least;
      const std::string blanks(width - std::min(width, CountColumns(row[i])), ' ');
      if (i > 0) line += "  ";
      line += columns[i].right ? blanks + row[i] : row[i] + blanks;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace oneflow
