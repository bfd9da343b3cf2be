#include "training/tokenizer/write_pieces.h"

namespace oneflow {

std::string WritePieces(std::string_view text, SpaceInFront space, bool first) {
  const bool has_space = text.starts_with(' ') || text.starts_with(kMetaSpace);
  const bool may_add = space != SpaceInFront::kNone && !text.empty() &&
                       (first || space != SpaceInFront::kFirstUnlessThere);
  std::string written(may_add && (!has_space || space == SpaceInFront::kAlways) ? kMetaSpace : "");
  for (const char c : text) c == ' ' ? written += kMetaSpace : written += c;
  return written;
}

}  // namespace oneflow
