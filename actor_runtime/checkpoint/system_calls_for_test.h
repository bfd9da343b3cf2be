// What a test hears of the system calls by which this process reads and changes files. It stands
// before the C library's functions of these names.
#pragma once

#include <functional>
#include <string>

namespace oneflow {

struct SystemCall {
  std::string name;  // "open" (to create), "pwrite", "pread", "fsync", "mkdir", "rename", "unlink"
  std::string path;  // of what it is called on; of "rename" the old one
  std::string to;    // of "rename" the new one
};

// Called before each; returns 0, or the errno to fail with. null: nobody listens. It may make such
// calls itself, which are not told.
void OnSystemCall(std::function<int(const SystemCall& call)> listener);

}  // namespace oneflow
