#include "training/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

absl::Status CannotRead(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(path + ": no such file; check the path");
  }
  return InputError(path, std::string("cannot be read: ") + std::strerror(error),
                    "give a file that this user may read");
}

absl::Status CheckKind(const std::string& path, mode_t mode) {
  if (S_ISREG(mode)) return absl::OkStatus();
  if (S_ISDIR(mode)) return CannotRead(path, EISDIR);
  const char* kind = S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
  return InputError(path,
                    std::string("is ") + kind + ", no regular file: data is read in any order",
                    "write it to a file first, and give that");
}

}  // namespace

absl::Status CheckRegularFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return CannotRead(path, errno);
  return CheckKind(path, info.st_mode);
}

absl::StatusOr<int> OpenRegularFile(const std::string& path, int64_t* bytes) {
  RETURN_IF_ERROR(CheckRegularFile(path));
  // Opened without blocking, because the path may lead to a pipe by now.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotRead(path, errno);
  struct stat info;
  absl::Status kind =
      fstat(fd, &info) == 0 ? CheckKind(path, info.st_mode) : CannotRead(path, errno);
  if (!kind.ok()) {
    close(fd);
    return kind;
  }
  *bytes = info.st_size;
  return fd;
}

absl::StatusOr<DataFile> DataFile::Open(const std::string& path) {
  int64_t bytes = 0;
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, &bytes));
  return DataFile(path, fd, bytes);
}

absl::StatusOr<DataFile> DataFile::Adopt(const std::string& path, int fd) {
  DataFile file(path, fd, 0);
  struct stat info;
  if (fstat(fd, &info) != 0) return CannotRead(path, errno);
  RETURN_IF_ERROR(CheckKind(path, info.st_mode));
  file.size_ = info.st_size;
  return file;
}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

DataFile& DataFile::operator=(DataFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

DataFile::~DataFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status DataFile::Read(int64_t offset, std::span<std::byte> to) const {
  CHECK(offset >= 0 && offset + std::ssize(to) <= size_) << path_;
  while (!to.empty()) {
    const ssize_t n = pread(fd_, to.data(), to.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return absl::UnavailableError(absl::StrCat(path_, ": cannot be read at byte ", offset, ": ",
                                                 std::strerror(errno), "; check its disk"));
    }
    if (n == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends at byte ", offset, ", and had ", size_,
                       " when it was opened: it was truncated; make it again, and leave it alone "
                       "while it is in use"));
    }
    to = to.subspan(n);
    offset += n;
  }
  return absl::OkStatus();
}

}  // namespace oneflow
