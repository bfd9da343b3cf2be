// A file mapped into memory, read only: pages come in as they are touched. Not a copy: the file
// must not be cut short while it is mapped (the kernel would answer with SIGBUS).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// OK if `path` leads to a regular file. It waits for nobody: a pipe without a writer is refused at
// once. Errors as of MappedFile::Open.
absl::Status CheckRegularFile(const std::string& path);

class MappedFile {
 public:
  // NOT_FOUND where there is no such file, INVALID_ARGUMENT where it cannot be read or is a pipe, a
  // socket or a device. An empty file maps to no bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  // Gives the memory behind a part of bytes() back to the system; who looks at it again reads it
  // again. For what is large and read once: a process is as large as what it has looked at.
  void Release(std::span<const std::byte> part) const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;  // unmapped by the destructor unless empty
};

}  // namespace oneflow
