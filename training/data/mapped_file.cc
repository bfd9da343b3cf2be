#include "training/data/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "oneflow_core/base/status.h"
#include "training/data/data_file.h"

namespace oneflow {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  int64_t size = 0;
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, &size));
  void* base = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  close(fd);
  if (base == MAP_FAILED) {
    return InputError(path, std::string("cannot be mapped: ") + std::strerror(error),
                      "give a file of a disk that can map files");
  }
  return MappedFile(path, {static_cast<const std::byte*>(base), size_t(size)});
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
