// Which tokenizer made token ids: what token files and checkpoints say of it, so that ids are not
// read with another one.
//
//   const TokenizerId of_data = file.tokenizer, of_prompt = tokenizer.id;
//   if (of_data.known() && !of_data.SameAs(of_prompt)) ...
//
// Not a path: the name is for people, and the hash decides.
#pragma once

#include <string>

namespace oneflow {

struct TokenizerId {
  std::string name;  // "bytes", "gpt2:NAME of the folder", "tokenizer.json", "m.model"
  // 16 hex digits, of what makes ids: of a BPE its tokens, merges, added tokens that are not
  // special and template, whichever kind of file they stand in; of a sentencepiece model its file.
  // Empty: nothing is known of the tokenizer.
  std::string hash;

  bool known() const { return !hash.empty(); }
  bool SameAs(const TokenizerId& other) const { return hash == other.hash; }
  // "gpt2:small (0123456789abcdef)", or "unknown".
  std::string Text() const { return known() ? name + " (" + hash + ")" : "unknown"; }
  bool operator==(const TokenizerId&) const = default;
};

// The tokenizer of text whose bytes are the ids.
inline TokenizerId BytesTokenizerId() { return {"bytes", "0000000000000100"}; }

}  // namespace oneflow
