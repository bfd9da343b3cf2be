// RecordSet: the records of a dataset: what a run reads in epochs, each once in an epoch.
//
//   windows of `sequence` tokens    of files of one long text: window i is tokens
//                                   [i * sequence, (i + 1) * sequence], the last as a label alone;
//                                   tokens behind the last full window are not read
//   chats                           of files of chats (chat_file.h), each padded to `sequence`; or,
//                                   with documents, windows of `sequence` tokens into which chats
//                                   are packed, so that none sees another
//
//   ASSIGN_OR_RETURN(RecordSet records, RecordSet::Make(data, {.sequence = 1024}));
//   std::unique_ptr<TokenSource> source = records.Epochs(/*seed=*/1, /*batch=*/8);
//
// Windows and chats may be joined: the records are those of the files, in their order. Samples of
// chats say which of their tokens count as labels, and which begin a document (run_context.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/run_context.h"
#include "training/data/token_dataset.h"

namespace oneflow {

// What is done with a chat of more than `sequence` tokens.
enum class LongChats : uint8_t {
  kTruncate,  // its end is left out
  kDrop,      // it is
  kError,
};

struct RecordOptions {
  int64_t sequence = 0;
  bool documents = false;    // documents are kept apart: chats are packed
  int32_t end_of_text = -1;  // with documents: the token that ends one in files of no chats
  LongChats long_chats = LongChats::kTruncate;
  bool may_be_empty = false;  // else a dataset of no records is an error
};

// What the records are of. Numbers of chats are 0 where no file has chats.
struct RecordCounts {
  int64_t records = 0;
  int64_t windows = 0;      // records that are windows of one long text
  int64_t packed = 0;       // records that are of chats
  int64_t chats = 0;        // that are read
  int64_t chat_tokens = 0;  // of these chats
  int64_t chat_labels = 0;  // of these tokens, those that count as labels
  int64_t truncated = 0;    // of these chats
  int64_t too_long = 0;     // chats that are dropped
  int64_t no_labels = 0;    // chats that are dropped, for none of their tokens counts
  int64_t left_out = 0;     // tokens behind the last full window
  void Add(const RecordCounts& other);
};

// A view: cheap to copy, immutable, thread-safe.
class RecordSet {
 public:
  // The records of a dataset that begins and ends with a chat where it is of chats (SplitChats).
  // Errors: no record; with LongChats::kError a long chat.
  static absl::StatusOr<RecordSet> Make(TokenDataset data, const RecordOptions& options);

  int64_t size() const;
  const RecordCounts& counts() const;
  // A number that tells sets apart that differ in their records: their kinds, and the positions and
  // lengths of their chats and windows.
  uint64_t hash() const;

  // Reads a record: sequence + 1 tokens, of which those that it lacks are padding. Allocates
  // nothing. Errors are those of TokenDataset::Read.
  absl::Status Read(int64_t record, std::span<int32_t> tokens) const;

  // Sample k = step * batch + sample of the run is record EpochOrder(seed, k / size(), size())(k %
  // size()): each epoch reads each record once, in its own order, and a batch may begin in one
  // epoch and end in the next. A function of (seed, k), so it does not depend on the mesh, on
  // micro-batches, on processes, or on where a run was interrupted.
  std::unique_ptr<TokenSource> Epochs(uint64_t seed, int64_t batch) const;
  // Draws a record for each sample, with replacement: a function of (seed, step, sample) alone.
  std::unique_ptr<TokenSource> Draws(uint64_t seed) const;
  // Reads each record once, in order: sample s of step t is record t * batch + s. Samples behind
  // the last record are padding.
  std::unique_ptr<TokenSource> Pass(int64_t batch) const;

 private:
  struct Table;
  explicit RecordSet(std::shared_ptr<const Table> table) : table_(std::move(table)) {}

  std::shared_ptr<const Table> table_;
};

// Marks tokens behind `end_of_text` as those that begin a document. `source` gives plain ids.
std::unique_ptr<TokenSource> MarkDocuments(std::unique_ptr<TokenSource> source,
                                           int32_t end_of_text);

// How many of `chats` are for validation, where the last `validation` of them are: the nearest
// number, of two the larger. CountValidationChats(60, 0.1666): 10.
int64_t CountValidationChats(int64_t chats, double validation);

// The last `validation` of the chats, 0 <= validation < 1, are for validation. Requires that all
// files are of chats. Each part must have a chat, but validation = 0 leaves that part empty.
absl::StatusOr<TokenSplit> SplitChats(const TokenDataset& data, double validation);

}  // namespace oneflow
