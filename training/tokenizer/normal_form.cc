#include "training/tokenizer/normal_form.h"

#include <glog/logging.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "training/tokenizer/code_set.h"
#include "training/tokenizer/unicode_sets.h"

namespace oneflow {
namespace {

// What the tables of the library do not know, and bytes without a character.
bool StaysAsItIs(int32_t code) {
  if (code < 0x300) return false;
  static const CodeSet kStays = NotNormalizedSet().Or(CodeSet::One(kNoCharacter));
  return kStays.Contains(code);
}

// The number of bytes at the beginning that are normalized together.
size_t NormalBytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const DecodedCharacter c = DecodeCharacter(text.substr(at));
    if (StaysAsItIs(c.code)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

std::string Normalize(std::string_view text, NormalForm form) {
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 128; };
  if (std::all_of(text.begin(), text.end(), ascii)) return std::string(text);
  int options = UTF8PROC_STABLE;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  std::string made;
  while (!text.empty()) {
    const size_t size = NormalBytes(text);
    utf8proc_uint8_t* normal = nullptr;
    const utf8proc_ssize_t length = utf8proc_map(
        reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(size),
        &normal, static_cast<utf8proc_option_t>(options));
    CHECK_GE(length, 0) << utf8proc_errmsg(length);  // only invalid UTF-8 and a lack of memory fail
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(normal, &std::free);
    made.append(reinterpret_cast<const char*>(normal), length);
    text.remove_prefix(size);
    if (text.empty()) break;
    const size_t stays = DecodeCharacter(text).bytes;
    made += text.substr(0, stays);
    text.remove_prefix(stays);
  }
  return made;
}

}  // namespace oneflow
