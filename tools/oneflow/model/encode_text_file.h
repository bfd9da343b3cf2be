// Encodes a text that `oneflow train` is given, once, before the first step.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "training/data/token_file.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

// The ids of the documents of `path` (text_reader.h; `key` is of JSON Lines and tables): those that
// `oneflow data` would write, with the ids of the tokenizer's template around each, and with `ends`
// the tokenizer's end of text (if it has one) after each. They are in a temporary file without a
// name, in $TMPDIR or /tmp, of two bytes a token, or four where the vocabulary is above 65536; it
// is gone when the result is. Memory does not grow with the text (DocumentEncoder). Progress is
// reported on stderr. A text of which the tokenizer makes no token has none. Errors: those of
// OpenText; the temporary file cannot be written.
absl::StatusOr<TokenFile> EncodeTextFile(const std::string& path, const Tokenizer& tokenizer,
                                         bool ends = false, const std::string& key = "text");

}  // namespace oneflow
