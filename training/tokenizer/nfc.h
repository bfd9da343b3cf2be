// Unicode's composed form of a text, NFC: "e" with a combining accent becomes "é".
#pragma once

#include <string>
#include <string_view>

namespace oneflow {

// `text` in NFC, by the tables of utf8proc. A byte that is no part of valid UTF-8 stays, and
// nothing composes across it. ASCII text is its own NFC.
std::string ComposeNfc(std::string_view text);

}  // namespace oneflow
