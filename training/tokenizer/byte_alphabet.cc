#include "training/tokenizer/byte_alphabet.h"

#include "training/tokenizer/code_set.h"

namespace oneflow {
namespace {

// Printable Latin-1 stands for itself, the other bytes for 256, 257, ... in turn.
bool IsPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

}  // namespace

const std::array<int32_t, 256>& ByteAlphabet() {
  static const std::array<int32_t, 256> alphabet = [] {
    std::array<int32_t, 256> made;
    int32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) made[byte] = IsPrintable(byte) ? byte : next++;
    return made;
  }();
  return alphabet;
}

std::string WriteInAlphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    AppendCharacter(ByteAlphabet()[static_cast<unsigned char>(byte)], &text);
  }
  return text;
}

std::optional<std::string> ReadAlphabet(std::string_view text) {
  static const std::array<int16_t, 512> bytes = [] {
    std::array<int16_t, 512> made;
    made.fill(-1);
    for (int byte = 0; byte < 256; ++byte) made[ByteAlphabet()[byte]] = static_cast<int16_t>(byte);
    return made;
  }();
  std::string read;
  while (!text.empty()) {
    const DecodedCharacter c = DecodeCharacter(text);
    if (c.code >= 512 || bytes[c.code] < 0) return std::nullopt;
    read.push_back(static_cast<char>(bytes[c.code]));
    text.remove_prefix(c.bytes);
  }
  return read;
}

}  // namespace oneflow
