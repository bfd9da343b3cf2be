#include "training/files/durable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

absl::Status Failed(std::string_view path, std::string_view what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return WriteError(path, what, error, full ? "make room" : "check the folder and its permissions");
}

std::string ParentFolder(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

absl::StatusOr<DurableFile> DurableFile::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return Failed(path, "cannot be created", errno);
  return DurableFile(path, fd);
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

DurableFile::~DurableFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status DurableFile::ReadAt(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = pread(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed(path_, "cannot be read", errno);
    if (n == 0) {
      std::ranges::fill(bytes, std::byte{0});
      break;
    }
    bytes = bytes.subspan(n);
    offset += n;
  }
  return absl::OkStatus();
}

absl::Status DurableFile::WriteAt(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed(path_, "cannot be written", errno);
    bytes = bytes.subspan(n);
    offset += n;
  }
  return absl::OkStatus();
}

absl::Status DurableFile::Sync() {
  return fsync(fd_) == 0 ? absl::OkStatus() : Failed(path_, "cannot be synced", errno);
}

absl::Status WriteDurably(const std::string& path, std::string_view text) {
  ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(path));
  RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(text))));
  return file.Sync();
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed(path, "cannot be opened", errno);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : Failed(path, "cannot be synced", error);
}

absl::Status CreateFolders(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return absl::OkStatus();
  const std::string parent = ParentFolder(path);
  RETURN_IF_ERROR(CreateFolders(parent));
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    return Failed(path, "cannot be created", errno);
  }
  return SyncFolder(parent);
}

absl::Status ReplaceFolder(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!std::filesystem::exists(to, error)) {
    if (rename(from.c_str(), to.c_str()) != 0) return Failed(to, "cannot be created", errno);
    return SyncFolder(ParentFolder(to));
  }
  // Exchanged in one system call, so that a folder of this name always exists.
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    return Failed(to, "cannot be replaced", errno);
  }
  // Synced before the old folder is removed: after a crash its name must not lead to a missing
  // folder.
  RETURN_IF_ERROR(SyncFolder(ParentFolder(to)));
  std::filesystem::remove_all(from, error);
  return absl::OkStatus();
}

}  // namespace oneflow
