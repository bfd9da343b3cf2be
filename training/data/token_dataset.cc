#include "training/data/token_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

bool CannotExceed(const TokenFile& file, int64_t vocab) {
  return file.token_bytes < 4 && vocab >= int64_t{1} << (8 * file.token_bytes);
}

// `part`: tokens of the file from position `at` on.
absl::Status CheckTokens(const TokenFile& file, int64_t at, std::span<const int32_t> part,
                         int64_t vocab) {
  if (CannotExceed(file, vocab)) return absl::OkStatus();
  const auto bad = std::find_if(part.begin(), part.end(),
                                [vocab](int32_t token) { return token < 0 || token >= vocab; });
  if (bad == part.end()) return absl::OkStatus();
  const int64_t id = file.is_uint32 ? int64_t{static_cast<uint32_t>(*bad)} : *bad;
  return InputError(file.file.path(),
                    absl::StrCat("token ", id, " at position ", at + (bad - part.begin()),
                                 " is not in the model's vocabulary of ", vocab),
                    *bad < 0 ? "make the file again"
                             : absl::StrCat("use a model whose vocabulary is at least ", id + 1,
                                            " or other data"));
}

absl::Status CheckTokens(const TokenFile& file, int64_t vocab) {
  if (CannotExceed(file, vocab)) return absl::OkStatus();
  std::vector<int32_t> part(1 << 14);
  for (int64_t at = 0; at < file.tokens; at += std::ssize(part)) {
    part.resize(std::min<int64_t>(std::ssize(part), file.tokens - at));
    RETURN_IF_ERROR(file.Read(at, part));
    RETURN_IF_ERROR(CheckTokens(file, at, part, vocab));
  }
  return absl::OkStatus();
}

// Ids of two tokenizers mean different things.
absl::Status CheckTokenizers(const std::string& first, const TokenizerId& a,
                             const std::string& second, const TokenizerId& b) {
  if (!a.known() || !b.known() || a.SameAs(b)) return absl::OkStatus();
  return InputError(
      second,
      absl::StrCat("was made with tokenizer ", b.Text(), ", but ", first, " with ", a.Text()),
      "make all files with one tokenizer");
}

absl::Status CheckLength(std::string_view where, std::string_view part, int64_t tokens,
                         int64_t sequence) {
  if (tokens >= sequence + 1) return absl::OkStatus();
  return InputError(where,
                    absl::StrCat("too short: ", ToAbsl(part), " needs ", sequence + 1,
                                 " tokens for sequences of ", sequence, ", has ", tokens),
                    "use more data or shorter sequences");
}

}  // namespace

absl::Status TokenDataset::Read(int64_t position, std::span<int32_t> tokens) const {
  int64_t at = begin_ + position;
  CHECK(position >= 0 && at + static_cast<int64_t>(tokens.size()) <= end_)
      << position << " + " << tokens.size() << " of " << size();
  auto file = std::upper_bound(files_->begin(), files_->end(), at,
                               [](int64_t p, const File& f) { return p < f.begin; });
  --file;
  while (!tokens.empty()) {
    const int64_t first = at - file->begin;
    const auto n = std::min<int64_t>(tokens.size(), file->tokens.tokens - first);
    RETURN_IF_ERROR(file->tokens.Read(first, tokens.first(n)));
    // The file may have been written to since it was opened.
    RETURN_IF_ERROR(CheckTokens(file->tokens, first, tokens.first(n), vocab_));
    tokens = tokens.subspan(n);
    at += n;
    ++file;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TokenDataset::Contains(int32_t token, int64_t* looked_at) const {
  constexpr int64_t kParts = 256;
  std::vector<int32_t> part(1 << 16);
  const int64_t parts = std::min((size() + std::ssize(part) - 1) / std::ssize(part), kParts);
  *looked_at = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t last = size() - std::ssize(part);
    const int64_t at = parts < kParts ? i * std::ssize(part) : last * i / (kParts - 1);
    const std::span<int32_t> read(part.data(), std::min(std::ssize(part), size() - at));
    RETURN_IF_ERROR(Read(at, read));
    *looked_at += std::ssize(read);
    if (std::find(read.begin(), read.end(), token) != read.end()) return true;
  }
  return false;
}

TokenDataset TokenDataset::Part(int64_t begin, int64_t end) const {
  CHECK(0 <= begin && begin <= end && end <= size());
  return TokenDataset(files_, vocab_, begin_ + begin, begin_ + end);
}

TokenizerId TokenDataset::tokenizer() const {
  const auto it = std::find_if(files_->begin(), files_->end(),
                               [](const File& file) { return file.tokens.tokenizer.known(); });
  return it == files_->end() ? TokenizerId() : it->tokens.tokenizer;
}

std::vector<std::string> TokenDataset::EmptyFiles() const {
  std::vector<std::string> empty;
  for (const File& file : *files_) {
    if (file.tokens.tokens == 0) empty.push_back(file.tokens.file.path());
  }
  return empty;
}

std::vector<TokenDataset::FilePart> TokenDataset::FileParts() const {
  std::vector<FilePart> parts;
  for (const File& file : *files_) {
    const int64_t begin = std::max(begin_, file.begin);
    const int64_t end = std::min(end_, file.begin + file.tokens.tokens);
    if (begin >= end) continue;
    parts.push_back({begin - begin_, end - begin_, begin - file.begin, file.tokens.chats.get(),
                     &file.tokens.file.path()});
  }
  return parts;
}

bool TokenDataset::HasChats() const {
  const std::vector<FilePart> parts = FileParts();
  return std::any_of(parts.begin(), parts.end(),
                     [](const FilePart& part) { return part.chats != nullptr; });
}

const std::string& TokenDataset::path() const { return files_->front().tokens.file.path(); }

absl::StatusOr<TokenDataset> TokenDataset::Open(const std::vector<std::string>& paths,
                                                int64_t vocab, int64_t sequence) {
  if (paths.empty()) return InputError("data", "no file given", "name at least one token file");
  std::vector<TokenFile> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(TokenFile file, OpenTokenFile(path));
    files.push_back(std::move(file));
  }
  return Make(std::move(files), vocab, sequence);
}

absl::StatusOr<TokenDataset> TokenDataset::Make(std::vector<TokenFile> opened, int64_t vocab,
                                                int64_t sequence) {
  CHECK(!opened.empty());
  auto files = std::make_shared<Files>();
  vocab = std::min<int64_t>(vocab, kMostTokenIds);
  const bool has_chats = std::any_of(opened.begin(), opened.end(), [](const TokenFile& file) {
    return file.chats != nullptr && file.tokens > 0;
  });
  int64_t total = 0;
  for (TokenFile& file : opened) {
    RETURN_IF_ERROR(CheckTokens(file, vocab));
    for (const File& other : *files) {
      RETURN_IF_ERROR(CheckTokenizers(other.tokens.file.path(), other.tokens.tokenizer,
                                      file.file.path(), file.tokenizer));
    }
    const int64_t tokens = file.tokens;
    files->push_back({std::move(file), total});
    total += tokens;
  }
  if (!has_chats)
    RETURN_IF_ERROR(CheckLength((*files)[0].tokens.file.path(), "it", total, sequence));
  return TokenDataset(std::move(files), vocab, 0, total);
}

absl::Status CheckOneTokenizer(const TokenDataset& first, const TokenDataset& second) {
  return CheckTokenizers(first.path(), first.tokenizer(), second.path(), second.tokenizer());
}

absl::StatusOr<TokenSplit> SplitTokens(const TokenDataset& data, double validation,
                                       int64_t sequence) {
  if (!(validation >= 0 && validation < 1)) {
    return InputError("validation fraction", absl::StrCat(validation, " is not in [0, 1)"),
                      "use a number such as 0.1");
  }
  const auto boundary = static_cast<int64_t>(data.size() * (1 - validation));
  const TokenSplit split = {data.Part(0, boundary), data.Part(boundary, data.size())};
  RETURN_IF_ERROR(CheckLength(data.path(), "the training part", split.train.size(), sequence));
  if (validation > 0) {
    RETURN_IF_ERROR(
        CheckLength(data.path(), "the validation part", split.validation.size(), sequence));
  }
  return split;
}

}  // namespace oneflow
