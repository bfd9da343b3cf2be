// Invariants:
//  1. The inode of whatever was synced is held open, so that its number stands for nothing else.
//  2. After LosePower what the folder holds counts as synced.
#include "tests/cluster/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <glog/logging.h>

namespace oneflow::cluster {
namespace {

namespace fs = std::filesystem;

Disk* current = nullptr;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ino_t InodeNumber(const std::string& path) {
  struct stat status = {};
  PCHECK(lstat(path.c_str(), &status) == 0) << path;
  return status.st_ino;
}

std::map<std::string, ino_t> NamesIn(const std::string& folder) {
  std::map<std::string, ino_t> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names[entry.path().filename()] = InodeNumber(entry.path());
  }
  return names;
}

}  // namespace

Disk::Disk(std::string folder, const Faults& faults) : folder_(std::move(folder)), faults_(faults) {
  CHECK(current == nullptr) << "there is a disk";
  current = this;
  fs::create_directories(folder_);
}

Disk::~Disk() {
  current = nullptr;
  for (const auto& [number, inode] : inodes_) {
    if (inode.held >= 0) close(inode.held);
  }
}

Disk* Disk::Current() { return current; }

Disk::Inode& Disk::Hold(int fd, ino_t number) {
  Inode& inode = inodes_[number];
  if (inode.held < 0) inode.held = dup(fd);
  PCHECK(inode.held >= 0);
  return inode;
}

ssize_t Disk::WriteAt(int fd, const void* bytes, size_t count, off_t offset) {
  if (is_full_ && is_full_()) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

int Disk::Sync(int fd) {
  struct stat status = {};
  PCHECK(fstat(fd, &status) == 0);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const std::string name = fs::read_symlink(path).filename();
  if (faults_.manifest_before_sync && name.starts_with("rank-")) return 0;
  Inode& inode = Hold(fd, status.st_ino);
  if (S_ISDIR(status.st_mode)) {
    inode.names = NamesIn(fs::read_symlink(path));
  } else {
    inode.synced = ReadAll(path);
  }
  return 0;
}

void Disk::CollectNow(const std::string& path) {
  const ino_t number = InodeNumber(path);
  if (fs::is_directory(fs::symlink_status(path))) {
    names_now_[number] = NamesIn(path);
    for (const auto& [name, of] : names_now_[number]) CollectNow(path + "/" + name);
  } else {
    bytes_now_[number] = ReadAll(path);
  }
}

// A folder has the names that were synced, or those that it had; of a file's bytes that were not
// synced all remain, none, or zeros.
Disk::Node Disk::Remains(ino_t number, Simulation& simulation) {
  Node node;
  const auto found = inodes_.find(number);
  const Inode* inode = found == inodes_.end() ? nullptr : &found->second;
  const auto names_now = names_now_.find(number);
  node.is_folder = names_now != names_now_.end() || (inode != nullptr && inode->names.has_value());
  const bool lost = !simulation.OneIn(3);
  if (node.is_folder) {
    std::map<std::string, ino_t> names;
    if (inode != nullptr && inode->names && (lost || names_now == names_now_.end())) {
      names = *inode->names;
    } else if (!lost && names_now != names_now_.end()) {
      names = names_now->second;
    }
    for (const auto& [name, of] : names) node.entries[name] = Remains(of, simulation);
    return node;
  }
  const auto bytes_now = bytes_now_.find(number);
  const bool synced = inode != nullptr && inode->synced.has_value();
  if (bytes_now != bytes_now_.end() && !lost) {
    node.bytes = bytes_now->second;
  } else if (synced) {
    node.bytes = *inode->synced;
  } else if (bytes_now != bytes_now_.end() && simulation.OneIn(2)) {
    node.bytes.assign(bytes_now->second.size(), '\0');
  }
  return node;
}

void Disk::Write(const Node& node, const std::string& path) {
  if (!node.is_folder) {
    std::ofstream(path, std::ios::binary) << node.bytes;
    return;
  }
  fs::create_directories(path);
  for (const auto& [name, entry] : node.entries) Write(entry, path + "/" + name);
}

void Disk::LosePower(Simulation& simulation) {
  CollectNow(folder_);
  // The folder itself is not lost.
  Node root = {.is_folder = true};
  const ino_t number = InodeNumber(folder_);
  const auto synced = inodes_.find(number);
  const bool old = synced != inodes_.end() && synced->second.names && !simulation.OneIn(3);
  for (const auto& [name, of] : old ? *synced->second.names : names_now_[number]) {
    root.entries[name] = Remains(of, simulation);
  }
  for (const auto& entry : fs::directory_iterator(folder_)) fs::remove_all(entry.path());
  for (auto& [name, inode] : inodes_) {
    if (inode.held >= 0) close(inode.held);
  }
  inodes_.clear();
  Write(root, folder_);
  names_now_.clear();
  bytes_now_.clear();
  TakeAsSynced(folder_);
}

void Disk::TakeAsSynced(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  PCHECK(fd >= 0) << path;
  Inode& inode = Hold(fd, InodeNumber(path));
  close(fd);
  if (!fs::is_directory(path)) {
    inode.synced = ReadAll(path);
    return;
  }
  inode.names = NamesIn(path);
  for (const auto& [name, of] : *inode.names) TakeAsSynced(path + "/" + name);
}

}  // namespace oneflow::cluster

// They replace the C library's.
extern "C" ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  if (auto* disk = oneflow::cluster::Disk::Current())
    return disk->WriteAt(fd, bytes, count, offset);
  return syscall(SYS_pwrite64, fd, bytes, count, offset);
}
extern "C" int fsync(int fd) {
  if (auto* disk = oneflow::cluster::Disk::Current()) return disk->Sync(fd);
  return static_cast<int>(syscall(SYS_fsync, fd));
}
