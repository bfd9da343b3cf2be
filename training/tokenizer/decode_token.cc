#include "training/tokenizer/decode_token.h"

#include <charconv>
#include <string_view>

#include "absl/strings/str_replace.h"
#include "oneflow_core/base/strings.h"
#include "training/tokenizer/byte_alphabet.h"

namespace oneflow {
namespace {

// The byte of "<0x41>"; -1 for other tokens.
int FindByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? byte : -1;
}

// The bytes of a token that is written as sentencepiece does.
std::string PieceBytes(const std::string& token) {
  if (const int byte = FindByte(token); byte >= 0) return std::string(1, static_cast<char>(byte));
  return absl::StrReplaceAll(token, {{ToAbsl(kMetaSpace), " "}});
}

}  // namespace

std::string DecodeToken(const BpeRules& rules, const std::string& token) {
  if (!rules.pipeline) return PieceBytes(token);
  std::string text = token;
  for (const DecoderStep& step : rules.pipeline->decoder) {
    switch (step.kind) {
      case DecoderStep::Kind::kReplace:
        if (!step.from.empty()) text = absl::StrReplaceAll(text, {{step.from, step.to}});
        break;
      case DecoderStep::Kind::kByteFallback:
        if (const int byte = FindByte(text); byte >= 0) {
          return std::string(1, static_cast<char>(byte));
        }
        break;
      case DecoderStep::Kind::kAlphabet: text = ReadAlphabet(text).value_or(text); break;
    }
  }
  return text;
}

}  // namespace oneflow
