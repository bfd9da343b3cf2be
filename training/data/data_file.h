// DataFile: a file that stays open and is read at any position, by any thread. It may be larger
// than memory: nothing of it is kept. It is read, not mapped, so that a file that is truncated, or
// a disk that fails, is an error and no signal.
//
//   ASSIGN_OR_RETURN(DataFile file, DataFile::Open("train.bin"));
//   RETURN_IF_ERROR(file.Read(1024, bytes));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// OK if `path` leads to a regular file. It does not block: a pipe without a writer is refused at
// once. Errors are those of OpenRegularFile.
absl::Status CheckRegularFile(const std::string& path);

// NOT_FOUND if there is no such file, INVALID_ARGUMENT if it cannot be read or is a pipe, a socket
// or a device. The caller closes the descriptor. `bytes`: the size of the file.
absl::StatusOr<int> OpenRegularFile(const std::string& path, int64_t* bytes);

class DataFile {
 public:
  // Errors are those of OpenRegularFile.
  static absl::StatusOr<DataFile> Open(const std::string& path);
  // The file that `fd` has open, and which this closes. It may have no name: `path` is what
  // messages call it. An input error if it is no regular file.
  static absl::StatusOr<DataFile> Adopt(const std::string& path, int fd);
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&& other) noexcept;
  ~DataFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // when it was opened

  // Bytes [offset, offset + to.size()), which must be within size(). DATA_LOSS if the file has
  // become too short, UNAVAILABLE if the system cannot read it; both name the file and the
  // position. Allocates nothing unless it fails.
  absl::Status Read(int64_t offset, std::span<std::byte> to) const;

 private:
  DataFile(std::string path, int fd, int64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}

  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace oneflow
