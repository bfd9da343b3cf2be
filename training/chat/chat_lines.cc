#include "training/chat/chat_lines.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/data/text_reader.h"

namespace oneflow {
namespace {

constexpr std::string_view kRowsScript =
#include "training/chat/table_rows.inc"
    ;

constexpr size_t kLongestChat = size_t{1} << 30;  // bytes

std::string_view NameOfKind(TextKind kind) {
  if (kind == TextKind::kParquet) return "parquet";
  return kind == TextKind::kArrowFile ? "arrow" : "stream";
}

}  // namespace

absl::StatusOr<ChatLines> ChatLines::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const TextFacts facts, LookAtText(path));
  ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(path));
  ChatLines lines(path, std::move(stream));
  if (facts.kind == TextKind::kPlain || facts.kind == TextKind::kJsonLines) return lines;
  ASSIGN_OR_RETURN(PythonScript script,
                   PythonScript::Start({.source = kRowsScript,
                                        .arguments = {std::string(NameOfKind(facts.kind)), path},
                                        .purpose = "reading " + path}));
  lines.table_.emplace(std::move(script));
  return lines;
}

absl::StatusOr<bool> ChatLines::NextLine() {
  line_.clear();
  if (table_) {
    ASSIGN_OR_RETURN(const std::optional<std::string_view> row, table_->ReadLine());
    if (row) line_ = *row;
    return row.has_value();
  }
  for (;;) {
    const size_t end = block_.find('\n');
    line_ += block_.substr(0, end);
    if (line_.size() > kLongestChat) {
      return InputError(absl::StrCat(path_, ":", number_ + 1), "is a line of more than 1 GiB",
                        "put each chat on a line");
    }
    if (end != block_.npos) {
      block_.remove_prefix(end + 1);
      return true;
    }
    ASSIGN_OR_RETURN(block_, stream_.Next());
    if (block_.empty()) return !line_.empty();
  }
}

absl::StatusOr<std::optional<ChatLine>> ChatLines::Next() {
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, NextLine());
    if (!more) return std::nullopt;
    ++number_;
    if (line_.find_first_not_of(" \t\r") == line_.npos) continue;
    return ChatLine{line_, absl::StrCat(path_, table_ ? ", row " : ":", number_)};
  }
}

}  // namespace oneflow
