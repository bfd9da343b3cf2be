// What sentencepiece makes of a text before it looks for pieces: characters replaced by the model's
// table (NFKC and the like), spaces written as U+2581, runs of them joined, one put in front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/tokenizer/sentencepiece_model.h"

namespace oneflow {

class SentencePieceNormalizer {
 public:
  // Keeps what it needs of `model`'s normalizer; the model must outlive it. `path`, for the error
  // where its table of characters is broken.
  static absl::StatusOr<SentencePieceNormalizer> Make(const std::string& path,
                                                      const SentencePieceModel& model);

  std::string Normalize(std::string_view text) const;

 private:
  // What stands for the first characters of a text, and how many of its bytes those are.
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
