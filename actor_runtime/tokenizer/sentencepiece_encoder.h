// Pieces of a normalized text: of a unigram model, those whose scores add up to the most; of a BPE
// model, what is left when characters have merged, the pair of highest score first.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "actor_runtime/tokenizer/sentencepiece_model.h"

namespace oneflow {

// A stretch of a normalized text and the id of its piece; the model's unknown one where no piece
// covers it.
struct FoundPiece {
  std::string_view text;
  int32_t id;
};

// Bytes of the character at `at`.
size_t CharacterLength(std::string_view text, size_t at);

std::vector<FoundPiece> FindUnigramPieces(const SentencePieceModel& model, std::string_view text);
std::vector<FoundPiece> FindBpePieces(const SentencePieceModel& model, std::string_view text);

// Their ids: what is unknown becomes its bytes, or else one unknown id a run.
void AppendIds(const SentencePieceModel& model, const std::vector<FoundPiece>& found,
               std::vector<int32_t>* ids);

}  // namespace oneflow
