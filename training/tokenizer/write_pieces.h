// The writing of a text in the pieces of sentencepiece: spaces are U+2581, and one may stand before
// the text.
#pragma once

#include <string>
#include <string_view>

namespace oneflow {

inline constexpr std::string_view kMetaSpace = "\xe2\x96\x81";  // U+2581

// The space before a text: none, one more, one unless it begins with one, or so before the text but
// not before the parts that its added tokens leave of it.
enum class SpaceInFront { kNone, kAlways, kUnlessThere, kFirstUnlessThere };

// `text` with its spaces, and the one before it, as U+2581. `first`: it begins the text.
std::string WritePieces(std::string_view text, SpaceInFront space, bool first = true);

}  // namespace oneflow
