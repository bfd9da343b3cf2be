#include "actor_runtime/data/token_dataset.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

int32_t TokenAt(const std::byte* base, int token_bytes, int64_t i) {
  if (token_bytes == 1) return std::to_integer<int32_t>(base[i]);
  return std::to_integer<int32_t>(base[2 * i]) | std::to_integer<int32_t>(base[2 * i + 1]) << 8;
}

// Position of the first token >= vocab.
std::optional<int64_t> FindBadToken(const std::byte* base, int token_bytes, int64_t tokens,
                                    int64_t vocab) {
  if (vocab >= int64_t{1} << (8 * token_bytes)) return std::nullopt;
  for (int64_t i = 0; i < tokens; ++i) {
    if (TokenAt(base, token_bytes, i) >= vocab) return i;
  }
  return std::nullopt;
}

absl::Status CheckTokens(const MappedFile& file, int token_bytes, int64_t tokens, int64_t vocab) {
  const auto bad = FindBadToken(file.bytes().data(), token_bytes, tokens, vocab);
  if (!bad) return absl::OkStatus();
  const int32_t token = TokenAt(file.bytes().data(), token_bytes, *bad);
  return InputError(
      file.path(),
      absl::StrCat("token ", token, " at position ", *bad, " is not in the model's vocabulary of ",
                   vocab),
      absl::StrCat("use a model whose vocabulary is at least ", token + 1, " or other data"));
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

void TokenDataset::Read(int64_t position, std::span<int32_t> tokens) const {
  int64_t at = begin_ + position;
  CHECK(position >= 0 && at + static_cast<int64_t>(tokens.size()) <= end_)
      << position << " + " << tokens.size() << " of " << size();
  auto file = std::upper_bound(files_->begin(), files_->end(), at,
                               [](int64_t p, const File& f) { return p < f.begin; });
  --file;
  while (!tokens.empty()) {
    const std::byte* base = file->file.bytes().data();
    const int64_t first = at - file->begin;
    const int64_t n = std::min<int64_t>(tokens.size(), file->size - first);
    for (int64_t i = 0; i < n; ++i) tokens[i] = TokenAt(base, file->token_bytes, first + i);
    tokens = tokens.subspan(n);
    at += n;
    ++file;
  }
}

TokenDataset TokenDataset::Part(int64_t begin, int64_t end) const {
  CHECK(0 <= begin && begin <= end && end <= size());
  return TokenDataset(files_, begin_ + begin, begin_ + end);
}

const std::string& TokenDataset::path() const { return files_->front().file.path(); }

absl::StatusOr<TokenDataset> TokenDataset::Open(const std::vector<std::string>& paths,
                                                int64_t vocab, int64_t sequence) {
  if (paths.empty()) return InputError("data", "no file given", "name at least one token file");
  auto files = std::make_shared<Files>();
  int64_t total = 0;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    const int token_bytes = absl::EndsWith(path, ".bin") ? 2 : 1;
    const auto bytes = static_cast<int64_t>(file.bytes().size());
    if (bytes % token_bytes != 0) {
      return InputError(path, absl::StrCat("odd size of ", bytes, " bytes: not uint16 tokens"),
                        "a .bin file holds raw little-endian uint16; rename a text file");
    }
    const int64_t tokens = bytes / token_bytes;
    RETURN_IF_ERROR(CheckTokens(file, token_bytes, tokens, vocab));
    files->push_back({std::move(file), total, tokens, token_bytes});
    total += tokens;
  }
  RETURN_IF_ERROR(CheckLength(paths[0], "it", total, sequence));
  return TokenDataset(std::move(files), 0, total);
}

absl::StatusOr<TokenSplit> SplitTokens(const TokenDataset& data, double validation,
                                       int64_t sequence) {
  if (!(validation >= 0 && validation < 1)) {
    return InputError("validation fraction", absl::StrCat(validation, " is not in [0, 1)"),
                      "use a number such as 0.1");
  }
  const auto cut = static_cast<int64_t>(data.size() * (1 - validation));
  const TokenSplit split = {data.Part(0, cut), data.Part(cut, data.size())};
  RETURN_IF_ERROR(CheckLength(data.path(), "the training part", split.train.size(), sequence));
  if (validation > 0) {
    RETURN_IF_ERROR(
        CheckLength(data.path(), "the validation part", split.validation.size(), sequence));
  }
  return split;
}

}  // namespace oneflow
