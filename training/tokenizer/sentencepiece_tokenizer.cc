#include "training/tokenizer/sentencepiece_tokenizer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/added_tokens.h"
#include "training/tokenizer/bpe_files.h"
#include "training/tokenizer/sentencepiece_encoder.h"
#include "training/tokenizer/sentencepiece_model.h"
#include "training/tokenizer/sentencepiece_normalizer.h"
#include "training/tokenizer/text_ends.h"
#include "training/tokenizer/write_pieces.h"
#include "xxhash.h"

namespace oneflow {
namespace {

using Piece = SentencePieceModel::Piece;

// The rules of Llama's tokenizers in transformers.
struct LlamaRules {
  SpaceInFront space = SpaceInFront::kAlways;
  bool writes_first = true;  // before added tokens that are normalized are found
  std::optional<AddedTokens> added;
};

// A model with its normalizer, which points into it, or with Llama's rules instead.
struct SentencePieces {
  SentencePieceModel model;
  std::optional<SentencePieceNormalizer> normalizer;
  std::optional<LlamaRules> llama;
  std::optional<AddedTokens> control;  // without Llama's rules: special tokens to be found

  void Encode(std::string_view text, std::vector<int32_t>* ids) const {
    if (control) {
      return control->Split(text, [&](std::string_view part, std::optional<int32_t> id) {
        id ? ids->push_back(*id) : EncodeNormal(normalizer->Normalize(part), ids);
      });
    }
    if (!llama) return EncodeNormal(normalizer->Normalize(text), ids);
    bool first = true;
    llama->added->Split(text, [&](std::string_view part, std::optional<int32_t> id) {
      const bool begins = std::exchange(first, false);
      if (id) return ids->push_back(*id);
      EncodeNormal(
          llama->writes_first ? std::string(part) : WritePieces(part, llama->space, begins), ids);
    });
  }

 private:
  void EncodeNormal(const std::string& normal, std::vector<int32_t>* ids) const {
    const auto found = model.bpe ? FindBpePieces(model, normal) : FindUnigramPieces(model, normal);
    AppendIds(model, found, ids);
  }
};

// The added tokens of tokenizer_config.json, and the model's own.
absl::StatusOr<std::vector<AddedToken>> ListAdded(const SentencePieceModel& model,
                                                  const TokenizerSettings& settings) {
  constexpr int64_t kMostTokens = int64_t{1} << 24;
  ASSIGN_OR_RETURN(std::vector<AddedToken> added, ParseAddedTokens(settings.path, settings.added));
  for (const AddedToken& token : added) {
    const bool in_range = token.id >= 0 && token.id < kMostTokens;
    const bool new_id = token.id >= std::ssize(model.pieces);
    if (in_range && (new_id || model.pieces[token.id].piece() == token.text)) continue;
    return InputError(settings.path,
                      absl::StrCat("added token \"", token.text, "\" has id ", token.id,
                                   in_range ? ", which the model gives to another piece"
                                            : ", which is out of range"),
                      "take tokenizer.model and tokenizer_config.json of one and the same model");
  }
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const bool known = std::any_of(added.begin(), added.end(), [&](const AddedToken& token) {
      return token.text == piece.piece();
    });
    if (known || (piece.type() != Piece::CONTROL && piece.type() != Piece::USER_DEFINED)) continue;
    added.push_back({piece.piece(), static_cast<int64_t>(id), piece.type() == Piece::CONTROL});
  }
  return added;
}

LlamaRules MakeLlamaRules(const TokenizerSettings& settings, const std::vector<AddedToken>& added,
                          bool finds_special) {
  LlamaRules rules;
  rules.writes_first = settings.legacy.value_or(true);
  if (!settings.add_prefix_space.value_or(true)) {
    rules.space = SpaceInFront::kNone;
  } else if (!rules.writes_first) {
    rules.space = SpaceInFront::kFirstUnlessThere;
  }
  AddedTokens::Normalizer normalize;
  if (rules.writes_first) {
    normalize = [space = rules.space](std::string_view text) { return WritePieces(text, space); };
  }
  rules.added.emplace(added, std::move(normalize), finds_special);
  return rules;
}

}  // namespace

absl::StatusOr<Tokenizer> LoadSentencePieces(const std::string& path,
                                             const TokenizerSettings& settings,
                                             const TokenizerOptions& options) {
  auto pieces = std::make_shared<SentencePieces>();
  ASSIGN_OR_RETURN(pieces->model, ReadSentencePieceModel(path));
  const SentencePieceModel& model = pieces->model;
  ASSIGN_OR_RETURN(pieces->normalizer, SentencePieceNormalizer::Make(path, model));
  auto texts = std::make_shared<std::vector<std::string>>(model.bytes);
  std::string rules;               // for the hash: what differs from the model's own
  std::vector<std::string> names;  // by id
  std::map<std::string, int32_t, std::less<>> special;
  for (const Piece& piece : model.pieces) names.push_back(piece.piece());
  std::vector<AddedToken> control;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    if (piece.type() != Piece::CONTROL) continue;
    control.push_back({piece.piece(), static_cast<int64_t>(id), /*special=*/true});
    special.emplace(piece.piece(), static_cast<int32_t>(id));
  }
  if (options.special && !settings.IsLlama()) {
    pieces->control.emplace(control, nullptr, /*finds_special=*/true);
  }
  if (settings.IsLlama()) {
    ASSIGN_OR_RETURN(const std::vector<AddedToken> added, ListAdded(model, settings));
    pieces->llama = MakeLlamaRules(settings, added, options.special);
    absl::StrAppend(&rules, " llama ", static_cast<int>(pieces->llama->space), " ",
                    static_cast<int>(pieces->llama->writes_first));
    for (const AddedToken& token : added) {
      if (std::ssize(names) <= token.id) names.resize(token.id + 1), texts->resize(token.id + 1);
      names[token.id] = token.text;
      if (token.id >= std::ssize(model.pieces)) (*texts)[token.id] = token.text;
      if (token.special) special.emplace(token.text, static_cast<int32_t>(token.id));
      if (token.special) continue;
      absl::StrAppend(&rules, " added ", token.id, " ", static_cast<int>(token.normalized),
                      static_cast<int>(token.single_word), static_cast<int>(token.lstrip),
                      static_cast<int>(token.rstrip), " ", token.text);
    }
  }
  Tokenizer tokenizer{
      .vocab = std::ssize(*texts),
      .special = std::move(special),
      .encode = [pieces](std::string_view text,
                         std::vector<int32_t>* ids) { pieces->Encode(text, ids); },
      .bytes = [texts](int32_t id) { return std::string_view((*texts)[id]); },
      // After a line.
      .find_split = [](std::string_view text,
                       size_t limit) { return limit == 0 ? 0 : text.rfind('\n', limit - 1) + 1; }};
  const auto find = [&](const std::string& token) -> std::optional<int64_t> {
    const auto it = std::find(names.begin(), names.end(), token);
    return token.empty() || it == names.end() ? std::nullopt
                                              : std::optional<int64_t>(it - names.begin());
  };
  const std::optional<int64_t> bos = find(settings.bos), eos = find(settings.eos);
  std::vector<int64_t> said = settings.eos_ids;
  if (eos) said.insert(said.begin(), *eos);
  const std::vector<int32_t> named(model.end_of_text >= 0 ? 1 : 0, model.end_of_text);
  TextEnds ends = FindTextEnds(said, named, names);
  tokenizer.end_of_text = ends.end_of_text;
  tokenizer.stops = std::move(ends.stops);
  tokenizer.config =
      settings.TextToKeep(/*needs_class=*/true, ends.named ? "" : names[*tokenizer.end_of_text]);
  const auto begin = bos ? bos : settings.bos_id;
  if (begin && *begin >= 0 && *begin < tokenizer.vocab) {
    tokenizer.begin_of_text = static_cast<int32_t>(*begin);
  }
  const auto around = [](bool adds, std::optional<int64_t> id) {
    return std::vector<int32_t>(adds && id ? 1 : 0, static_cast<int32_t>(id.value_or(0)));
  };
  tokenizer.begin = around(settings.add_bos.value_or(settings.IsLlama()), bos);
  tokenizer.end = around(settings.add_eos.value_or(false), eos);
  for (const int32_t id : tokenizer.begin) absl::StrAppend(&rules, " begin ", id);
  for (const int32_t id : tokenizer.end) absl::StrAppend(&rules, " end ", id);
  tokenizer.id.hash = model.hash;
  if (!rules.empty()) {
    rules += model.hash;
    tokenizer.id.hash =
        absl::StrCat(absl::Hex(XXH3_64bits(rules.data(), rules.size()), absl::kZeroPad16));
  }
  return tokenizer;
}

}  // namespace oneflow
