#include "oneflow_core/recipe/row.h"

#include <algorithm>

namespace oneflow {

const Row* FindRow(std::span<const Row> rows, std::string_view name) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace oneflow
