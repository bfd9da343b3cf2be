#include "tools/oneflow/model/text_stream.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

namespace oneflow {
namespace {

// Bytes of the character that begins with `first`; 1 for one that begins none.
size_t SequenceLength(unsigned char first) {
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 1;
}

// The position before a last character that is not complete; text.size() if it is.
size_t CompleteCharacters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // in the middle of a character
    return SequenceLength(byte) > back ? text.size() - back : text.size();
  }
  return text.size();
}

std::string Valid(std::string_view text) {
  std::string valid;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t character;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    valid += length > 0 ? text.substr(at, length) : std::string_view("\ufffd");
    at += length > 0 ? length : 1;
  }
  return valid;
}

// Bytes at the end of `text` that a stop string begins with.
size_t MayStop(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size()); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

std::string TextStream::Push(std::string_view bytes) {
  if (stopped_) return "";
  held_ += bytes;
  size_t end = std::string::npos, maybe = 0;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    end = std::min(end, held_.find(stop));
    maybe = std::max(maybe, MayStop(held_, stop));
  }
  stopped_ = end != std::string::npos;
  const std::string_view held = held_;
  const size_t ready = stopped_ ? end : CompleteCharacters(held.substr(0, held.size() - maybe));
  std::string text = Valid(held.substr(0, ready));
  held_.erase(0, stopped_ ? std::string::npos : ready);
  return text;
}

std::string TextStream::Finish() { return Valid(std::exchange(held_, "")); }

}  // namespace oneflow
