// oneflow data: tokenises text into the files that training reads.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/check_needs.h"
#include "oneflow_core/recipe/row.h"
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
#include "training/data/doubt_text.h"
#include "training/data/find_files.h"
#include "training/data/text_reader.h"
#include "training/data/token_file.h"
#include "training/data/token_file_meta.h"
#include "training/data/token_file_writer.h"
#include "training/tokenizer/tokenizer.h"
#include "training/tokenizer/tokenizer_files.h"

namespace oneflow {
namespace {

// The texts of --text: files, those of folders and of patterns.
absl::StatusOr<std::vector<TextFacts>> FindTexts() {
  if (FLAGS_text.empty()) return InputError("--text", "is missing", "write --text=book.txt");
  std::vector<TextFacts> texts;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesOfFlag("text", FLAGS_text));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const FoundFiles found, FindFiles(name));
    for (const std::string& path : found.paths) {
      ASSIGN_OR_RETURN(TextFacts text, LookAtText(path));
      WarnOfText(path, text.doubt);
      if (text.file_bytes == 0) {
        if (found.named) return InputError(path, "is empty", "leave it out");
        WarnOfText(path, "is empty");
        continue;
      }
      texts.push_back(std::move(text));
    }
  }
  if (texts.empty()) return InputError("--text=" + FLAGS_text, "has no text", "name other files");
  return texts;
}

int64_t FileBytes(const std::vector<TextFacts>& texts) {
  int64_t bytes = 0;
  for (const TextFacts& text : texts) bytes += text.file_bytes;
  return bytes;
}

// The bytes of each text. What is packed, and records, are read for it.
absl::StatusOr<std::vector<int64_t>> CountBytes(const std::vector<TextFacts>& texts,
                                                const std::string& key) {
  std::vector<int64_t> counted;
  TextProgress progress(FileBytes(texts), "to find where validation begins: ");
  int64_t before = 0;
  for (const TextFacts& text : texts) {
    int64_t bytes = text.is_file() ? text.file_bytes : 0;
    if (!text.is_file()) {
      ASSIGN_OR_RETURN(const TextReader reader, OpenText(text.path, key));
      for (TextBlock block;;) {
        ASSIGN_OR_RETURN(const bool more, reader.next(&block));
        if (!more) break;
        bytes += std::ssize(block.text);
        progress.Add(std::ssize(block.text), before + reader.position());
      }
    }
    counted.push_back(bytes);
    before += text.file_bytes;
  }
  return counted;
}

// A file that is being written.
struct PartOfText {
  std::string path;
  TokenFileWriter file;
  DocumentEncoder encoder;

  PartOfText(std::string path_to, TokenFileWriter writer, const Tokenizer& tokenizer,
             const TokenizeOptions& options)
      : path(std::move(path_to)),
        file(std::move(writer)),
        encoder(
            tokenizer, options, [this](std::span<const int32_t> ids) { return file.Append(ids); },
            [this] { file.EndDocument(); }) {}

  static absl::StatusOr<std::unique_ptr<PartOfText>> Create(std::string_view name,
                                                            const Tokenizer& tokenizer,
                                                            const TokenizeOptions& options) {
    const std::string path = OutputPath(name);
    ASSIGN_OR_RETURN(const TokenFormat format, ParseTokenFormat(FLAGS_token_format));
    ASSIGN_OR_RETURN(TokenFileWriter file,
                     TokenFileWriter::Create(path, format, tokenizer.vocab, tokenizer.id));
    return std::make_unique<PartOfText>(path, std::move(file), tokenizer, options);
  }
};

// A file that was written.
struct TokenizedFile {
  std::string path;
  int64_t documents = 0, text_bytes = 0, tokens = 0;
  int token_bytes = 0;
};

// A text without a token is the user's mistake; a document without one among others is reported.
absl::Status CheckEncoded(const EncodedCounts& counts, const std::string& path) {
  if (counts.text_tokens == 0) {
    return InputError("--text=" + FLAGS_text,
                      "the tokenizer makes no token of the text of " + path +
                          ": its normalizer leaves nothing of it",
                      "use other text, or another tokenizer");
  }
  for (const std::string& location : counts.first_silent) {
    WarnOfText(location, "the tokenizer makes no token of its text for " + path);
  }
  const int64_t more = counts.silent - std::ssize(counts.first_silent);
  if (more > 0) {
    WarnOfText(path, absl::StrCat("the tokenizer makes no token of ", more, " more documents"));
  }
  return absl::OkStatus();
}

// Encodes the texts, one after the other.
absl::Status EncodeTexts(const std::vector<TextFacts>& texts, const std::vector<int64_t>& counted,
                         const std::string& key, const Tokenizer& tokenizer, TextProgress* progress,
                         TokenizeOptions* options, TextDivider* divider) {
  int64_t before = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const TextFacts& text = texts[i];
    ASSIGN_OR_RETURN(const TextReader reader, OpenText(text.path, key));
    int64_t done = 0;
    options->on_progress = [&](int64_t bytes) {
      done += bytes;
      progress->Add(bytes, before + (text.is_file() ? done : reader.position()));
    };
    Utf8Check utf8;
    const bool checks = !text.records() && tokenizer.id != BytesTokenizerId();
    for (TextBlock block;;) {
      ASSIGN_OR_RETURN(const bool more, reader.next(&block));
      if (!more) break;
      if (checks) utf8.Add(block.text);
      RETURN_IF_ERROR(divider->Add(reader, block, counted.empty() ? 0 : counted[i]));
    }
    options->on_progress = nullptr;
    WarnOfText(text.path, utf8.Doubt(text.path));
    before += text.file_bytes;
  }
  return absl::OkStatus();
}

absl::Status CheckFraction() {
  if (FLAGS_val_fraction >= 0 && FLAGS_val_fraction < 1) return absl::OkStatus();
  return InputError(absl::StrCat("--val_fraction=", FLAGS_val_fraction),
                    "must be at least 0 and below 1", "use a number such as 0.1");
}

absl::Status CheckKeyActs(const proto::Run& run, const std::vector<TextFacts>& texts) {
  const bool acts =
      std::any_of(texts.begin(), texts.end(), [](const TextFacts& text) { return text.records(); });
  if (acts || !run.has_key()) return absl::OkStatus();
  return InputError("--key=" + run.key(), "acts on nothing: no text is JSON Lines or a table",
                    "leave it out");
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
    absl::StrAppendFormat(
        &text,
        "%s: %d tokens of %d bytes, for %s of text in %d document%s (%.2f bytes a "
        "token)\n",
        file.path, file.tokens, file.token_bytes, BytesText(file.text_bytes), file.documents,
        file.documents == 1 ? "" : "s",
        static_cast<double>(file.text_bytes) / static_cast<double>(file.tokens));
    list.push_back({{"path", file.path},
                    {"documents", file.documents},
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
  RETURN_IF_ERROR(ParseTokenFormat(FLAGS_token_format).status());
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTextTokenizer(spec));
  TokenizeOptions options;
  options.end_of_text = FLAGS_end_of_text;
  if (options.end_of_text && !tokenizer.end_of_text) {
    return InputError("--end_of_text", "the tokenizer has no such token", "leave the flag out");
  }
  ASSIGN_OR_RETURN(const std::vector<TextFacts> texts, FindTexts());
  RETURN_IF_ERROR(CheckKeyActs(run, texts));
  RETURN_IF_ERROR(CheckFraction());
  const std::string key = run.has_key() ? run.key() : "text";
  const bool validates = FLAGS_val_fraction > 0;
  std::vector<int64_t> counted;
  ValidationShare share;
  if (validates) {
    ASSIGN_OR_RETURN(counted, CountBytes(texts, key));
    share =
        ShareText(std::accumulate(counted.begin(), counted.end(), int64_t{0}), FLAGS_val_fraction);
  }
  RETURN_IF_ERROR(MakeDataFolder(args));

  // All is encoded before the first file gets its name: what fails leaves the folder as it was.
  ASSIGN_OR_RETURN(const auto train, PartOfText::Create(kTrainFile, tokenizer, options));
  std::unique_ptr<PartOfText> validation;
  if (validates) {
    ASSIGN_OR_RETURN(validation, PartOfText::Create(kValidationFile, tokenizer, options));
  }
  TextProgress progress(FileBytes(texts));
  TextDivider divider(tokenizer, share, &train->encoder,
                      validates ? &validation->encoder : nullptr);
  RETURN_IF_ERROR(EncodeTexts(texts, counted, key, tokenizer, &progress, &options, &divider));
  std::vector<PartOfText*> parts = {train.get()};
  if (validates) parts.push_back(validation.get());
  for (const PartOfText* part : parts) {
    if (validates && part->encoder.counts().documents == 0) {
      return InputError(absl::StrCat("--val_fraction=", FLAGS_val_fraction),
                        "leaves one of the two parts empty: the text is too short to cut",
                        "use more text or another fraction");
    }
    RETURN_IF_ERROR(CheckEncoded(part->encoder.counts(), part->path));
  }
  ASSIGN_OR_RETURN(const TokenizerFiles tokenizer_files,
                   ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops, tokenizer.config));
  std::vector<TokenizedFile> files;
  for (PartOfText* part : parts) {
    RETURN_IF_ERROR(part->file.Finish());
    const EncodedCounts& counts = part->encoder.counts();
    files.push_back({part->path, counts.documents, counts.text_bytes, part->file.tokens(),
                     part->file.token_bytes()});
  }
  // One of an earlier text may be there.
  if (!validates) RETURN_IF_ERROR(RemoveTokenFile(OutputPath(kValidationFile)));
  RETURN_IF_ERROR(WriteTokenizerFiles(tokenizer_files, TokenizerFolder(OutputPath(kTrainFile))));
  return PrintFiles(files, spec, tokenizer, progress);
}

}  // namespace

Verb DataVerb() {
  return {verbs::kData, "tokenise text into train.bin and val.bin",
          "oneflow data --text=book.txt --tokenizer=bytes --out=run/data --val_fraction=0.1\n"
          "oneflow data --text=a.txt,b.txt --tokenizer=gpt2:models/gpt2 --end_of_text "
          "--token_format=megatron --out=run/data\n"
          "oneflow data --text='corpus/**/*.jsonl.gz' --key=content --tokenizer=models/qwen "
          "--end_of_text --out=run/data\n"
          "oneflow data --chat --data=chats.jsonl --tokenizer=models/qwen --out=run/data\n",
          Data};
}

}  // namespace oneflow
