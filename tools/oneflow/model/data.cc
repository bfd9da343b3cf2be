// oneflow data: tokenises text into the files that training reads.
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/check_needs.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/model/chat_data.h"
#include "tools/oneflow/model/data_folder.h"
#include "tools/oneflow/model/load_text_tokenizer.h"
#include "tools/oneflow/model/text_progress.h"
#include "tools/oneflow/model/tokenize_text.h"
#include "tools/oneflow/model/warn_of_text.h"
#include "training/data/mapped_file.h"
#include "training/data/token_file.h"
#include "training/data/token_file_meta.h"
#include "training/data/token_file_writer.h"
#include "training/tokenizer/tokenizer.h"
#include "training/tokenizer/tokenizer_files.h"

namespace oneflow {
namespace {

struct Texts {
  std::vector<MappedFile> files;            // by document
  std::vector<std::string_view> documents;  // in files
};

absl::StatusOr<Texts> OpenTexts(const TokenizerId& tokenizer) {
  if (FLAGS_text.empty()) return InputError("--text", "is missing", "write --text=book.txt");
  Texts texts;
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOfFlag("text", FLAGS_text));
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(const TokenFile text, OpenTextFile(path));
    RETURN_IF_ERROR(WarnOfText(text.file));
    ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    if (file.bytes().empty()) return InputError(path, "is empty", "leave it out");
    texts.files.push_back(std::move(file));
  }
  for (const MappedFile& file : texts.files) {
    texts.documents.emplace_back(reinterpret_cast<const char*>(file.bytes().data()),
                                 file.bytes().size());
    if (tokenizer != BytesTokenizerId()) WarnOfEncoding(file.path(), texts.documents.back());
  }
  return texts;
}

absl::StatusOr<TextSplit> Split(const Texts& texts, const Tokenizer& tokenizer) {
  const std::string where = absl::StrCat("--val_fraction=", FLAGS_val_fraction);
  if (!(FLAGS_val_fraction >= 0 && FLAGS_val_fraction < 1)) {
    return InputError(where, "must be at least 0 and below 1", "use a number such as 0.1");
  }
  TextSplit split = SplitText(texts.documents, tokenizer, FLAGS_val_fraction);
  if (split.train.pieces.empty() || (FLAGS_val_fraction > 0 && split.validation.pieces.empty())) {
    return InputError(where, "leaves one of the two parts empty: the text is too short to cut",
                      "use more text or another fraction");
  }
  return split;
}

// A file that was written.
struct TokenizedFile {
  std::string path;
  int64_t text_bytes = 0, tokens = 0;
  int token_bytes = 0;
};

// A text without a token is the user's mistake; a document without one among others is reported.
absl::Status CheckEncoded(const EncodedText& encoded, const Texts& texts, const std::string& path) {
  if (encoded.counts.text_tokens == 0) {
    return InputError("--text=" + FLAGS_text,
                      "the tokenizer makes no token of the text of " + path +
                          ": its normalizer leaves nothing of it",
                      "use other text, or another tokenizer");
  }
  for (const size_t document : encoded.counts.silent) {
    std::fprintf(stderr, "oneflow: warning: %s: the tokenizer makes no token of its text for %s\n",
                 texts.files[document].path().c_str(), path.c_str());
  }
  return absl::OkStatus();
}

// The text of tokens, in quotes.
std::string TokensText(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += tokenizer.bytes(id);
  return "\"" + text + "\"";
}

absl::Status PrintFiles(const std::vector<TokenizedFile>& files, const std::string& spec,
                        const Tokenizer& tokenizer, const TextProgress& progress) {
  std::string text;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TokenizedFile& file : files) {
    absl::StrAppendFormat(&text, "%s: %d tokens of %d bytes, for %s of text (%.2f bytes a token)\n",
                          file.path, file.tokens, file.token_bytes, BytesText(file.text_bytes),
                          static_cast<double>(file.text_bytes) / static_cast<double>(file.tokens));
    list.push_back({{"path", file.path},
                    {"tokens", file.tokens},
                    {"token_bytes", file.token_bytes},
                    {"text_bytes", file.text_bytes}});
  }
  if (!tokenizer.begin.empty() || !tokenizer.end.empty()) {
    absl::StrAppend(&text, "each document stands between ", TokensText(tokenizer, tokenizer.begin),
                    " and ", TokensText(tokenizer, tokenizer.end),
                    ": the tokenizer's post-processor\n");
  }
  absl::StrAppendFormat(&text, "tokenizer %s, vocabulary of %d; %.1f MB/s\n", tokenizer.id.Text(),
                        tokenizer.vocab, progress.bytes_per_second() / 1e6);
  return Print(text, {{"tokenizer", spec},
                      {"tokenizer_hash", tokenizer.id.hash},
                      {"vocab", tokenizer.vocab},
                      {"begin", tokenizer.begin},
                      {"end", tokenizer.end},
                      {"token_format", FLAGS_token_format},
                      {"files", std::move(list)},
                      {"seconds", progress.seconds()},
                      {"bytes_per_second", progress.bytes_per_second()}});
}

absl::Status Data(const Arguments& args) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  RETURN_IF_ERROR(CheckNeeds(RunRows(), run));
  if (run.chat()) return WriteChatData(args, run);
  if (run.has_data()) return InputError("--data", "acts only with --chat", "write --text=FILE");
  const std::string spec = run.has_tokenizer() ? run.tokenizer() : "bytes";
  TokenizeOptions options;
  ASSIGN_OR_RETURN(options.format, ParseTokenFormat(FLAGS_token_format));
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTextTokenizer(spec));
  options.end_of_text = FLAGS_end_of_text;
  if (options.end_of_text && !tokenizer.end_of_text) {
    return InputError("--end_of_text", "the tokenizer has no such token", "leave the flag out");
  }
  ASSIGN_OR_RETURN(const Texts texts, OpenTexts(tokenizer.id));
  ASSIGN_OR_RETURN(const TextSplit split, Split(texts, tokenizer));
  RETURN_IF_ERROR(MakeDataFolder(args));

  TextProgress progress(split.train.bytes() + split.validation.bytes());
  options.on_progress = [&](int64_t bytes) { progress.Add(bytes); };
  struct Written {
    const TextPart& part;
    std::string path;
    EncodedText encoded;
  };
  // All is encoded before the first file gets its name: what fails leaves the folder as it was.
  std::vector<Written> parts;
  for (const auto& [part, name] :
       {std::pair(&split.train, kTrainFile), {&split.validation, kValidationFile}}) {
    if (part->pieces.empty()) continue;
    const std::string path = OutputPath(name);
    ASSIGN_OR_RETURN(EncodedText encoded, EncodeText(*part, tokenizer, path, options));
    RETURN_IF_ERROR(CheckEncoded(encoded, texts, path));
    parts.push_back({*part, path, std::move(encoded)});
  }
  ASSIGN_OR_RETURN(const TokenizerFiles tokenizer_files,
                   ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops, tokenizer.config));
  std::vector<TokenizedFile> files;
  for (auto& [part, path, encoded] : parts) {
    RETURN_IF_ERROR(encoded.file.Finish());
    files.push_back({path, part.bytes(), encoded.file.tokens(), encoded.file.token_bytes()});
  }
  // One of an earlier text may be there.
  if (split.validation.pieces.empty())
    RETURN_IF_ERROR(RemoveTokenFile(OutputPath(kValidationFile)));
  RETURN_IF_ERROR(WriteTokenizerFiles(tokenizer_files, TokenizerFolder(OutputPath(kTrainFile))));
  return PrintFiles(files, spec, tokenizer, progress);
}

}  // namespace

Verb DataVerb() {
  return {verbs::kData, "tokenise text into train.bin and val.bin",
          "oneflow data --text=book.txt --tokenizer=bytes --out=run/data --val_fraction=0.1\n"
          "oneflow data --text=a.txt,b.txt --tokenizer=gpt2:models/gpt2 --end_of_text "
          "--token_format=megatron --out=run/data\n"
          "oneflow data --chat --data=chats.jsonl --tokenizer=models/qwen --out=run/data\n",
          Data};
}

}  // namespace oneflow
