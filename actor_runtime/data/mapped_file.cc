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

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return CannotRead(path, errno);
  struct stat info;
  if (fstat(file.fd, &info) != 0) return CannotRead(path, errno);
  if (S_ISDIR(info.st_mode)) return CannotRead(path, EISDIR);
  if (!S_ISREG(info.st_mode)) return InputError(path, "is no regular file", "give a file");
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
  // Advice: where it is not taken, nothing is wrong.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace oneflow
