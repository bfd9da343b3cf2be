#include "training/checkpoint/run_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

absl::Status CannotRead(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(path + ": no such file; check the path");
  }
  const std::string what = std::string("cannot be read: ") + std::strerror(error);
  if (error != EIO && error != ESTALE) {
    return InputError(path, what, "give a file that this user may read");
  }
  return absl::DataLossError(absl::StrCat(path, ": ", what, kUseAnother));
}

absl::Status TooShort(const std::string& path, int64_t has, int64_t had) {
  return absl::DataLossError(absl::StrCat(path, has < had ? ": is truncated" : ": is too long",
                                          ": it has ", has, " bytes, and had ", had,
                                          " when it was written", kUseAnother));
}

}  // namespace

std::span<std::byte> ReadBuffer::Take(size_t bytes) {
  if (bytes > size_) {
    bytes_.reset();  // not both at once
    bytes_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    size_ = bytes;
  }
  return {bytes_.get(), bytes};
}

absl::StatusOr<RunFile> RunFile::Open(const std::string& path) {
  // Without O_NONBLOCK a pipe would be waited for.
  RunFile file(path, open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), 0);
  struct stat info;
  if (file.fd_ < 0 || fstat(file.fd_, &info) != 0) return CannotRead(path, errno);
  if (S_ISDIR(info.st_mode)) return CannotRead(path, EISDIR);
  if (!S_ISREG(info.st_mode)) return InputError(path, "is no regular file", "give a file");
  file.size_ = info.st_size;
  return file;
}

absl::StatusOr<RunFile> RunFile::Open(const std::string& path, int64_t size) {
  ASSIGN_OR_RETURN(RunFile file, Open(path));
  if (file.size_ != size) return TooShort(path, file.size_, size);
  return file;
}

RunFile::RunFile(RunFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

RunFile::~RunFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status RunFile::ReadAt(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = pread(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead(path_, errno);
    if (n == 0) return TooShort(path_, offset, size_);  // since it was opened
    bytes = bytes.subspan(n);
    offset += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RunFile::ReadAll() const {
  std::string text(size_, '\0');
  RETURN_IF_ERROR(ReadAt(0, std::as_writable_bytes(std::span(text))));
  return text;
}

absl::StatusOr<std::span<const std::byte>> RunFile::Read(const StoredRun& run, int64_t b,
                                                         int64_t block, std::string_view what,
                                                         ReadBuffer* buffer) const {
  const int64_t begin = b * block, size = std::min(block, run.bytes - begin);
  const int64_t at = run.offset + begin, behind = at + size;
  const bool last = begin + size == run.bytes;
  const int64_t end = last ? std::min(NextRun(behind), size_) : behind;
  const std::span<std::byte> bytes = buffer->Take(end - at);
  RETURN_IF_ERROR(ReadAt(at, bytes));
  const auto zeros = bytes.subspan(size);
  if (Checksum(bytes.first(size)) == run.checksums[b] &&
      std::all_of(zeros.begin(), zeros.end(),
                  [](std::byte byte) { return byte == std::byte{0}; })) {
    return bytes.first(size);
  }
  return absl::DataLossError(absl::StrCat(path_, ": is damaged: bytes ", at, " to ", behind,
                                          ", block ", b, " of ", ToAbsl(what),
                                          ", do not match their checksum", kUseAnother));
}

}  // namespace oneflow
