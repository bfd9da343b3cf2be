// UnnamedTokens: a file of token ids in $TMPDIR or /tmp that has no name: it is gone when nobody
// reads it any more.
//
//   ASSIGN_OR_RETURN(UnnamedTokens tokens, UnnamedTokens::Create("book.txt", tokenizer));
//   RETURN_IF_ERROR(tokens.Append(ids));   // any number of times
//   ASSIGN_OR_RETURN(TokenFile file, tokens.Finish());
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/data/token_file.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

class UnnamedTokens {
 public:
  // `path` is what the tokens are made of, for errors and as the name of the result. An id has two
  // bytes, or four where the vocabulary is above 65536. Errors: the folder cannot be written to.
  static absl::StatusOr<UnnamedTokens> Create(const std::string& path, const Tokenizer& tokenizer);
  UnnamedTokens(UnnamedTokens&& other) noexcept;
  UnnamedTokens& operator=(UnnamedTokens&&) = delete;
  ~UnnamedTokens();

  absl::Status Append(std::span<const int32_t> ids);
  int64_t tokens() const { return tokens_; }
  // For reading. Called once, after the last Append.
  absl::StatusOr<TokenFile> Finish();

 private:
  UnnamedTokens(std::string path, int descriptor, bool narrow, TokenizerId tokenizer)
      : path_(std::move(path)),
        descriptor_(descriptor),
        narrow_(narrow),
        tokenizer_(std::move(tokenizer)) {}
  absl::Status AppendBytes(std::span<const std::byte> bytes);

  std::string path_;
  int descriptor_;
  bool narrow_;  // an id has two bytes
  TokenizerId tokenizer_;
  int64_t tokens_ = 0;
  std::vector<uint16_t> ids_of_two_;  // kept for its memory
};

}  // namespace oneflow
