#include "training/tokenizer/nfc.h"

#include <glog/logging.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace oneflow {
namespace {

const utf8proc_uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

// The number of bytes at the beginning that are valid UTF-8.
size_t ValidBytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t character;
    const size_t left = std::min<size_t>(text.size() - at, 4);
    const utf8proc_ssize_t length =
        utf8proc_iterate(Bytes(text.substr(at)), static_cast<utf8proc_ssize_t>(left), &character);
    if (length <= 0) break;
    at += length;
  }
  return at;
}

}  // namespace

std::string ComposeNfc(std::string_view text) {
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 128; };
  if (std::all_of(text.begin(), text.end(), ascii)) return std::string(text);
  std::string made;
  while (!text.empty()) {
    const size_t valid = ValidBytes(text);
    utf8proc_uint8_t* composed = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(Bytes(text), static_cast<utf8proc_ssize_t>(valid), &composed,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CHECK_GE(size, 0) << utf8proc_errmsg(size);  // only invalid UTF-8 and a lack of memory fail
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
    made.append(reinterpret_cast<const char*>(composed), size);
    text.remove_prefix(valid);
    if (text.empty()) break;
    made += text.front();
    text.remove_prefix(1);
  }
  return made;
}

}  // namespace oneflow
