#include "actor_runtime/tokenizer/bpe_encoder.h"

#include <algorithm>
#include <functional>

#include "actor_runtime/tokenizer/gpt2_split.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

constexpr size_t kLongestRemembered = 64;    // bytes; longer words are seldom repeated
constexpr size_t kMostRemembered = 1 << 18;  // then all are forgotten

}  // namespace

void BpeEncoder::Encode(std::string_view text, std::vector<int32_t>* ids) {
  added_.Split(text, [&](std::string_view part, std::optional<int32_t> id) {
    id ? ids->push_back(*id) : EncodeWords(part, ids);
  });
}

size_t BpeEncoder::FindSplit(std::string_view text, size_t limit) const {
  size_t at = Gpt2SplitPoint(text, limit);
  while (at > 0 && at < text.size() && added_.MaySpan(text, at)) at = Gpt2SplitPoint(text, at - 1);
  return at;
}

void BpeEncoder::EncodeWords(std::string_view text, std::vector<int32_t>* ids) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = Gpt2WordEnd(text, at);
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (word.size() > kLongestRemembered) {
      EncodeWord(word, ids);
      continue;
    }
    auto it = seen_.find(ToAbsl(word));
    if (it == seen_.end()) {
      if (seen_.size() >= kMostRemembered) seen_.clear(), seen_ids_.clear();
      const size_t begin = seen_ids_.size();
      EncodeWord(word, &seen_ids_);
      it = seen_.emplace(word, Range{begin, seen_ids_.size() - begin}).first;
    }
    const auto first = seen_ids_.begin() + static_cast<ptrdiff_t>(it->second.begin);
    ids->insert(ids->end(), first, first + static_cast<ptrdiff_t>(it->second.size));
  }
}

void BpeEncoder::EncodeWord(std::string_view word, std::vector<int32_t>* ids) {
  const auto n = static_cast<int32_t>(word.size());
  symbols_.clear();
  candidates_.clear();
  for (int32_t i = 0; i < n; ++i) {
    symbols_.push_back({vocabulary_.id_of_byte[static_cast<unsigned char>(word[i])], i - 1,
                        i + 1 < n ? i + 1 : -1});
  }
  for (int32_t i = 0; i + 1 < n; ++i) Propose(i);
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    const Candidate pair = candidates_.back();
    candidates_.pop_back();
    Merge(pair);
  }
  for (int32_t i = 0; i >= 0; i = symbols_[i].next) ids->push_back(symbols_[i].id);
}

void BpeEncoder::Propose(int32_t left) {
  const int32_t right = symbols_[left].next;
  if (right < 0) return;
  const int32_t a = symbols_[left].id, b = symbols_[right].id;
  const auto it = vocabulary_.merges.find(BpeVocabulary::Pair(a, b));
  if (it == vocabulary_.merges.end()) return;
  candidates_.push_back({it->second.rank, left, a, b, it->second.id});
  std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
}

void BpeEncoder::Merge(const Candidate& pair) {
  Symbol& left = symbols_[pair.left];
  if (left.id != pair.left_id || left.next < 0 || symbols_[left.next].id != pair.right_id) return;
  Symbol& right = symbols_[left.next];
  right.id = -1;
  left.id = pair.merged;
  left.next = right.next;
  if (left.next >= 0) symbols_[left.next].previous = pair.left;
  Propose(pair.left);
  if (left.previous >= 0) Propose(left.previous);
}

}  // namespace oneflow
