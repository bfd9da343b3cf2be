#include "training/tokenizer/bpe_vocabulary.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/byte_alphabet.h"
#include "training/tokenizer/code_set.h"
#include "training/tokenizer/decode_token.h"
#include "xxhash.h"

namespace oneflow {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;

class Builder {
 public:
  Builder(std::string_view where, const BpeRules& rules) : where_(where) { made_.rules = rules; }

  // Before what is added: words are made of the vocabulary's tokens alone.
  absl::Status AddVocabulary(const BpeListing& listing) {
    const BpeRules& rules = made_.rules;
    const bool characters = rules.of_characters();
    for (const auto& [token, id] : listing.vocab) {
      const std::optional<std::string> word =
          characters ? std::nullopt : ReadAlphabet(token);  // none: plain text
      RETURN_IF_ERROR(
          AddToken(token, id, characters ? DecodeToken(rules, token) : word.value_or(token)));
      if (characters) made_.id_of_word.emplace(token, id);
      if (word && rules.ignore_merges) made_.id_of_word.emplace(*word, id);
    }
    if (!rules.unknown.empty()) {
      const auto it = ids_.find(rules.unknown);
      if (it != ids_.end()) made_.unknown = it->second;
    }
    return characters ? FindPieceBytes() : FindBytes();
  }

  absl::Status AddMerges(const BpeListing& listing) {
    made_.merges.reserve(listing.merges.size());
    int32_t rank = 0;
    for (const auto& [left, right] : listing.merges) {
      ASSIGN_OR_RETURN(const int32_t a, FindId(left, left, right));
      ASSIGN_OR_RETURN(const int32_t b, FindId(right, left, right));
      const std::string& prefix = made_.rules.subword_prefix;
      const bool prefixed = !prefix.empty() && right.starts_with(prefix);
      ASSIGN_OR_RETURN(const int32_t merged,
                       FindId(left + right.substr(prefixed ? prefix.size() : 0), left, right));
      AddJoin(left, right);
      // Of two that are the same pair, the last counts.
      made_.merges.insert_or_assign(BpeVocabulary::Pair(a, b),
                                    BpeVocabulary::Merge{rank++, merged});
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
    const auto& bytes = made_.id_of_byte;
    const bool misses_bytes = std::find(bytes.begin(), bytes.end(), -1) != bytes.end();
    if (!rules.pipeline && misses_bytes) absl::StrAppend(&all, " unknown ", rules.unknown);
    if (rules.pipeline) {
      absl::StrAppend(&all, " pipeline ", rules.pipeline->text, " unknown ", rules.unknown, " ",
                      rules.fuse_unknown, rules.byte_fallback, " subwords ", rules.subword_prefix,
                      " ", rules.word_suffix);
    }
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

  void AddJoin(std::string_view left, std::string_view right) {
    if (left.empty() || right.empty()) return;  // joins no characters
    size_t last = left.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(left[last]) & 0xc0) == 0x80) --last;
    int32_t a = DecodeCharacter(left.substr(last)).code, b = DecodeCharacter(right).code;
    if (!made_.rules.of_characters()) {
      const auto byte = [](const std::optional<std::string>& bytes) {
        return bytes && bytes->size() == 1 ? static_cast<unsigned char>(bytes->front()) : -1;
      };
      a = byte(ReadAlphabet(left.substr(last)));
      b = byte(ReadAlphabet(right.substr(0, DecodeCharacter(right).bytes)));
      if (a < 0 || b < 0) return;  // no word has such tokens
    }
    made_.joins.emplace_back(a, b);
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
    made_.id_of_byte.fill(-1);
    if (!made_.rules.byte_fallback) return absl::OkStatus();
    for (int byte = 0; byte < 256; ++byte) {
      const auto it = ids_.find(absl::StrFormat("<0x%02X>", byte));
      if (it != ids_.end()) {
        made_.id_of_byte[byte] = it->second;
      } else if (!made_.rules.drops_unknown) {
        return InputError(where_, absl::StrFormat("has no token <0x%02X>, for a byte", byte),
                          "its model sets byte_fallback: take the file as it was published");
      }
    }
    return absl::OkStatus();
  }

  // A byte's token is the one that is written as its character of the alphabet. Another token may
  // stand for the same byte, "\n" beside "Ċ": no word is made of it.
  absl::Status FindBytes() {
    made_.id_of_byte.fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      std::string text;
      AppendCharacter(ByteAlphabet()[byte], &text);
      const auto it = ids_.find(text);
      if (it != ids_.end()) made_.id_of_byte[byte] = it->second;
    }
    const auto missing = std::find(made_.id_of_byte.begin(), made_.id_of_byte.end(), -1);
    if (missing == made_.id_of_byte.end() || made_.rules.drops_unknown) return absl::OkStatus();
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
