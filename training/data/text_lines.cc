#include "training/data/text_lines.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kLongestLine = size_t{1} << 30;

}  // namespace

std::string TextLines::location() const { return absl::StrCat(path_, ":", number_); }

absl::StatusOr<std::optional<std::string_view>> TextLines::Take() {
  joined_.clear();
  for (;;) {
    const size_t end = block_.find('\n');
    if (end != block_.npos) {
      const std::string_view rest = block_.substr(0, end);
      block_.remove_prefix(end + 1);
      if (joined_.empty()) return rest;
      joined_ += rest;
      return joined_;
    }
    joined_ += block_;
    if (joined_.size() > kLongestLine) {
      return InputError(absl::StrCat(path_, ":", number_ + 1), "is a line of more than 1 GiB",
                        "put each document on a line");
    }
    ASSIGN_OR_RETURN(block_, stream_->Next());
    if (!block_.empty()) continue;
    if (joined_.empty()) return std::nullopt;
    return joined_;
  }
}

absl::StatusOr<std::optional<std::string_view>> TextLines::Next() {
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<std::string_view> line, Take());
    if (!line) return std::nullopt;
    ++number_;
    if (number_ == 1 && line->starts_with("\xef\xbb\xbf")) line->remove_prefix(3);
    if (line->find_first_not_of(" \t\r") != line->npos) return line;
  }
}

}  // namespace oneflow
