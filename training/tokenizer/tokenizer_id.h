// TokenizerId: identifies the tokenizer of token ids in token files and checkpoints, so that ids
// are not read with another one.
//
//   const TokenizerId of_data = file.tokenizer, of_prompt = tokenizer.id;
//   if (of_data.known() && !of_data.SameAs(of_prompt)) ...
//
// It is not a path: the name is for people, and the hash decides.
#pragma once

#include <string>

namespace oneflow {

struct TokenizerId {
  std::string name;  // "bytes", "gpt2:NAME of the folder", "tokenizer.json", "m.model"
  // 16 hex digits, a hash of all that determines ids: for a BPE its tokens, merges, added tokens
  // that are not special and template, from either kind of file; for a sentencepiece model its
  // file. Empty: the tokenizer is unknown.
  std::string hash;

  bool known() const { return !hash.empty(); }
  bool SameAs(const TokenizerId& other) const { return hash == other.hash; }
  // "gpt2:small (0123456789abcdef)", or "unknown".
  std::string Text() const { return known() ? name + " (" + hash + ")" : "unknown"; }
  bool operator==(const TokenizerId&) const = default;
};

// The tokenizer of text whose ids are its bytes.
inline TokenizerId BytesTokenizerId() { return {"bytes", "0000000000000100"}; }

}  // namespace oneflow
