#include "absl/strings/str_cat.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {

std::vector<int64_t> SplitTitanLayers(int64_t slices, int64_t layers, int64_t first, int64_t last,
                                      std::string* why) {
  if (slices == 1) return {layers};
  const int64_t effective = layers + first + last;
  if (slices > effective) {
    *why = absl::StrCat("Number of stages (", slices, ") cannot be greater than effective layers (",
                        effective, ")");
    return {};
  }
  const int64_t even = effective / slices;
  for (const auto& [name, weight] : {std::pair("input_weight", first), {"output_weight", last}}) {
    if (weight > even) {
      *why = absl::StrCat(name, " (", weight, ") exceeds minimum layers per stage (", even, ").");
      return {};
    }
  }
  std::vector<int64_t> blocks(slices, even);
  for (int64_t slice = 0; slice < effective % slices; ++slice) ++blocks[slice];
  blocks.front() -= first;
  blocks.back() -= last;
  return blocks;
}

std::vector<int64_t> CountTitanModules(const std::vector<std::vector<std::string>>& parts) {
  std::vector<int64_t> blocks;
  for (const std::vector<std::string>& part : parts) {
    int64_t count = 0;
    for (const std::string& name : part) count += name.starts_with("layers.");
    blocks.push_back(count);
  }
  return blocks;
}

}  // namespace oneflow::foreign
