#include "training/chat/chat_lines.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<ChatLines> ChatLines::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return ChatLines(std::move(file));
}

absl::StatusOr<std::optional<ChatLine>> ChatLines::Next() {
  const std::string_view text(reinterpret_cast<const char*>(file_.bytes().data()),
                              file_.bytes().size());
  while (at_ < text.size()) {
    const size_t end = std::min(text.find('\n', at_), text.size());
    const std::string_view line = text.substr(at_, end - at_);
    at_ = end + (end < text.size());
    ++line_;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    return ChatLine{std::string(line), absl::StrCat(file_.path(), ":", line_)};
  }
  return std::nullopt;
}

}  // namespace oneflow
