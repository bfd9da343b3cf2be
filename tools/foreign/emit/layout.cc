#include "tools/foreign/emit/layout.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"

namespace oneflow::foreign {
namespace {

// "t*8", "t", "" of no block.
std::string BlocksText(int blocks) {
  if (blocks == 0) return "";
  return blocks == 1 ? "t" : absl::StrCat("t*", blocks);
}

}  // namespace

std::string MegatronLayout(const std::vector<int>& slices) {
  CHECK(!slices.empty());
  // "|" stands between slices. A run of equal ones is a group that ends with its bar, so the first
  // and the last slice are written apart.
  std::string text = "E" + BlocksText(slices.front());
  const size_t last = slices.size() - 1;
  if (last > 0) text += "|";
  for (size_t i = 1; i < last;) {
    size_t end = i;
    while (end < last && slices[end] == slices[i]) ++end;
    // Megatron-LM unrolls groups before letters, and a group holds no other one.
    const size_t count = end - i;
    const std::string slice = BlocksText(slices[i]) + "|";
    if (count > 1) {
      absl::StrAppend(&text, "(", slice, ")*", count);
    } else {
      text += slice;
    }
    i = end;
  }
  if (last > 0) text += BlocksText(slices.back());
  return text + (text.back() == '|' || text.back() == 'E' ? "L" : ",L");
}

std::vector<std::vector<std::string>> TorchtitanParts(const std::vector<int>& slices) {
  CHECK(!slices.empty());
  std::vector<std::vector<std::string>> parts(slices.size());
  int block = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (i == 0) parts[i].emplace_back("tok_embeddings");
    for (int end = block + slices[i]; block < end; ++block) {
      parts[i].push_back(absl::StrCat("layers.", block));
    }
  }
  parts.back().insert(parts.back().end(), {"norm", "output"});
  return parts;
}

MegatronEnds FindMegatronEnds(const std::vector<int>& slices, int stages) {
  MegatronEnds ends;
  const bool equal = std::all_of(slices.begin(), slices.end(),
                                 [&](int blocks) { return blocks == slices.front(); });
  if (equal && slices.front() > 0) return {.fits = true, .equal = true};
  if (static_cast<int>(slices.size()) != stages || stages < 3) return ends;
  const bool alike = std::all_of(slices.begin() + 1, slices.end() - 1,
                                 [&](int blocks) { return blocks == slices[1] && blocks > 0; });
  if (!alike || slices.front() <= 0 || slices.back() <= 0) return ends;
  return {.fits = true, .first = slices.front(), .last = slices.back()};
}

}  // namespace oneflow::foreign
