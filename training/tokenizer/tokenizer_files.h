// TokenizerFiles: the files of a tokenizer, which travel with what it made: `oneflow data` puts
// them beside its token files, a checkpoint contains them, and text is generated with those of the
// checkpoint.
//
//   ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(spec));
//   ASSIGN_OR_RETURN(TokenizerFiles files,
//                    ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops, tokenizer.config));
//   RETURN_IF_ERROR(WriteTokenizerFiles(files, "run/data/tokenizer"));
//   ... elsewhere ...
//   ASSIGN_OR_RETURN(tokenizer, LoadTokenizer(TokenizerSpecIn("run/data/tokenizer")));
//
// It does not parse them: LoadTokenizer does (tokenizer.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/tokenizer/tokenizer_id.h"

namespace oneflow {

// Begins a spec that names a folder with vocab.json and merges.txt.
inline constexpr std::string_view kGpt2 = "gpt2:";

struct TokenizerFiles {
  struct File {
    // vocab.json and merges.txt, tokenizer.json, or tokenizer.model, whatever the file was called;
    // and tokenizer_config.json, which says more of them; chat_template.jinja beside them.
    std::string name;
    std::string bytes;
    bool operator==(const File&) const = default;
  };

  TokenizerId id;
  std::vector<int32_t> stops;  // a generated text ends after any of these ids
  std::vector<File> files;     // of one kind; none: a byte is a token
  bool operator==(const TokenizerFiles&) const = default;
};

// The files of `spec`, as LoadTokenizer takes it; id, stops and config are those of the loaded
// tokenizer. Errors: a file cannot be read.
absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& spec, const TokenizerId& id,
                                                  const std::vector<int32_t>& stops,
                                                  const std::string& config);

// Writes the files into `folder`, which it makes where it is missing, and removes files of another
// kind of tokenizer there, and no others. An empty folder that it leaves is removed.
absl::Status WriteTokenizerFiles(const TokenizerFiles& files, const std::string& folder);

// The spec of the tokenizer, for LoadTokenizer, whose files are in `folder`:
// "FOLDER/tokenizer.json" before "FOLDER/tokenizer.model" and "gpt2:FOLDER". Empty if there is
// none.
std::string TokenizerSpecIn(const std::string& folder);

}  // namespace oneflow
