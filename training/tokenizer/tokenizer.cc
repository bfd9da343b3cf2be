#include "training/tokenizer/tokenizer.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "oneflow_core/base/status.h"
#include "training/tokenizer/bpe_encoder.h"
#include "training/tokenizer/bpe_files.h"
#include "training/tokenizer/sentencepiece_tokenizer.h"
#include "training/tokenizer/tokenizer_files.h"
#include "training/tokenizer/tokenizer_settings.h"

namespace oneflow {
namespace {

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

std::string ParentFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// `is_json`: of a tokenizer.json, which says its rules; some settings act by the class.
Tokenizer BpeTokenizer(BpeVocabulary vocabulary, const TokenizerSettings& settings, bool is_json,
                       const TokenizerOptions& options) {
  auto encoder = std::make_shared<BpeEncoder>(std::move(vocabulary), options.special);
  const BpeVocabulary& v = encoder->vocabulary();
  std::map<std::string, int32_t, std::less<>> special;
  for (const AddedToken& token : v.added) {
    if (token.special) special.emplace(token.text, static_cast<int32_t>(token.id));
  }
  const bool by_class =
      !is_json || settings.add_bos || settings.add_eos || settings.add_prefix_space;
  return {
      .vocab = static_cast<int64_t>(v.tokens.size()),
      .id = {.hash = v.hash},
      .begin_of_text = v.begin_of_text,
      .end_of_text = v.ends.end_of_text,
      .stops = v.ends.stops,
      .begin = v.begin,
      .end = v.end,
      .special = std::move(special),
      .config = settings.TextToKeep(by_class, v.ends.named ? "" : v.tokens[*v.ends.end_of_text]),
      .encode = [encoder](std::string_view text,
                          std::vector<int32_t>* ids) { encoder->Encode(text, ids); },
      .bytes = [&v, encoder](int32_t id) { return std::string_view(v.tokens[id]); },
      .find_split = [encoder](std::string_view text,
                              size_t limit) { return encoder->FindSplit(text, limit); }};
}

}  // namespace

absl::StatusOr<Tokenizer> LoadTokenizer(const std::string& spec, const TokenizerOptions& options) {
  if (spec == "bytes") return ByteTokenizer();
  std::error_code ignored;
  if (std::filesystem::is_directory(spec, ignored)) {
    const std::string found = TokenizerSpecIn(spec);
    if (!found.empty()) return LoadTokenizer(found, options);
    return InputError("--tokenizer=" + spec, "has no files of a tokenizer",
                      "give a folder with tokenizer.json, tokenizer.model, or vocab.json and "
                      "merges.txt");
  }
  const bool gpt2 = spec.starts_with(kGpt2), json = spec.ends_with(".json");
  if (!gpt2 && !json && !spec.ends_with(".model")) {
    return InputError(
        "--tokenizer=" + spec, "is not known",
        "use bytes, gpt2:FOLDER (with vocab.json and merges.txt), FILE.json, FILE.model, or a "
        "folder with one of these");
  }
  const std::string path = gpt2 ? spec.substr(kGpt2.size()) : spec;
  ASSIGN_OR_RETURN(const TokenizerSettings settings,
                   ReadTokenizerSettings(gpt2 ? path : ParentFolder(path)));
  Tokenizer tokenizer;
  if (gpt2 || json) {
    ASSIGN_OR_RETURN(BpeVocabulary vocabulary,
                     gpt2 ? ReadGpt2Folder(path, settings) : ReadTokenizerJson(path, settings));
    tokenizer = BpeTokenizer(std::move(vocabulary), settings, json, options);
  } else {
    ASSIGN_OR_RETURN(tokenizer, LoadSentencePieces(path, settings, options));
  }
  tokenizer.id.name = (gpt2 ? std::string(kGpt2) : "") + FileName(path);
  return tokenizer;
}

}  // namespace oneflow
