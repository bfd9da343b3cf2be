#include "training/chat/chat_lines.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/data/text_reader.h"

namespace oneflow {
namespace {

constexpr std::string_view kRowsScript =
#include "training/chat/table_rows.inc"
    ;

}  // namespace

absl::StatusOr<ChatLines> ChatLines::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const TextFacts facts, LookAtText(path));
  ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(path));
  ChatLines lines(path, std::make_shared<ByteStream>(std::move(stream)));
  if (facts.kind == TextKind::kPlain || facts.kind == TextKind::kJsonLines) return lines;
  ASSIGN_OR_RETURN(PythonScript script,
                   PythonScript::Start({.source = kRowsScript,
                                        .arguments = {std::string(TableFormat(facts.kind)), path},
                                        .purpose = "reading " + path}));
  lines.table_.emplace(std::move(script));
  return lines;
}

absl::StatusOr<std::optional<ChatLine>> ChatLines::Next() {
  if (!table_) {
    ASSIGN_OR_RETURN(const std::optional<std::string_view> line, lines_.Next());
    if (!line) return std::nullopt;
    return ChatLine{std::string(*line), lines_.location()};
  }
  ASSIGN_OR_RETURN(const std::optional<std::string_view> row, table_->ReadLine());
  if (!row) return std::nullopt;
  ++row_;
  return ChatLine{std::string(*row), absl::StrCat(path_, ", row ", row_)};
}

}  // namespace oneflow
