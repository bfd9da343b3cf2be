#include "training/tokenizer/bpe_vocabulary.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "oneflow_core/base/status.h"
#include "xxhash.h"

namespace oneflow {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;
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

// The bytes of a token that is written in the alphabet; nothing for another.
std::optional<std::string> WordBytes(const std::string& token,
                                     const absl::flat_hash_map<int32_t, char>& alphabet) {
  std::string bytes;
  const auto* text = reinterpret_cast<const utf8proc_uint8_t*>(token.data());
  const auto size = static_cast<utf8proc_ssize_t>(token.size());
  for (utf8proc_ssize_t at = 0; at < size;) {
    int32_t character = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(text + at, size - at, &character);
    const auto it = alphabet.find(length > 0 ? character : -1);
    if (it == alphabet.end()) return std::nullopt;
    bytes.push_back(it->second);
    at += length;
  }
  return bytes;
}

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

class Builder {
 public:
  Builder(std::string_view where, const BpeRules& rules) : where_(where) { made_.rules = rules; }

  // Before what is added: words are made of the vocabulary's tokens alone.
  absl::Status AddVocabulary(const BpeListing& listing) {
    const auto alphabet = Alphabet();
    const bool pieces = made_.rules.words == nullptr;
    for (const auto& [token, id] : listing.vocab) {
      const std::optional<std::string> word =
          pieces ? std::nullopt : WordBytes(token, alphabet);  // none: plain text
      RETURN_IF_ERROR(AddToken(token, id, pieces ? PieceBytes(token) : word.value_or(token)));
      if (pieces) made_.id_of_word.emplace(token, id);
      if (word && made_.rules.ignore_merges) made_.id_of_word.emplace(*word, id);
    }
    return pieces ? FindPieceBytes() : FindBytes(alphabet);
  }

  absl::Status AddMerges(const BpeListing& listing) {
    made_.merges.reserve(listing.merges.size());
    for (const auto& [left, right] : listing.merges) {
      const auto rank = static_cast<int32_t>(made_.merges.size());
      ASSIGN_OR_RETURN(const int32_t a, FindId(left, left, right));
      ASSIGN_OR_RETURN(const int32_t b, FindId(right, left, right));
      ASSIGN_OR_RETURN(const int32_t merged, FindId(left + right, left, right));
      made_.merges.emplace(BpeVocabulary::Pair(a, b), BpeVocabulary::Merge{rank, merged});
    }
    return absl::OkStatus();
  }

  absl::Status AddAdded(const BpeListing& listing) {
    for (const AddedToken& token : listing.added) {
      if (token.text.empty()) continue;  // which nothing can find
      const auto [it, is_new] = ids_.try_emplace(token.text, static_cast<int32_t>(token.id));
      if (it->second != token.id) {
        return InputError(where_,
                          absl::StrCat("added token \"", token.text, "\" has id ", token.id,
                                       ", in the vocabulary it has ", it->second),
                          "take one of the two out");
      }
      if (is_new) RETURN_IF_ERROR(AddToken(token.text, token.id, token.text));
      made_.tokens[token.id] =
          token.text;  // as it is written, which the alphabet may read otherwise
      made_.added.push_back(token);
    }
    FindEnds(listing);
    return absl::OkStatus();
  }

  absl::Status AddTemplate(const BpeListing& listing) {
    RETURN_IF_ERROR(AddIds(listing.begin, &made_.begin));
    return AddIds(listing.end, &made_.end);
  }

  // Special tokens do not enter the hash, because only one of GPT-2's two kinds of files lists
  // them.
  void AddHash(const BpeListing& listing) {
    std::string all;
    const BpeRules& rules = made_.rules;
    const bool finds = std::any_of(made_.added.begin(), made_.added.end(),
                                   [](const AddedToken& token) { return !token.special; });
    // Without parts between added tokens the first is the only one.
    const bool first = rules.space_in_front == SpaceInFront::kFirstUnlessThere;
    const SpaceInFront space = first && !finds ? SpaceInFront::kUnlessThere : rules.space_in_front;
    if (rules.words == nullptr || space != SpaceInFront::kNone) {
      absl::StrAppend(&all, " spaces ", static_cast<int>(space));
    }
    if (rules.words != nullptr && rules.words != &kGpt2Words) {
      absl::StrAppend(&all, " words ", ToAbsl(rules.words->regex));
    }
    if (finds && rules.writes_first) absl::StrAppend(&all, " written first");
    if (rules.nfc) absl::StrAppend(&all, " nfc");
    if (rules.ignore_merges) absl::StrAppend(&all, " ignores merges");
    const auto add = [&all](const std::string& text) {
      absl::StrAppend(&all, text.size(), ":", text);
    };
    for (const std::string& token : made_.tokens) add(token);
    for (const auto& [left, right] : listing.merges) add(left), add(right);
    for (const AddedToken& token : made_.added) {
      if (token.special) continue;
      absl::StrAppend(&all, " added ", token.id, " ", token.normalized);
      if (token.single_word) absl::StrAppend(&all, " single word");
      if (token.lstrip) absl::StrAppend(&all, " lstrip");
      if (token.rstrip) absl::StrAppend(&all, " rstrip");
    }
    for (const int32_t id : made_.begin) absl::StrAppend(&all, " begin ", id);
    for (const int32_t id : made_.end) absl::StrAppend(&all, " end ", id);
    made_.hash = absl::StrCat(absl::Hex(XXH3_64bits(all.data(), all.size()), absl::kZeroPad16));
  }

  BpeVocabulary Take() { return std::move(made_); }

 private:
  absl::Status AddToken(const std::string& token, int64_t id, std::string bytes) {
    const auto bad = [&](std::string_view what) {
      return InputError(where_, absl::StrCat("token \"", token, "\" has id ", id, ToAbsl(what)),
                        "give each token a different id, counting from 0");
    };
    if (id < 0 || id >= kMostTokens) return bad(", which is out of range");
    if (made_.tokens.size() <= id) made_.tokens.resize(id + 1), taken_.resize(id + 1);
    if (taken_[id]) return bad(absl::StrCat(", as \"", made_.tokens[id], "\" has"));
    taken_[id] = true;
    made_.tokens[id] = std::move(bytes);
    ids_.emplace(token, static_cast<int32_t>(id));
    return absl::OkStatus();
  }

  absl::Status AddIds(const std::vector<int64_t>& from, std::vector<int32_t>* to) const {
    for (const int64_t id : from) {
      if (id < 0 || id >= static_cast<int64_t>(taken_.size()) || !taken_[id]) {
        return InputError(where_,
                          absl::StrCat("its post-processor adds id ", id, ", which no token has"),
                          "take vocabulary and post-processor of one and the same model");
      }
      to->push_back(static_cast<int32_t>(id));
    }
    return absl::OkStatus();
  }

  // The tokens at which texts begin and end.
  void FindEnds(const BpeListing& listing) {
    const auto find = [&](std::string_view name) -> std::optional<int32_t> {
      const auto it = ids_.find(ToAbsl(name));
      if (it == ids_.end()) return std::nullopt;
      const bool special =
          std::any_of(made_.added.begin(), made_.added.end(),
                      [&](const AddedToken& token) { return token.special && token.text == name; });
      // GPT-2's token counts also where its files do not list it as special.
      return special || name == kEndOfText ? std::optional(it->second) : std::nullopt;
    };
    std::vector<int32_t> named;
    for (const std::span<const std::string_view> names :
         {std::span<const std::string_view>(kEndsOfText), {kEndsOfTurn}}) {
      for (const std::string_view name : names) {
        if (const std::optional<int32_t> id = find(name)) named.push_back(*id);
      }
    }
    made_.ends = FindTextEnds(listing.ends, named, made_.tokens);
    if (const auto begin = listing.begin_of_text;
        begin && *begin >= 0 && *begin < static_cast<int64_t>(taken_.size()) && taken_[*begin]) {
      made_.begin_of_text = static_cast<int32_t>(*begin);
    }
  }

  absl::Status FindPieceBytes() {
    for (int byte = 0; byte < 256; ++byte) {
      const auto it = ids_.find(absl::StrFormat("<0x%02X>", byte));
      if (it == ids_.end()) {
        return InputError(where_, absl::StrFormat("has no token <0x%02X>, for a byte", byte),
                          "its model sets byte_fallback: take the file as it was published");
      }
      made_.id_of_byte[byte] = it->second;
    }
    return absl::OkStatus();
  }

  // A byte's token is the one that is written as its character of the alphabet. Another token may
  // stand for the same byte, "\n" beside "Ċ": no word is made of it.
  absl::Status FindBytes(const absl::flat_hash_map<int32_t, char>& alphabet) {
    made_.id_of_byte.fill(-1);
    for (const auto& [character, byte] : alphabet) {
      std::array<utf8proc_uint8_t, 4> text;
      const utf8proc_ssize_t size = utf8proc_encode_char(character, text.data());
      const auto it = ids_.find(std::string(text.begin(), text.begin() + size));
      if (it != ids_.end()) made_.id_of_byte[static_cast<unsigned char>(byte)] = it->second;
    }
    const auto missing = std::find(made_.id_of_byte.begin(), made_.id_of_byte.end(), -1);
    if (missing == made_.id_of_byte.end()) return absl::OkStatus();
    return InputError(
        where_, absl::StrFormat("has no token for byte 0x%02x", missing - made_.id_of_byte.begin()),
        "use a byte-level vocabulary such as GPT-2's");
  }

  absl::StatusOr<int32_t> FindId(const std::string& token, const std::string& left,
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
  Builder builder(where, listing.rules);
  RETURN_IF_ERROR(builder.AddVocabulary(listing));
  RETURN_IF_ERROR(builder.AddMerges(listing));
  RETURN_IF_ERROR(builder.AddAdded(listing));
  RETURN_IF_ERROR(builder.AddTemplate(listing));
  builder.AddHash(listing);
  return builder.Take();
}

}  // namespace oneflow
