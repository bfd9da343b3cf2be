// FolderLock: a folder of checkpoints belongs to one run at a time.
//
//   ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take("run/ckpt"));
//
// It is a lock of the kernel's on DIR/lock (flock), which ends with the process, however that ends:
// a file that a killed run left behind blocks nobody. The file names the holder, and is removed
// with the lock. Where the file system has no locks, stderr is told and nothing is locked. It does
// not keep readers away.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

class FolderLock {
 public:
  // Makes the folder, if need be. An input error that names the holder where there is one.
  static absl::StatusOr<FolderLock> Take(const std::string& dir);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  FolderLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;  // -1: nothing is locked
};

}  // namespace oneflow
