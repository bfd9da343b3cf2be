#include "tools/oneflow/model/tokenize_text.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

// The bytes of `text` to encode next: about a piece, or as much as must stay together.
size_t NextPiece(std::string_view text, const Tokenizer& tokenizer) {
  for (size_t limit = kPieceBytes; limit < text.size(); limit *= 2) {
    if (const size_t size = tokenizer.find_split(text, limit)) return size;
  }
  return text.size();
}

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The position at which to split `text`: at most `limit`, and no more than `reach` below it unless
// a character is in the way.
size_t CutNear(std::string_view text, const Tokenizer& tokenizer, size_t limit, size_t reach) {
  if (const size_t at = tokenizer.find_split(text, limit); limit - at <= reach) return at;
  for (size_t at = limit; at > 0 && limit - at <= reach; --at) {
    if (IsSpace(text[at]) && !IsSpace(text[at - 1])) return at;
  }
  size_t at = limit;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

bool EndsWith(const std::vector<int32_t>& ids, int32_t id) {
  return !ids.empty() && ids.back() == id;
}

}  // namespace

int64_t TextPart::bytes() const {
  size_t sum = 0;
  for (const TextPiece& piece : pieces) sum += piece.text.size();
  return static_cast<int64_t>(sum);
}

TextSplit SplitText(const std::vector<std::string_view>& documents, const Tokenizer& tokenizer,
                    double validation) {
  size_t all = 0;
  for (const std::string_view document : documents) all += document.size();
  auto left = static_cast<size_t>(static_cast<double>(all) * (1 - validation));  // for training
  const size_t reach = std::min(left, all - left) / 10;
  TextSplit split;
  for (size_t d = 0; d < documents.size(); ++d) {
    const std::string_view document = documents[d];
    const bool full = left >= document.size();
    const size_t size = full ? document.size() : CutNear(document, tokenizer, left, reach);
    left = full ? left - size : 0;
    const bool both = size > 0 && size < document.size();
    if (size > 0) split.train.pieces.push_back({document.substr(0, size), d, true, !both});
    if (size < document.size()) {
      split.validation.pieces.push_back({document.substr(size), d, !both, true});
    }
  }
  return split;
}

absl::StatusOr<EncodedCounts> EncodePieces(
    const TextPart& part, const Tokenizer& tokenizer, const TokenizeOptions& options,
    const std::function<absl::Status(std::span<const int32_t>)>& append,
    const std::function<void()>& on_piece) {
  EncodedCounts counts;
  std::vector<int32_t> end = tokenizer.end;
  if (options.end_of_text && !EndsWith(end, *tokenizer.end_of_text)) {
    end.push_back(*tokenizer.end_of_text);
  }
  std::vector<int32_t> ids;
  for (const TextPiece& piece : part.pieces) {
    if (piece.begins) RETURN_IF_ERROR(append(tokenizer.begin));
    int64_t tokens = 0;
    for (std::string_view text = piece.text; !text.empty();) {
      const size_t size = NextPiece(text, tokenizer);
      ids.clear();
      tokenizer.encode(text.substr(0, size), &ids);
      tokens += static_cast<int64_t>(ids.size());
      RETURN_IF_ERROR(append(ids));
      text.remove_prefix(size);
      if (options.on_progress) options.on_progress(static_cast<int64_t>(size));
    }
    if (piece.ends) RETURN_IF_ERROR(append(end));
    if (on_piece) on_piece();
    counts.text_tokens += tokens;
    if (tokens == 0) counts.silent.push_back(piece.document);
  }
  return counts;
}

absl::StatusOr<EncodedText> EncodeText(const TextPart& part, const Tokenizer& tokenizer,
                                       const std::string& path, const TokenizeOptions& options) {
  ASSIGN_OR_RETURN(TokenFileWriter file,
                   TokenFileWriter::Create(path, options.format, tokenizer.vocab, tokenizer.id));
  const auto append = [&](std::span<const int32_t> ids) { return file.Append(ids); };
  ASSIGN_OR_RETURN(EncodedCounts counts,
                   EncodePieces(part, tokenizer, options, append, [&] { file.EndDocument(); }));
  return EncodedText{std::move(file), std::move(counts)};
}

}  // namespace oneflow
