// Reports to a test the system calls by which this process reads and changes files. Its functions
// override the C library's functions of the same names.
#pragma once

#include <functional>
#include <string>

namespace oneflow {

struct SystemCall {
  std::string name;  // "open" (to create), "pwrite", "pread", "fsync", "mkdir", "rename", "unlink"
  std::string path;  // the file of the call; for "rename" the old name
  std::string to;    // for "rename" the new name
};

// Sets a function that is called before each system call; it returns 0, or the errno to fail with.
// null: none. It may make such calls itself, which are not reported.
void OnSystemCall(std::function<int(const SystemCall& call)> listener);

}  // namespace oneflow
