// The tokens that end a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oneflow {

// Special tokens after which a document ends, in the order of preference, and a turn of a talk.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";
inline constexpr std::string_view kEndsOfText[] = {kEndOfText, "<|end_of_text|>", "</s>"};
inline constexpr std::string_view kEndsOfTurn[] = {"<|eot_id|>", "<|eom_id|>", "<|im_end|>"};

struct TextEnds {
  std::optional<int32_t> end_of_text;  // the token that ends a document
  std::vector<int32_t> stops;          // a generated text ends after any
  bool named = true;                   // names alone give this end_of_text
};

// `said`: the ids that files say end a text, the most important first; those that are no token of
// `tokens` are passed over. `named`: those that are known by their names. The former count more,
// but the end of a turn ends no document where anything else does.
TextEnds FindTextEnds(const std::vector<int64_t>& said, const std::vector<int32_t>& named,
                      const std::vector<std::string>& tokens);

}  // namespace oneflow
