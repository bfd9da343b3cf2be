#include "tools/oneflow/model/chat_data.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/model/data_folder.h"
#include "tools/oneflow/model/text_progress.h"
#include "training/chat/encode_chats.h"
#include "training/data/chat_file.h"
#include "training/data/find_files.h"
#include "training/data/record_set.h"
#include "training/data/text_reader.h"
#include "training/data/token_file_meta.h"
#include "training/data/token_file_writer.h"
#include "training/tokenizer/tokenizer_files.h"

namespace oneflow {
namespace {

// The chats of files, one after the other: [first, last) of them.
class ChatsOfFiles {
 public:
  ChatsOfFiles(const std::vector<std::string>& files, int64_t first, int64_t last,
               TextProgress* progress)
      : files_(files), first_(first), last_(last), progress_(progress) {}

  absl::StatusOr<std::optional<ChatLine>> Next() {
    while (at_ < last_) {
      if (!lines_) {
        if (file_ == files_.size()) break;
        ASSIGN_OR_RETURN(ChatLines opened, ChatLines::Open(files_[file_++]));
        lines_.emplace(std::move(opened));
      }
      ASSIGN_OR_RETURN(std::optional<ChatLine> line, lines_->Next());
      if (progress_ != nullptr && line) {
        progress_->Add(std::ssize(line->json), before_ + lines_->position());
      }
      if (!line) {
        before_ += lines_->size();
        lines_.reset();
        continue;
      }
      if (at_++ >= first_) return line;
    }
    return std::nullopt;
  }

 private:
  const std::vector<std::string>& files_;
  const int64_t first_, last_;
  TextProgress* const progress_;
  std::optional<ChatLines> lines_;
  size_t file_ = 0;
  int64_t at_ = 0, before_ = 0;  // chats, and bytes of the files before this one
};

absl::StatusOr<int64_t> CountChats(const std::vector<std::string>& files) {
  ChatsOfFiles chats(files, 0, INT64_MAX, nullptr);
  for (int64_t count = 0;; ++count) {
    ASSIGN_OR_RETURN(const std::optional<ChatLine> line, chats.Next());
    if (!line) return count;
  }
}

struct WrittenChats {
  std::string path;
  ChatCounts counts;
  TokenFileWriter file;
  ChatTable table;
};

absl::Status PrintChats(const std::vector<WrittenChats>& parts, const Tokenizer& tokenizer,
                        const std::string& spec, const std::string& loss_on,
                        const TextProgress& progress) {
  std::string text;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const WrittenChats& part : parts) {
    const ChatCounts& counts = part.counts;
    absl::StrAppend(&text, part.path, ": ", CountsText(counts));
    list.push_back({{"path", part.path},
                    {"chats", counts.chats},
                    {"samples", counts.samples},
                    {"tokens", counts.tokens},
                    {"token_bytes", part.file.token_bytes()},
                    {"text_bytes", counts.text_bytes},
                    {"labels", counts.labels},
                    {"share", counts.share()},
                    {"ways", nlohmann::ordered_json(counts.ways)}});
  }
  absl::StrAppendFormat(&text, "tokenizer %s, vocabulary of %d; %.1f MB/s\n", tokenizer.id.Text(),
                        tokenizer.vocab, progress.bytes_per_second() / 1e6);
  return Print(text, {{"tokenizer", spec},
                      {"tokenizer_hash", tokenizer.id.hash},
                      {"vocab", tokenizer.vocab},
                      {"loss_on", loss_on},
                      {"files", std::move(list)},
                      {"seconds", progress.seconds()},
                      {"bytes_per_second", progress.bytes_per_second()}});
}

}  // namespace

absl::Status WriteChatData(const Arguments& args, const proto::Run& run) {
  if (!run.has_data()) return InputError("--data", "is missing", "write --data=chats.jsonl");
  if (!run.has_tokenizer()) {
    return InputError("--tokenizer", "is missing: its folder has the template of chats",
                      "write --tokenizer=models/qwen");
  }
  for (const char* flag : {"text", "key", "special", "end_of_text"}) {
    if (args.Given(flag)) {
      return InputError(absl::StrCat("--", flag), "acts on nothing with --chat", "leave it out");
    }
  }
  if (!(FLAGS_val_fraction >= 0 && FLAGS_val_fraction < 1)) {
    return InputError(absl::StrCat("--val_fraction=", FLAGS_val_fraction),
                      "must be at least 0 and below 1", "use a number such as 0.1");
  }
  const std::string spec = run.tokenizer();
  const std::string loss_on = run.has_loss_on() ? run.loss_on() : "assistant";
  ASSIGN_OR_RETURN(const LossOn counted, ParseLossOn(loss_on));
  ASSIGN_OR_RETURN(const ChatTemplate chat_template, ReadChatTemplate(spec, run.chat_template()));
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(spec, {.special = true}));
  ASSIGN_OR_RETURN(TokenFormat format, ParseTokenFormat(FLAGS_token_format));
  // nanoGPT's ids have two bytes.
  if (!args.Given("token_format") && tokenizer.vocab > 1 << 16) format = TokenFormat::kLlmc;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesOfFlag("data", run.data()));
  std::vector<std::string> files;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const FoundFiles found, FindFiles(name));
    files.insert(files.end(), found.paths.begin(), found.paths.end());
  }
  int64_t bytes = 0;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const TextFacts facts, LookAtText(file));
    bytes += facts.file_bytes;
  }
  // Files are read once more to be counted, where a part of them is for validation.
  int64_t chats = INT64_MAX, validated = 0;
  if (FLAGS_val_fraction > 0) {
    ASSIGN_OR_RETURN(chats, CountChats(files));
    validated = CountValidationChats(chats, FLAGS_val_fraction);
  }
  RETURN_IF_ERROR(MakeDataFolder(args));
  TextProgress progress(bytes);
  // All is encoded before the first file gets its name: what fails leaves the folder as it was.
  std::vector<WrittenChats> parts;
  for (const auto& [name, first, last] : {std::tuple(kTrainFile, int64_t{0}, chats - validated),
                                          {kValidationFile, chats - validated, chats}}) {
    if (name == kValidationFile && FLAGS_val_fraction == 0) continue;
    const std::string path = OutputPath(name);
    ASSIGN_OR_RETURN(TokenFileWriter file,
                     TokenFileWriter::Create(path, format, tokenizer.vocab, tokenizer.id));
    ChatTable table;
    ChatsOfFiles source(files, first, last, &progress);
    const auto append = [&](std::span<const int32_t> ids, std::span<const uint8_t> marks) {
      table.Append(marks);
      table.EndChat();
      const absl::Status status = file.Append(ids);
      file.EndDocument();
      return status;
    };
    ASSIGN_OR_RETURN(
        const ChatCounts counts,
        EncodeChats([&] { return source.Next(); }, chat_template, tokenizer, counted, append));
    if (counts.samples == 0) {
      return InputError("--data=" + run.data(), "leaves nothing that counts for " + path,
                        FLAGS_val_fraction > 0 ? "use more chats, or another --val_fraction"
                                               : "use other chats, or --loss_on=all");
    }
    parts.push_back({path, counts, std::move(file), std::move(table)});
  }
  ASSIGN_OR_RETURN(const TokenizerFiles tokenizer_files,
                   ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops, tokenizer.config));
  for (WrittenChats& part : parts) {
    RETURN_IF_ERROR(part.file.Finish(&part.table));
  }
  if (parts.size() == 1) RETURN_IF_ERROR(RemoveTokenFile(OutputPath(kValidationFile)));
  RETURN_IF_ERROR(WriteTokenizerFiles(tokenizer_files, TokenizerFolder(OutputPath(kTrainFile))));
  return PrintChats(parts, tokenizer, spec, loss_on, progress);
}

}  // namespace oneflow
