#include <algorithm>

#include "oneflow_core/base/strings.h"
#include "training/tokenizer/sentencepiece_encoder.h"

namespace oneflow {
namespace {

using Piece = SentencePieceModel::Piece;

// Invariant: the symbols that are left, along `next`, make up the text.
class Merger {
 public:
  Merger(const SentencePieceModel& model, std::string_view text) : model_(model) {
    for (size_t at = 0; at < text.size();) {
      const size_t frozen = model.user_defined.Longest(text.substr(at));
      const size_t length = frozen > 0 ? frozen : CharacterLength(text, at);
      const auto i = static_cast<int32_t>(symbols_.size());
      symbols_.push_back({text.substr(at, length), i - 1, i + 1, frozen > 0});
      at += length;
    }
    if (!symbols_.empty()) symbols_.back().next = -1;
  }

  std::vector<FoundPiece> Run() {
    for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols_.size()); ++i) Propose(i);
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end());
      const Candidate pair = candidates_.back();
      candidates_.pop_back();
      Merge(pair);
    }
    std::vector<FoundPiece> found;
    for (int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[i].next) {
      Resolve(symbols_[i].text, &found);
    }
    return found;
  }

 private:
  struct Symbol {
    std::string_view text;  // empty: merged into its left neighbour
    int32_t previous, next;
    bool frozen;
  };
  struct Candidate {
    float score;
    int32_t left;
    size_t size;  // of the merged text; if it has changed, the pair is stale
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  static std::string_view Joined(const Symbol& a, const Symbol& b) {
    return {a.text.data(), a.text.size() + b.text.size()};
  }

  void Propose(int32_t left) {
    const Symbol& a = symbols_[left];
    if (a.next < 0 || a.frozen || symbols_[a.next].frozen) return;
    const std::string_view text = Joined(a, symbols_[a.next]);
    const auto it = model_.ids.find(ToAbsl(text));
    if (it == model_.ids.end()) return;
    const Piece& piece = model_.pieces[it->second];
    candidates_.push_back({piece.score(), left, text.size()});
    std::push_heap(candidates_.begin(), candidates_.end());
    // Such a piece is never output: if it is left at the end, it is split into the pieces that it
    // was merged from.
    if (piece.type() == Piece::UNUSED) parts_[ToAbsl(text)] = a.text.size();
  }

  void Merge(const Candidate& pair) {
    Symbol& left = symbols_[pair.left];
    if (left.text.empty() || left.next < 0) return;
    Symbol& right = symbols_[left.next];
    if (left.text.size() + right.text.size() != pair.size) return;
    left.text = Joined(left, right);
    right.text = {};
    left.next = right.next;
    if (left.next >= 0) symbols_[left.next].previous = pair.left;
    if (left.previous >= 0) Propose(left.previous);
    Propose(pair.left);
  }

  void Resolve(std::string_view text, std::vector<FoundPiece>* found) const {
    const auto it = model_.ids.find(ToAbsl(text));
    const int32_t id = it == model_.ids.end() ? model_.unknown : it->second;
    if (model_.pieces[id].type() != Piece::UNUSED) {
      found->push_back({text, id});
      return;
    }
    const auto parts = parts_.find(ToAbsl(text));
    if (parts == parts_.end()) {  // a single character
      found->push_back({text, model_.unknown});
      return;
    }
    Resolve(text.substr(0, parts->second), found);
    Resolve(text.substr(parts->second), found);
  }

  const SentencePieceModel& model_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;                     // a heap
  absl::flat_hash_map<absl::string_view, size_t> parts_;  // an unused piece -> where it splits
};

}  // namespace

std::vector<FoundPiece> FindBpePieces(const SentencePieceModel& model, std::string_view text) {
  return Merger(model, text).Run();
}

}  // namespace oneflow
