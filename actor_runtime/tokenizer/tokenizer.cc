#include "actor_runtime/tokenizer/tokenizer.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "actor_runtime/tokenizer/bpe_encoder.h"
#include "actor_runtime/tokenizer/bpe_files.h"
#include "actor_runtime/tokenizer/sentencepiece_encoder.h"
#include "actor_runtime/tokenizer/sentencepiece_model.h"
#include "actor_runtime/tokenizer/sentencepiece_normalizer.h"
#include "actor_runtime/tokenizer/tokenizer_files.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr std::string_view kGpt2 = "gpt2:";

Tokenizer ByteTokenizer() {
  auto all = std::make_shared<std::string>(256, '\0');
  for (int i = 0; i < 256; ++i) (*all)[i] = static_cast<char>(i);
  return {.vocab = 256,
          .id = BytesTokenizerId(),
          .encode =
              [](std::string_view text, std::vector<int32_t>* ids) {
                for (const char c : text) ids->push_back(static_cast<unsigned char>(c));
              },
          .bytes = [all](int32_t id) { return std::string_view(*all).substr(id, 1); },
          .find_split = [](std::string_view, size_t limit) { return limit; }};
}

// The last part of a path.
std::string FileName(const std::string& path) {
  const size_t end = path.find_last_not_of('/') + 1;
  const size_t slash = path.rfind('/', end == 0 ? 0 : end - 1);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end > begin ? end - begin : 0);
}

Tokenizer BpeTokenizer(const std::string& name, BpeVocabulary vocabulary) {
  auto encoder = std::make_shared<BpeEncoder>(std::move(vocabulary));
  const BpeVocabulary& v = encoder->vocabulary();
  return {.vocab = static_cast<int64_t>(v.tokens.size()),
          .id = {name, v.hash},
          .end_of_text = v.end_of_text,
          .stops = v.stops,
          .begin = v.begin,
          .end = v.end,
          .encode = [encoder](std::string_view text,
                              std::vector<int32_t>* ids) { encoder->Encode(text, ids); },
          .bytes = [&v, encoder](int32_t id) { return std::string_view(v.tokens[id]); },
          .find_split = [encoder](std::string_view text,
                                  size_t limit) { return encoder->FindSplit(text, limit); }};
}

// A model with its normalizer, which points into it.
struct SentencePieces {
  SentencePieceModel model;
  std::optional<SentencePieceNormalizer> normalizer;

  void Encode(std::string_view text, std::vector<int32_t>* ids) const {
    const std::string normal = normalizer->Normalize(text);
    const auto found = model.bpe ? FindBpePieces(model, normal) : FindUnigramPieces(model, normal);
    AppendIds(model, found, ids);
  }
};

absl::StatusOr<Tokenizer> SentencePieceTokenizer(const std::string& path) {
  auto pieces = std::make_shared<SentencePieces>();
  ASSIGN_OR_RETURN(pieces->model, ReadSentencePieceModel(path));
  ASSIGN_OR_RETURN(pieces->normalizer, SentencePieceNormalizer::Make(path, pieces->model));
  const SentencePieceModel& model = pieces->model;
  Tokenizer tokenizer{
      .vocab = static_cast<int64_t>(model.pieces.size()),
      .id = {FileName(path), model.hash},
      .encode = [pieces](std::string_view text,
                         std::vector<int32_t>* ids) { pieces->Encode(text, ids); },
      .bytes = [pieces](int32_t id) { return std::string_view(pieces->model.bytes[id]); },
      // After a line.
      .find_split = [](std::string_view text,
                       size_t limit) { return limit == 0 ? 0 : text.rfind('\n', limit - 1) + 1; }};
  if (model.end_of_text >= 0) {
    tokenizer.end_of_text = model.end_of_text;
    tokenizer.stops = {model.end_of_text};
  }
  return tokenizer;
}

}  // namespace

absl::StatusOr<Tokenizer> LoadTokenizer(const std::string& spec) {
  if (spec == "bytes") return ByteTokenizer();
  if (spec.starts_with(kGpt2)) {
    ASSIGN_OR_RETURN(BpeVocabulary vocabulary, ReadGpt2Folder(spec.substr(kGpt2.size())));
    return BpeTokenizer(std::string(kGpt2) + FileName(spec.substr(kGpt2.size())),
                        std::move(vocabulary));
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(spec, ignored)) {
    const std::string found = TokenizerSpecIn(spec);
    if (!found.empty()) return LoadTokenizer(found);
    return InputError("--tokenizer=" + spec, "has no files of a tokenizer",
                      "give a folder with tokenizer.json, tokenizer.model, or vocab.json and "
                      "merges.txt");
  }
  if (spec.ends_with(".json")) {
    ASSIGN_OR_RETURN(BpeVocabulary vocabulary, ReadTokenizerJson(spec));
    return BpeTokenizer(FileName(spec), std::move(vocabulary));
  }
  if (spec.ends_with(".model")) return SentencePieceTokenizer(spec);
  return InputError(
      "--tokenizer=" + spec, "is not known",
      "use bytes, gpt2:FOLDER (with vocab.json and merges.txt), FILE.json, FILE.model, or a folder "
      "with one of these");
}

}  // namespace oneflow
