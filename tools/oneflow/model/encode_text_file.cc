#include "tools/oneflow/model/encode_text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/model/text_progress.h"
#include "tools/oneflow/model/tokenize_text.h"
#include "tools/oneflow/model/warn_of_text.h"
#include "training/data/doubt_text.h"
#include "training/data/text_reader.h"

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

// A temporary file that has no name any more. `path` is the text's, for errors.
class UnnamedFile {
 public:
  static absl::StatusOr<UnnamedFile> Create(const std::string& path) {
    std::string name = TemporaryFolder() + "/oneflow-XXXXXX";
    UnnamedFile file(path, mkostemp(name.data(), O_CLOEXEC));
    if (file.descriptor_ < 0) return CannotWrite(path, errno);
    unlink(name.c_str());
    return file;
  }
  UnnamedFile(UnnamedFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  UnnamedFile& operator=(UnnamedFile&&) = delete;
  ~UnnamedFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  absl::Status Append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return CannotWrite(path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  // For reading. Called once, after the last Append.
  absl::StatusOr<DataFile> Finish() {
    return DataFile::Adopt(path_, std::exchange(descriptor_, -1));
  }

 private:
  UnnamedFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

}  // namespace

absl::StatusOr<TokenFile> EncodeTextFile(const std::string& path, const Tokenizer& tokenizer,
                                         bool ends, const std::string& key) {
  ASSIGN_OR_RETURN(const TextReader reader, OpenText(path, key));
  WarnOfText(path, reader.facts.doubt);
  ASSIGN_OR_RETURN(UnnamedFile file, UnnamedFile::Create(path));
  const bool narrow = tokenizer.vocab <= 1 << 16;
  int64_t tokens = 0;
  std::vector<uint16_t> ids_of_two;
  const auto append = [&](std::span<const int32_t> ids) {
    tokens += std::ssize(ids);
    if (!narrow) return file.Append(std::as_bytes(ids));
    ids_of_two.assign(ids.begin(), ids.end());
    return file.Append(std::as_bytes(std::span<const uint16_t>(ids_of_two)));
  };
  TextProgress progress(reader.facts.file_bytes);
  int64_t done = 0;
  TokenizeOptions options;
  options.end_of_text = ends && tokenizer.end_of_text.has_value();
  options.on_progress = [&](int64_t bytes) {
    done += bytes;
    progress.Add(bytes, reader.facts.is_file() ? done : reader.position());
  };
  DocumentEncoder encoder(tokenizer, options, append);
  TextDivider documents(tokenizer, {}, &encoder, nullptr);
  Utf8Check utf8;
  const bool checks = !reader.facts.records() && tokenizer.id != BytesTokenizerId();
  for (TextBlock block;;) {
    ASSIGN_OR_RETURN(const bool more, reader.next(&block));
    if (!more) break;
    if (checks) utf8.Add(block.text);
    RETURN_IF_ERROR(documents.Add(reader, block));
  }
  WarnOfText(path, utf8.Doubt(path));
  if (encoder.counts().text_tokens == 0) tokens = 0;
  std::fprintf(stderr, "oneflow: %s: %lld tokens by tokenizer %s\n", path.c_str(),
               static_cast<long long>(tokens), tokenizer.id.Text().c_str());
  ASSIGN_OR_RETURN(DataFile written, file.Finish());
  return TokenFile{std::move(written), 0, tokens, narrow ? 2 : 4, tokenizer.id};
}

}  // namespace oneflow
