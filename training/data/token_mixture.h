// TokenMixture: the data of a run. It is one dataset, or several with weights, from which samples
// are drawn in these proportions.
//
//   ASSIGN_OR_RETURN(TokenMixture data, TokenMixture::Make({a, b}, {0.7, 0.3}));
//   std::unique_ptr<TokenSource> source = data.Source(/*seed=*/1);
//
// The part from which a sample comes is a function of (seed, step, sample) alone: an uninterrupted
// run, a resumed one, and one on other devices or with other micro-batches take the same. A part's
// samples start where those of that dataset alone would (TokenDataset::Source).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "training/data/mixture_part.h"
#include "training/data/token_dataset.h"

namespace oneflow {

struct MixtureSplit;

// A view of datasets: cheap to copy, immutable, thread-safe.
class TokenMixture {
 public:
  // One dataset without a weight: Source is that of the dataset.
  explicit TokenMixture(TokenDataset data) : datasets_({std::move(data)}) {}

  // A mixture of datasets, with as many weights, which need not add up to one. Errors: a weight
  // that is not positive or not finite, also when it is divided by their sum; datasets of two
  // tokenizers.
  static absl::StatusOr<TokenMixture> Make(std::vector<TokenDataset> datasets,
                                           const std::vector<double>& weights);

  std::unique_ptr<TokenSource> Source(uint64_t seed) const;
  // The same where samples of dataset i come from sources[i].
  std::unique_ptr<TokenSource> Mix(uint64_t seed,
                                   std::vector<std::unique_ptr<TokenSource>> sources) const;

  int64_t size() const;                                 // tokens of all datasets
  TokenizerId tokenizer() const;                        // that made the tokens, if a file names it
  const MixtureParts& parts() const { return parts_; }  // empty without weights
  const std::vector<TokenDataset>& datasets() const { return datasets_; }

  // SplitTokens of each dataset, or SplitChats of one of chats, with the same weights. Errors: a
  // dataset of files of both kinds.
  absl::StatusOr<MixtureSplit> Split(double validation, int64_t sequence) const;

  // The number of samples that come from each part in `steps` steps from 0 on, of `batch` samples
  // each, by the function that Source uses. Takes steps * batch draws. Requires weights.
  std::vector<int64_t> CountSamples(uint64_t seed, int64_t steps, int64_t batch) const;

 private:
  TokenMixture(std::vector<TokenDataset> datasets, MixtureParts parts)
      : datasets_(std::move(datasets)), parts_(std::move(parts)) {}

  std::vector<TokenDataset> datasets_;
  MixtureParts parts_;
};

struct MixtureSplit {
  TokenMixture train;
  TokenMixture validation;  // size() is 0 where nothing is validated
};

}  // namespace oneflow
