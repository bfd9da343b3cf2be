#include "training/trainer/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/files/durable.h"

namespace oneflow {
namespace {

// An open file, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// "process 4711 on node7 since 2024-05-01T12:00:00Z"
std::string OwnName() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char since[32];
  std::strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return "process " + std::to_string(getpid()) + " on " + host + " since " + since;
}

// The owner's text, which it may not have written yet.
std::string HolderName(int fd) {
  char text[512];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  const std::string name(text, std::max<ssize_t>(n, 0));
  const size_t end = name.find('\n');
  return end == name.npos ? "another process" : name.substr(0, end);
}

absl::Status WriteName(const std::string& path, int fd) {
  const std::string name = OwnName() + "\n";
  const auto size = static_cast<ssize_t>(name.size());
  if (ftruncate(fd, 0) == 0 && pwrite(fd, name.data(), name.size(), 0) == size) {
    return absl::OkStatus();
  }
  return WriteError(path, "cannot be written", errno);
}

// An owner that ends removes the file, perhaps when we have opened it already.
bool IsAt(int fd, const std::string& path) {
  struct stat opened = {}, there = {};
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &there) == 0 &&
         opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& dir, const Notice& notice) {
  RETURN_IF_ERROR(CreateFolders(dir));
  const std::string path = dir + "/lock";
  for (;;) {
    Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (file.get() < 0) {
      return WriteError(path, "cannot be created", errno, "check the folder and its permissions");
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!IsAt(file.get(), path)) continue;
      FolderLock lock(path, file.Release());
      RETURN_IF_ERROR(WriteName(path, lock.fd_));
      return lock;
    }
    if (errno == EWOULDBLOCK) {
      return InputError("--checkpoint_dir=" + dir, "is in use by " + HolderName(file.get()),
                        "give another folder, or wait until that run has ended");
    }
    if (errno == EINTR) continue;
    Notify(notice, "warning: " + dir + " cannot be locked (" + std::strerror(errno) +
                       "): see to it that no other run writes there");
    unlink(path.c_str());
    return FolderLock(path, -1);
  }
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  unlink(path_.c_str());
  close(fd_);
}

}  // namespace oneflow
