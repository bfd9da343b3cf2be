// MappedFile: a file mapped into memory, read only: pages are loaded when they are used. It is no
// copy: the file must not be truncated while it is mapped (the kernel would send SIGBUS).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

class MappedFile {
 public:
  // Errors are those of DataFile::Open (data_file.h). An empty file maps to no bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  // Returns the memory of a part of bytes() to the system; a later access loads it from the file.
  // It is for large data that is read once, because used pages count as memory of the process.
  void Release(std::span<const std::byte> part) const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;  // unmapped by the destructor unless empty
};

}  // namespace oneflow
