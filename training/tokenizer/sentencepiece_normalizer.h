// SentencePieceNormalizer: sentencepiece's normalization of a text before the search for pieces:
// characters replaced by the model's table (NFKC and the like), spaces written as U+2581, runs of
// them joined, one added in front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "training/tokenizer/sentencepiece_model.h"

namespace oneflow {

class SentencePieceNormalizer {
 public:
  // Copies the settings of `model`'s normalizer; the model must outlive this. `path` is for the
  // error if its table of characters is broken.
  static absl::StatusOr<SentencePieceNormalizer> Make(const std::string& path,
                                                      const SentencePieceModel& model);

  std::string Normalize(std::string_view text) const;

 private:
  // The replacement of the first characters of a text, and the number of bytes that it replaces.
  struct Replaced {
    std::string_view by;
    size_t bytes;
  };

  explicit SentencePieceNormalizer(const SentencePieceModel& model) : model_(&model) {}
  Replaced First(std::string_view text) const;
  Replaced FromTable(std::string_view text) const;

  const SentencePieceModel* model_;
  std::vector<uint32_t> trie_;     // a double array, as the Darts library lays it out
  std::string_view replacements_;  // strings that end in 0; in model_
};

}  // namespace oneflow
