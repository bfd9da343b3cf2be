#include <algorithm>
#include <cmath>
#include <limits>

#include "training/tokenizer/sentencepiece_encoder.h"

namespace oneflow {
namespace {

using Piece = SentencePieceModel::Piece;

constexpr float kUnknownPenalty = 10;

// The lowest score of a normal piece.
float LowestScore(const SentencePieceModel& model) {
  float lowest = std::numeric_limits<float>::max();
  for (const Piece& piece : model.pieces) {
    if (piece.type() == Piece::NORMAL) lowest = std::min(lowest, piece.score());
  }
  return lowest;
}

// The score of a piece of `length` bytes. Scores of normal pieces are log probabilities, so one
// that the user defined wins, and a long one wins over several short ones. Rounded as the library
// rounds it: the product is of doubles.
float FindScore(const Piece& piece, size_t length) {
  if (piece.type() != Piece::USER_DEFINED) return piece.score();
  return static_cast<float>(0.1 * (static_cast<double>(length) - 1));
}

// The best way to a position.
struct Arrival {
  int32_t id = -1;
  float score = 0;
  size_t begin = 0;  // begin of its last piece

  // Keeps the first of equals, as the library does.
  void Offer(int32_t new_id, float new_score, size_t new_begin) {
    if (id < 0 || new_score > score) *this = {new_id, new_score, new_begin};
  }
};

// Scores of arrivals, along the text. In a long text without a good piece they fall so far that a
// float would round the scores of pieces away. A score beyond kMostSum is therefore subtracted from
// all arrivals from its position on, at the same positions as in the library: ties are decided
// alike.
class Arrivals {
 public:
  explicit Arrivals(size_t bytes) : best_(bytes + 1) {}

  // The score at `at`, to add to.
  float ScoreAt(size_t at) {
    const float offset = best_[at].score;
    if (std::abs(offset) <= kMostSum) return offset;
    for (size_t i = at; i <= frontier_; ++i) {
      if (i == at || best_[i].id >= 0) best_[i].score -= offset;
    }
    return 0;
  }
  void Offer(size_t end, int32_t id, float score, size_t begin) {
    frontier_ = std::max(frontier_, end);
    best_[end].Offer(id, score, begin);
  }
  const Arrival& operator[](size_t at) const { return best_[at]; }

 private:
  static constexpr float kMostSum = 100000;
  std::vector<Arrival> best_;
  size_t frontier_ = 0;  // the last position that has been reached
};

}  // namespace

std::vector<FoundPiece> FindUnigramPieces(const SentencePieceModel& model, std::string_view text) {
  const float unknown = LowestScore(model) - kUnknownPenalty;
  Arrivals best(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t character = CharacterLength(text, at);
    const float here = best.ScoreAt(at);
    bool single = false;
    model.trie.Prefixes(text.substr(at), [&](size_t length, int32_t id) {
      const Piece& piece = model.pieces[id];
      if (piece.type() == Piece::UNUSED) return;
      best.Offer(at + length, id, FindScore(piece, length) + here, at);
      single = single || length == character;
    });
    if (!single) best.Offer(at + character, model.unknown, unknown + here, at);
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
