#include "training/chat/token_mask.h"

#include <algorithm>
#include <string>

namespace oneflow {
namespace {

// Gives the ids [first, last) the bytes [begin, end) of the text, in proportion.
void Divide(size_t begin, size_t end, size_t first, size_t last, std::span<const int32_t> ids,
            const Tokenizer& tokenizer, std::vector<ByteSpan>* found) {
  size_t all = 0, passed = 0;
  for (size_t i = first; i < last; ++i) all += tokenizer.bytes(ids[i]).size();
  for (size_t i = first; i < last; ++i) {
    const size_t from = all == 0 ? 0 : (end - begin) * passed / all;
    passed += tokenizer.bytes(ids[i]).size();
    const size_t to = all == 0 ? 0 : (end - begin) * passed / all;
    (*found)[i] = {begin + from, begin + to};
  }
}

}  // namespace

TokenMasker::TokenMasker(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (const auto& [name, id] : tokenizer.special) special_.insert(id);
}

std::vector<ByteSpan> TokenMasker::Find(std::string_view text, std::span<const int32_t> ids) const {
  std::vector<ByteSpan> found(ids.size());
  size_t at = 0;
  for (size_t i = 0; i < ids.size();) {
    std::string_view bytes = tokenizer_.bytes(ids[i]);
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with(bytes) && bytes.starts_with(' ')) bytes.remove_prefix(1);  // in front
    if (rest.starts_with(bytes)) {
      found[i++] = {at, at + bytes.size()};
      at += bytes.size();
      continue;
    }
    size_t next = i;
    while (next < ids.size() && !special_.contains(ids[next])) ++next;
    const size_t end = next == ids.size()
                           ? text.size()
                           : std::min(text.size(), text.find(tokenizer_.bytes(ids[next]), at));
    Divide(at, end, i, next, ids, tokenizer_, &found);
    at = end;
    if (next == i) {  // the text has no such token: it is one of a rule that is not known here
      found[i] = {at, at};
      next = i + 1;
    }
    i = next;
  }
  return found;
}

std::vector<uint8_t> TokenMasker::Mark(std::string_view text, std::span<const int32_t> ids,
                                       std::span<const ByteSpan> spans) const {
  const std::vector<ByteSpan> found = Find(text, ids);
  std::vector<uint8_t> counts(ids.size());
  size_t span = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    while (span < spans.size() && found[i].begin >= spans[span].end) ++span;
    if (span == spans.size()) break;
    counts[i] = found[i].end > spans[span].begin;
  }
  return counts;
}

}  // namespace oneflow
