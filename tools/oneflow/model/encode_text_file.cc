#include "tools/oneflow/model/encode_text_file.h"

#include <cstdio>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"
#include "tools/oneflow/model/text_progress.h"
#include "tools/oneflow/model/tokenize_text.h"
#include "tools/oneflow/model/unnamed_tokens.h"
#include "tools/oneflow/model/warn_of_text.h"
#include "training/data/mapped_file.h"

namespace oneflow {

absl::StatusOr<TokenFile> EncodeTextFile(const std::string& path, const Tokenizer& tokenizer,
                                         bool ends) {
  ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(path));
  ASSIGN_OR_RETURN(UnnamedTokens tokens, UnnamedTokens::Create(path, tokenizer));
  const auto append = [&](std::span<const int32_t> ids) { return tokens.Append(ids); };
  TextProgress progress(std::ssize(text.bytes()));
  TokenizeOptions options;
  options.end_of_text = ends && tokenizer.end_of_text.has_value();
  options.on_progress = [&](int64_t bytes) { progress.Add(bytes); };
  const std::string_view bytes(reinterpret_cast<const char*>(text.bytes().data()),
                               text.bytes().size());
  WarnOfEncoding(path, bytes);
  TextPart part;
  part.pieces.push_back({bytes});
  EncodedCounts counts;
  if (!text.bytes().empty()) {
    ASSIGN_OR_RETURN(counts, EncodePieces(part, tokenizer, options, append));
  }
  ASSIGN_OR_RETURN(TokenFile file, tokens.Finish());
  if (counts.text_tokens == 0) file.tokens = 0;
  std::fprintf(stderr, "oneflow: %s: %lld tokens by tokenizer %s\n", path.c_str(),
               static_cast<long long>(file.tokens), tokenizer.id.Text().c_str());
  return file;
}

}  // namespace oneflow
