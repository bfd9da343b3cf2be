// SampledData: the data of a run, with the samples that a run takes of them. A dataset is sampled
// at any position, with replacement; or by its records (record_set.h), if it has chats or is read
// in epochs.
//
//   ASSIGN_OR_RETURN(SampledData data, SampledData::Make(mixture, options, /*epochs=*/true));
//   std::unique_ptr<TokenSource> source = data.Epochs(/*seed=*/1, /*batch=*/8);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "training/data/record_set.h"
#include "training/data/records_id.h"
#include "training/data/token_mixture.h"

namespace oneflow {

// A view: cheap to copy, immutable, thread-safe.
class SampledData {
 public:
  // `epochs`: the data are read in epochs, so all are records. Errors: those of RecordSet::Make;
  // epochs of a mixture with weights.
  static absl::StatusOr<SampledData> Make(TokenMixture data, const RecordOptions& options,
                                          bool epochs);

  const TokenMixture& tokens() const { return tokens_; }
  bool has_chats() const { return has_chats_; }
  // The records of data without weights; null: they have none.
  const RecordSet* records() const;
  // Those of all datasets that have some.
  RecordCounts counts() const;
  RecordsId id() const;

  // Samples that are drawn with replacement. `marks`: each token that begins a document says so;
  // where files are of no chats it is the one behind the options' end of text. Requires !epochs.
  std::unique_ptr<TokenSource> Draws(uint64_t seed, bool marks) const;
  // Records in epochs: those of RecordSet. Requires epochs.
  std::unique_ptr<TokenSource> Epochs(uint64_t seed, int64_t batch) const;

 private:
  SampledData(TokenMixture tokens, const RecordOptions& options, bool epochs)
      : tokens_(std::move(tokens)), options_(options), epochs_(epochs) {}

  TokenMixture tokens_;
  RecordOptions options_;
  bool epochs_, has_chats_ = false;
  std::vector<std::optional<RecordSet>> records_;  // one for each dataset; none: any position
};

}  // namespace oneflow
