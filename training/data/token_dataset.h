// TokenDataset: token files (their kinds: token_file.h) as one long sequence of ids.
//
//   ASSIGN_OR_RETURN(TokenDataset data, TokenDataset::Open({"shakespeare.txt"}, 256, 64));
//   ASSIGN_OR_RETURN(TokenSplit split, SplitTokens(data, 0.1, 64));
//   std::unique_ptr<TokenSource> source = split.train.Source(/*seed=*/1);
//
// It is not a tokenizer: it never changes the ids of the files. Files stay open, and are read where
// they are needed; several are joined in the order given.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/run_context.h"
#include "training/data/token_file.h"

namespace oneflow {

// A view of part of the joined files: cheap to copy, immutable, thread-safe.
class TokenDataset {
 public:
  // Opens the files and checks every token. Errors: no file, one that OpenTokenFile refuses, a
  // token outside [0, vocab) (with its position), files of two tokenizers, fewer than sequence + 1
  // tokens in all, but where a file is of chats, which have any length (record_set.h).
  static absl::StatusOr<TokenDataset> Open(const std::vector<std::string>& paths, int64_t vocab,
                                           int64_t sequence);

  // The same of files that are open. `files` is not empty.
  static absl::StatusOr<TokenDataset> Make(std::vector<TokenFile> files, int64_t vocab,
                                           int64_t sequence);

  int64_t size() const { return end_ - begin_; }
  // Tokens [position, position + tokens.size()), which must be inside. Errors: those of
  // DataFile::Read, and a token outside the vocabulary, because the file was written to since it
  // was opened. Allocates nothing.
  absl::Status Read(int64_t position, std::span<int32_t> tokens) const;
  // Tokens [begin, end) of this view.
  TokenDataset Part(int64_t begin, int64_t end) const;
  // Draws the sequences of every step, with replacement. Sample s of step t starts at a position
  // that is uniform over all positions with room for it, and a function of (seed, t, s) alone, not
  // of earlier draws, of the mesh or of micro-batches. So a resumed run goes on with exactly the
  // data of an uninterrupted one. It is not an epoch: in one pass some sequences come twice, some
  // never. Steps and samples must be below TokenSource::kMost.
  std::unique_ptr<TokenSource> Source(uint64_t seed) const;
  // Reads each token but the first once as a label, in order. Sample s of step t is window
  // t * batch + s: its labels are the `length` tokens behind those of the window before, each of
  // which sees the ones before it in its window. The missing end of windows is padding, as are
  // samples behind the last window.
  std::unique_ptr<TokenSource> Pass(int64_t batch) const;
  // The windows of a pass in sequences of `length`.
  int64_t Windows(int64_t length) const { return (size() - 1 + length - 1) / length; }
  // True if a token occurs. Only parts of a large dataset are looked at, from its begin to its end:
  // `looked_at` becomes the number of tokens. Errors are those of Read.
  absl::StatusOr<bool> Contains(int32_t token, int64_t* looked_at) const;
  // Path of the first file, for messages.
  const std::string& path() const;
  // The tokenizer that made the tokens, if a file names it.
  TokenizerId tokenizer() const;
  // Paths of the files that hold no token.
  std::vector<std::string> EmptyFiles() const;
  // The parts of files that are in this view, which have tokens; they live as long as it does.
  struct FilePart {
    int64_t begin, end;      // in this view
    int64_t first;           // token of the file
    const ChatTable* chats;  // of the file; null: it has none
    const std::string* path;
  };
  std::vector<FilePart> FileParts() const;
  // True if a file of this view has chats.
  bool HasChats() const;

 private:
  struct File {
    TokenFile tokens;
    int64_t begin;  // in the joined sequence
  };
  using Files = std::vector<File>;

  TokenDataset(std::shared_ptr<const Files> files, int64_t vocab, int64_t begin, int64_t end)
      : files_(std::move(files)), vocab_(vocab), begin_(begin), end_(end) {}

  std::shared_ptr<const Files> files_;  // sorted by begin
  int64_t vocab_, begin_, end_;
};

// An error if both name their tokenizers, and these differ.
absl::Status CheckOneTokenizer(const TokenDataset& first, const TokenDataset& second);

struct TokenSplit {
  TokenDataset train, validation;
};

// The last `validation` of the tokens, 0 <= validation < 1, are for validation. Each part must hold
// sequence + 1 tokens, but validation = 0 leaves that part empty.
absl::StatusOr<TokenSplit> SplitTokens(const TokenDataset& data, double validation,
                                       int64_t sequence);

}  // namespace oneflow
