#include "actor_runtime/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

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

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

absl::Status CheckRegularFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return CannotRead(path, errno);
  return CheckKind(path, info.st_mode);
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  RETURN_IF_ERROR(CheckRegularFile(path));
  // Opened without blocking, because the path may lead to a pipe by now.
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return CannotRead(path, errno);
  struct stat info;
  if (fstat(file.fd, &info) != 0) return CannotRead(path, errno);
  RETURN_IF_ERROR(CheckKind(path, info.st_mode));
  if (info.st_size == 0) return MappedFile(path, {});
  void* base = mmap(nullptr, info.st_size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (base == MAP_FAILED) return CannotRead(path, errno);
  return MappedFile(path, {static_cast<const std::byte*>(base), size_t(info.st_size)});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::Release(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  // This is advice: if the system ignores it, no harm is done.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace oneflow
