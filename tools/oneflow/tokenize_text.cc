#include "tools/oneflow/tokenize_text.h"

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

// How much of `text` to encode next: about a piece, or as much as must stay together.
size_t NextPiece(std::string_view text, const Tokenizer& tokenizer) {
  for (size_t limit = kPieceBytes; limit < text.size(); limit *= 2) {
    if (const size_t size = tokenizer.cut(text, limit)) return size;
  }
  return text.size();
}

}  // namespace

int64_t TextPart::bytes() const {
  size_t sum = 0;
  for (const std::string_view document : documents) sum += document.size();
  return static_cast<int64_t>(sum);
}

TextSplit SplitText(const std::vector<std::string_view>& documents, const Tokenizer& tokenizer,
                    double validation) {
  const auto all = static_cast<double>(TextPart{documents}.bytes());
  auto left = static_cast<size_t>(all * (1 - validation));  // for training
  TextSplit split;
  for (const std::string_view document : documents) {
    const bool whole = left >= document.size();
    const size_t size = whole ? document.size() : tokenizer.cut(document, left);
    left = whole ? left - size : 0;
    if (size > 0) split.train.documents.push_back(document.substr(0, size));
    if (size < document.size()) split.validation.documents.push_back(document.substr(size));
  }
  return split;
}

absl::StatusOr<TokenizedFile> TokenizeText(const TextPart& part, const Tokenizer& tokenizer,
                                           const std::string& path,
                                           const TokenizeOptions& options) {
  ASSIGN_OR_RETURN(TokenFileWriter out,
                   TokenFileWriter::Create(path, options.format, tokenizer.vocab));
  std::vector<int32_t> ids;
  for (std::string_view text : part.documents) {
    while (!text.empty()) {
      const size_t size = NextPiece(text, tokenizer);
      ids.clear();
      tokenizer.encode(text.substr(0, size), &ids);
      RETURN_IF_ERROR(out.Append(ids));
      text.remove_prefix(size);
      if (options.on_progress) options.on_progress(static_cast<int64_t>(size));
    }
    if (options.end_of_text) RETURN_IF_ERROR(out.Append({&*tokenizer.end_of_text, 1}));
    out.EndDocument();
  }
  RETURN_IF_ERROR(out.Finish());
  return TokenizedFile{path, part.bytes(), out.tokens(), out.token_bytes()};
}

}  // namespace oneflow
