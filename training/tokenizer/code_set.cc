#include "training/tokenizer/code_set.h"

#include <algorithm>

namespace oneflow {

void CodeSet::Add(int32_t first, int32_t last) {
  // Mostly in order.
  if (ranges_.empty() || first > ranges_.back().last + 1) {
    ranges_.push_back({first, last});
    return;
  }
  const auto begin =
      std::lower_bound(ranges_.begin(), ranges_.end(), first,
                       [](const Range& range, int32_t c) { return range.last + 1 < c; });
  auto end = begin;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

bool CodeSet::Contains(int32_t c) const {
  const auto it =
      std::lower_bound(ranges_.begin(), ranges_.end(), c,
                       [](const Range& range, int32_t code) { return range.last < code; });
  return it != ranges_.end() && it->first <= c;
}

CodeSet CodeSet::Or(const CodeSet& other) const {
  std::vector<Range> all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  std::sort(all.begin(), all.end());
  CodeSet made;
  for (const Range& range : all) made.Add(range.first, range.last);
  return made;
}

CodeSet CodeSet::And(const CodeSet& other) const {
  CodeSet made;
  auto b = other.ranges_.begin();
  for (auto a = ranges_.begin(); a != ranges_.end() && b != other.ranges_.end();) {
    const int32_t first = std::max(a->first, b->first), last = std::min(a->last, b->last);
    if (first <= last) made.Add(first, last);
    a->last < b->last ? void(++a) : void(++b);
  }
  return made;
}

CodeSet CodeSet::Complement() const {
  CodeSet made;
  int32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) made.Add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kNoCharacter) made.Add(next, kNoCharacter);
  return made;
}

void AppendCharacter(int32_t code, std::string* text) {
  const auto add = [text](int32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) return add(0xc0 | code >> 6), add(0x80 | (code & 0x3f));
  if (code < 0x10000) {
    return add(0xe0 | code >> 12), add(0x80 | (code >> 6 & 0x3f)), add(0x80 | (code & 0x3f));
  }
  add(0xf0 | code >> 18), add(0x80 | (code >> 12 & 0x3f)), add(0x80 | (code >> 6 & 0x3f));
  add(0x80 | (code & 0x3f));
}

}  // namespace oneflow
