// Token files as one long sequence of ids.
//
//   *.bin          raw little-endian uint16 ids (nanoGPT's format), no header
//   anything else  bytes; each byte is a token, so the vocabulary is at most 256
//
//   ASSIGN_OR_RETURN(TokenDataset data, OpenTokens({"tinyshakespeare.txt"}, 256, 64));
//   ASSIGN_OR_RETURN(TokenSplit split, SplitTokens(data, 0.1, 64));
//   TokenSampler source(split.train, /*seed=*/1);
//
// Not a tokenizer: it never changes what the files hold. Files are mapped, not read; several are
// joined in the order given.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/data/mapped_file.h"

namespace oneflow {

// A view of part of the joined files: cheap to copy, immutable, thread-safe.
class TokenDataset {
 public:
  int64_t size() const { return end_ - begin_; }
  // Tokens [position, position + tokens.size()), which must lie inside. Allocates nothing.
  void Read(int64_t position, std::span<int32_t> tokens) const;
  // Tokens [begin, end) of this view.
  TokenDataset Part(int64_t begin, int64_t end) const;
  // Path of the first file, for messages.
  const std::string& path() const;

 private:
  friend absl::StatusOr<TokenDataset> OpenTokens(const std::vector<std::string>&, int64_t, int64_t);
  struct File {
    MappedFile file;
    int64_t begin, size;  // tokens, in the joined sequence
    int token_bytes;      // 1 or 2
  };
  using Files = std::vector<File>;

  TokenDataset(std::shared_ptr<const Files> files, int64_t begin, int64_t end)
      : files_(std::move(files)), begin_(begin), end_(end) {}

  std::shared_ptr<const Files> files_;  // sorted by begin
  int64_t begin_, end_;
};

// Opens the files and checks every token. Errors: no or unreadable file, a *.bin of odd size, a
// token outside [0, vocab) (with its position), fewer than sequence + 1 tokens in all.
absl::StatusOr<TokenDataset> OpenTokens(const std::vector<std::string>& paths, int64_t vocab,
                                        int64_t sequence);

struct TokenSplit {
  TokenDataset train, validation;
};

// The last `validation` of the tokens, 0 <= validation < 1, are for validation. Each part must hold
// sequence + 1 tokens, but validation = 0 leaves that part empty.
absl::StatusOr<TokenSplit> SplitTokens(const TokenDataset& data, double validation,
                                       int64_t sequence);

}  // namespace oneflow
