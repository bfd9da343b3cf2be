// The pieces of a normalized text. In a unigram model they are those with the greatest sum of
// scores; in a BPE model, the result of merging characters, the pair of highest score first.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "training/tokenizer/sentencepiece_model.h"

namespace oneflow {

// A range of a normalized text and the id of its piece; the model's unknown id if no piece covers
// it.
struct FoundPiece {
  std::string_view text;
  int32_t id;
};

// The number of bytes of the character at `at`.
size_t CharacterLength(std::string_view text, size_t at);

std::vector<FoundPiece> FindUnigramPieces(const SentencePieceModel& model, std::string_view text);
std::vector<FoundPiece> FindBpePieces(const SentencePieceModel& model, std::string_view text);

// Appends their ids: an unknown range becomes its bytes, or else one unknown id a run.
void AppendIds(const SentencePieceModel& model, const std::vector<FoundPiece>& found,
               std::vector<int32_t>* ids);

}  // namespace oneflow
