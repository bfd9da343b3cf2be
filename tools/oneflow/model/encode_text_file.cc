#include "tools/oneflow/model/encode_text_file.h"

#include <cstdio>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/model/text_progress.h"
#include "tools/oneflow/model/tokenize_text.h"
#include "tools/oneflow/model/unnamed_tokens.h"
#include "tools/oneflow/model/warn_of_text.h"
#include "training/data/doubt_text.h"
#include "training/data/text_reader.h"

namespace oneflow {

absl::StatusOr<TokenFile> EncodeTextFile(const std::string& path, const Tokenizer& tokenizer,
                                         bool ends, const std::string& key) {
  ASSIGN_OR_RETURN(const TextReader reader, OpenText(path, key));
  WarnOfText(path, reader.facts.doubt);
  ASSIGN_OR_RETURN(UnnamedTokens tokens, UnnamedTokens::Create(path, tokenizer));
  const auto append = [&](std::span<const int32_t> ids) { return tokens.Append(ids); };
  TextProgress progress(reader.facts.file_bytes);
  int64_t done = 0;
  TokenizeOptions options;
  options.end_of_text = ends && tokenizer.end_of_text.has_value();
  options.on_progress = [&](int64_t bytes) {
    done += bytes;
    progress.Add(bytes, reader.facts.is_file() ? done : reader.position());
  };
  DocumentEncoder encoder(tokenizer, options, append);
  TextDivider documents(tokenizer, {}, &encoder, nullptr);
  Utf8Check utf8;
  const bool checks = !reader.facts.records() && tokenizer.id != BytesTokenizerId();
  for (TextBlock block;;) {
    ASSIGN_OR_RETURN(const bool more, reader.next(&block));
    if (!more) break;
    if (checks) utf8.Add(block.text);
    RETURN_IF_ERROR(documents.Add(reader, block));
  }
  WarnOfText(path, utf8.Doubt(path));
  ASSIGN_OR_RETURN(TokenFile file, tokens.Finish());
  if (encoder.counts().text_tokens == 0) file.tokens = 0;
  PrintNotice(absl::StrFormat("%s: %d tokens by tokenizer %s", path,
                              static_cast<long long>(file.tokens), tokenizer.id.Text()));
  return file;
}

}  // namespace oneflow
