// FolderLock: a folder of checkpoints belongs to one run at a time.
//
//   ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take("run/ckpt"));
//
// It is a lock of the kernel's on DIR/lock (flock), which ends with the process, however that ends:
// a file that a killed run left behind blocks nobody. The file names the owner, and is removed with
// the lock. If the file system has no locks, that is noticed and nothing is locked. It
// does not exclude readers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "training/trainer/notice.h"

namespace oneflow {

class FolderLock {
 public:
  // Makes the folder, if need be. An input error that names the owner if there is one.
  static absl::StatusOr<FolderLock> Take(const std::string& dir, const Notice& notice = nullptr);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  FolderLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;  // -1: nothing is locked
};

}  // namespace oneflow
