// Unicode's normal forms of a text, as Hugging Face's tokenizers makes them: in the composed form,
// NFC, "e" with a combining accent becomes "é".
#pragma once

#include <string>
#include <string_view>

namespace oneflow {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// A byte that is no part of valid UTF-8 stays, and so does a character that is newer than the
// library's tables (NotNormalizedSet); nothing composes across it. ASCII text is its own form.
std::string Normalize(std::string_view text, NormalForm form);

inline std::string ComposeNfc(std::string_view text) { return Normalize(text, NormalForm::kNfc); }

}  // namespace oneflow
