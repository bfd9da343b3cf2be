#include "actor_runtime/tokenizer/bpe_vocabulary.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr std::string_view kEndOfText = "<|endoftext|>";

// GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes for 256, 257, ... in turn.
bool Printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

absl::flat_hash_map<int32_t, char> Alphabet() {
  absl::flat_hash_map<int32_t, char> bytes;
  int32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    bytes[Printable(byte) ? byte : next++] = static_cast<char>(byte);
  }
  return bytes;
}

// The bytes of a token; a token of other characters is plain text.
std::string BytesOf(const std::string& token, const absl::flat_hash_map<int32_t, char>& alphabet) {
  std::string bytes;
  const auto* text = reinterpret_cast<const utf8proc_uint8_t*>(token.data());
  const auto size = static_cast<utf8proc_ssize_t>(token.size());
  for (utf8proc_ssize_t at = 0; at < size;) {
    int32_t character = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(text + at, size - at, &character);
    const auto it = alphabet.find(length > 0 ? character : -1);
    if (it == alphabet.end()) return token;
    bytes.push_back(it->second);
    at += length;
  }
  return bytes;
}

class Builder {
 public:
  explicit Builder(std::string_view where) : where_(where) {}

  absl::Status AddTokens(const BpeListing& listing) {
    const auto alphabet = Alphabet();
    for (const auto& [token, id] : listing.vocab) {
      RETURN_IF_ERROR(AddToken(token, id, BytesOf(token, alphabet)));
    }
    for (const auto& [token, id] : listing.added) {
      if (const auto it = ids_.find(token); it != ids_.end() && it->second == id) continue;
      RETURN_IF_ERROR(AddToken(token, id, token));
    }
    if (const auto it = ids_.find(std::string(kEndOfText)); it != ids_.end()) {
      made_.end_of_text = it->second;
    }
    return FindBytes();
  }

  absl::Status AddMerges(const BpeListing& listing) {
    made_.merges.reserve(listing.merges.size());
    for (const auto& [left, right] : listing.merges) {
      const auto rank = static_cast<int32_t>(made_.merges.size());
      ASSIGN_OR_RETURN(const int32_t a, IdOf(left, left, right));
      ASSIGN_OR_RETURN(const int32_t b, IdOf(right, left, right));
      ASSIGN_OR_RETURN(const int32_t merged, IdOf(left + right, left, right));
      made_.merges.emplace(BpeVocabulary::Pair(a, b), BpeVocabulary::Merge{rank, merged});
    }
    return absl::OkStatus();
  }

  BpeVocabulary Take() { return std::move(made_); }

 private:
  absl::Status AddToken(const std::string& token, int64_t id, std::string bytes) {
    const auto bad = [&](std::string_view what) {
      return InputError(where_, absl::StrCat("token \"", token, "\" has id ", id, ToAbsl(what)),
                        "give each token an id of its own, counting from 0");
    };
    if (id < 0 || id >= kMostTokens) return bad(", which is out of range");
    if (made_.tokens.size() <= id) made_.tokens.resize(id + 1), taken_.resize(id + 1);
    if (taken_[id]) return bad(absl::StrCat(", as \"", made_.tokens[id], "\" has"));
    taken_[id] = true;
    made_.tokens[id] = std::move(bytes);
    ids_.emplace(token, static_cast<int32_t>(id));
    return absl::OkStatus();
  }

  absl::Status FindBytes() {
    made_.id_of_byte.fill(-1);
    for (size_t id = 0; id < made_.tokens.size(); ++id) {
      const std::string& token = made_.tokens[id];
      if (token.size() != 1) continue;
      made_.id_of_byte[static_cast<unsigned char>(token[0])] = static_cast<int32_t>(id);
    }
    const auto missing = std::find(made_.id_of_byte.begin(), made_.id_of_byte.end(), -1);
    if (missing == made_.id_of_byte.end()) return absl::OkStatus();
    return InputError(
        where_, absl::StrFormat("has no token for byte 0x%02x", missing - made_.id_of_byte.begin()),
        "use a byte-level vocabulary such as GPT-2's");
  }

  absl::StatusOr<int32_t> IdOf(const std::string& token, const std::string& left,
                               const std::string& right) const {
    if (const auto it = ids_.find(token); it != ids_.end()) return it->second;
    return InputError(
        where_,
        absl::StrCat("merge \"", left, " ", right, "\": the vocabulary has no \"", token, "\""),
        "take vocabulary and merges of one and the same model");
  }

  const std::string_view where_;
  BpeVocabulary made_;
  std::vector<bool> taken_;                        // by id
  absl::flat_hash_map<std::string, int32_t> ids_;  // by token as written
};

}  // namespace

absl::StatusOr<BpeVocabulary> MakeBpeVocabulary(std::string_view where, const BpeListing& listing) {
  Builder builder(where);
  RETURN_IF_ERROR(builder.AddTokens(listing));
  RETURN_IF_ERROR(builder.AddMerges(listing));
  return builder.Take();
}

}  // namespace oneflow
