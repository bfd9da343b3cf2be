// GPT-2's alphabet, in which every byte is a printable character: "Ġthe" is " the".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace oneflow {

// By byte: its character.
const std::array<int32_t, 256>& ByteAlphabet();
// `bytes` written in it.
std::string WriteInAlphabet(std::string_view bytes);
// The bytes of what is written in it; nothing for other text.
std::optional<std::string> ReadAlphabet(std::string_view text);

}  // namespace oneflow
