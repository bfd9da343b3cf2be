#include "training/tokenizer/sentencepiece_encoder.h"

#include <algorithm>

namespace oneflow {

size_t CharacterLength(std::string_view text, size_t at) {
  static constexpr size_t kLength[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  return std::min(kLength[static_cast<unsigned char>(text[at]) >> 4], text.size() - at);
}

void AppendIds(const SentencePieceModel& model, const std::vector<FoundPiece>& found,
               std::vector<int32_t>* ids) {
  bool after_unknown = false;
  for (const FoundPiece& piece : found) {
    const bool unknown = piece.id == model.unknown;
    if (unknown && model.byte_fallback) {
      for (const char c : piece.text)
        ids->push_back(model.id_of_byte[static_cast<unsigned char>(c)]);
    } else if (!unknown || !after_unknown) {
      ids->push_back(piece.id);
    }
    after_unknown = unknown;
  }
}

}  // namespace oneflow
