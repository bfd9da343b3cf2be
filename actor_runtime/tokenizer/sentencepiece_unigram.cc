#include <algorithm>
#include <limits>

#include "actor_runtime/tokenizer/sentencepiece_encoder.h"

namespace oneflow {
namespace {

using Piece = SentencePieceModel::Piece;

constexpr float kUnknownPenalty = 10;

struct Scores {
  float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
};

Scores ScoresOf(const SentencePieceModel& model) {
  Scores scores;
  for (const Piece& piece : model.pieces) {
    if (piece.type() != Piece::NORMAL) continue;
    scores.least = std::min(scores.least, piece.score());
    scores.most = std::max(scores.most, piece.score());
  }
  return scores;
}

// The best way to a position.
struct Arrival {
  int32_t id = -1;
  float score = 0;
  size_t begin = 0;  // of its last piece

  // Keeps the first of equals, as the library does.
  void Offer(int32_t new_id, float new_score, size_t new_begin) {
    if (id < 0 || new_score > score) *this = {new_id, new_score, new_begin};
  }
};

}  // namespace

std::vector<FoundPiece> FindUnigramPieces(const SentencePieceModel& model, std::string_view text) {
  const Scores scores = ScoresOf(model);
  std::vector<Arrival> best(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    const size_t character = CharacterLength(text, at);
    const float here = best[at].score;
    bool single = false;
    model.trie.Prefixes(text.substr(at), [&](size_t length, int32_t id) {
      const Piece& piece = model.pieces[id];
      if (piece.type() == Piece::UNUSED) return;
      const float score = piece.type() == Piece::USER_DEFINED
                              ? static_cast<float>(length) * scores.most - 0.1F
                              : piece.score();
      best[at + length].Offer(id, here + score, at);
      single = single || length == character;
    });
    if (!single) {
      best[at + character].Offer(model.unknown, here + scores.least - kUnknownPenalty, at);
    }
    at += character;
  }
  std::vector<FoundPiece> found;
  for (size_t end = text.size(); end > 0; end = best[end].begin) {
    found.push_back({text.substr(best[end].begin, end - best[end].begin), best[end].id});
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace oneflow
