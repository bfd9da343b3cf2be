#include "training/data/doubt_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

size_t FindNoUtf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  for (utf8proc_ssize_t at = 0; at < size;) {
    utf8proc_int32_t character;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + at, size - at, &character);
    if (length <= 0) return at;
    at += length;
  }
  return text.size();
}

int64_t CountControls(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 32 && (byte < '\b' || byte > '\r') && byte != 27;
  });
}

std::string FindBinary(std::string_view head) {
  const int64_t zeros = std::count(head.begin(), head.end(), '\0'), controls = CountControls(head);
  const auto bytes = std::ssize(head);
  if (zeros > 0) return absl::StrCat("holds ", zeros, " zero bytes in its first ", bytes);
  if (controls * 20 <= bytes) return "";
  return absl::StrCat("holds ", controls, " control characters in its first ", bytes, " bytes");
}

std::string DoubtText(std::string_view head) {
  const std::string binary = FindBinary(head.substr(0, kDoubtedBytes));
  return binary.empty() ? "" : binary + ": is it text? Each byte is read as it is";
}

absl::StatusOr<std::string> DoubtText(const DataFile& file) {
  std::string head(std::min<int64_t>(kDoubtedBytes, file.size()), '\0');
  if (head.empty()) return head;
  RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span(head))));
  return DoubtText(head);
}

void Utf8Check::Add(std::string_view text) {
  while (!text.empty() && !found_) {
    // A character that the last block left open goes on.
    if (!open_.empty()) {
      const size_t n = std::min<size_t>(4 - open_.size(), text.size());
      const std::string joined = open_ + std::string(text.substr(0, n));
      const size_t good = FindNoUtf8(joined);
      if (good < open_.size()) {
        if (joined.size() < 4 && n == text.size()) {
          open_ = joined;
          return;
        }
        found_ = true;
        return;
      }
      text.remove_prefix(good - open_.size());
      at_ += static_cast<int64_t>(good);
      open_.clear();
      continue;
    }
    const size_t good = FindNoUtf8(text);
    at_ += static_cast<int64_t>(good);
    text.remove_prefix(good);
    if (text.size() > 3) found_ = true;
    if (!found_) open_ = text;
    return;
  }
}

std::string Utf8Check::Doubt(std::string_view path) const {
  if (!found_ && open_.empty()) return "";
  return absl::StrCat("is no UTF-8 (byte ", at_,
                      "), for which the tokenizer was made; if it has another encoding, convert it,"
                      " e.g.: iconv -f LATIN1 -t UTF-8 ",
                      ToAbsl(path), " > text.txt");
}

std::string DoubtUtf8(std::string_view path, std::string_view text) {
  Utf8Check check;
  check.Add(text);
  return check.Doubt(path);
}

}  // namespace oneflow
