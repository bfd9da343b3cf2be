#include "tools/oneflow/model/unnamed_tokens.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

std::string TemporaryFolder() {
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

absl::Status CannotWrite(const std::string& path, int error) {
  return WriteError(TemporaryFolder(), "cannot hold the tokens of " + path, error,
                    "name another folder in TMPDIR, or make the tokens once, with `oneflow data`");
}

}  // namespace

absl::StatusOr<UnnamedTokens> UnnamedTokens::Create(const std::string& path,
                                                    const Tokenizer& tokenizer) {
  std::string name = TemporaryFolder() + "/oneflow-XXXXXX";
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return CannotWrite(path, errno);
  unlink(name.c_str());
  return UnnamedTokens(path, descriptor, tokenizer.vocab <= 1 << 16, tokenizer.id);
}

UnnamedTokens::UnnamedTokens(UnnamedTokens&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      narrow_(other.narrow_),
      tokenizer_(std::move(other.tokenizer_)),
      tokens_(other.tokens_) {}

UnnamedTokens::~UnnamedTokens() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status UnnamedTokens::Append(std::span<const int32_t> ids) {
  tokens_ += std::ssize(ids);
  if (!narrow_) return AppendBytes(std::as_bytes(ids));
  ids_of_two_.assign(ids.begin(), ids.end());
  return AppendBytes(std::as_bytes(std::span<const uint16_t>(ids_of_two_)));
}

absl::Status UnnamedTokens::AppendBytes(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return CannotWrite(path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenFile> UnnamedTokens::Finish() {
  ASSIGN_OR_RETURN(DataFile file, DataFile::Adopt(path_, std::exchange(descriptor_, -1)));
  return TokenFile{std::move(file), 0, tokens_, narrow_ ? 2 : 4, tokenizer_};
}

}  // namespace oneflow
