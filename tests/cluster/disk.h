// A disk that loses what was not synced. Files are real ones below a folder of the test; what a
// process has synced (fsync of a file, or of a folder for the names in it) is remembered, and after
// a loss of power the folder holds that, and of all else what is drawn.
//
//   Disk disk(folder);
//   ... CheckpointWriter and others write below it ...
//   disk.LosePower(simulation);
//
// It replaces fsync and pwrite in the program, while a disk exists. It does not simulate disks that
// report a sync falsely.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tests/cluster/faults.h"
#include "tests/cluster/simulation.h"

namespace oneflow::cluster {

class Disk {
 public:
  explicit Disk(std::string folder, const Faults& faults = {});
  ~Disk();
  Disk(const Disk&) = delete;

  const std::string& folder() const { return folder_; }
  // Asked before each write: true if there is no space left for it.
  void SetFull(std::function<bool()> is_full) { is_full_ = std::move(is_full); }
  void LosePower(Simulation& simulation);

  // Implement fsync and pwrite: their results and errno.
  int Sync(int fd);
  ssize_t WriteAt(int fd, const void* bytes, size_t count, off_t offset);
  // The one that exists; null: none.
  static Disk* Current();

 private:
  struct Inode {
    int held = -1;                                      // keeps the number from being used again
    std::optional<std::string> synced;                  // of a file
    std::optional<std::map<std::string, ino_t>> names;  // of a folder: synced
  };
  // A file or a folder as it will be.
  struct Node {
    bool is_folder = false;
    std::string bytes;
    std::map<std::string, Node> entries;
  };
  Inode& Hold(int fd, ino_t number);
  void CollectNow(const std::string& path);
  Node Remains(ino_t number, Simulation& simulation);
  static void Write(const Node& node, const std::string& path);
  void TakeAsSynced(const std::string& path);

  const std::string folder_;
  const Faults faults_;
  std::function<bool()> is_full_;
  std::map<ino_t, Inode> inodes_;
  // As it is when power is lost: names of folders, bytes of files.
  std::map<ino_t, std::map<std::string, ino_t>> names_now_;
  std::map<ino_t, std::string> bytes_now_;
};

}  // namespace oneflow::cluster
