// Foreign libraries opened while the program runs: cuBLASLt and NCCL. The program links neither, so
// it starts where they are not installed, and uses those of the machine that it runs on.
//
//   const LibraryPaths places = FindLibraryPaths(FLAGS_cuda_libs);
//   ASSIGN_OR_RETURN(const OpenedLibrary library, OpenLibrary(kCublasLt, places));
//   RETURN_IF_ERROR(Bind(library, "cublasLtCreate", &create));
//
// A library is looked for in this order, and the first that can be opened is taken:
//   1. the folder that the user names;
//   2. where the loader looks by itself: LD_LIBRARY_PATH, the binary's own places, ld.so.conf;
//   3. the folders of a toolkit;
//   4. the folders nvidia/*/lib among the packages of the first python3 on PATH (pip's wheels).
// A library stays open until the process ends. It is not a package manager: nothing is installed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow::cuda {

struct LibraryName {
  const char* title;   // for people
  const char* soname;  // the file's name, with the major version
  const char* mend;    // how to install it
};

// What the search depends on.
struct LibraryPaths {
  std::string folder;                 // of the user; "" names none
  std::vector<std::string> toolkits;  // folders of a toolkit's libraries
  std::string path;                   // as of the environment's PATH
  std::string home;                   // as of the environment's HOME
};
LibraryPaths FindLibraryPaths(std::string folder);

struct OpenedLibrary {
  std::string title;
  std::string path;  // of the file
  void* handle = nullptr;
};

// NOT_FOUND where it is nowhere: the message says where it was looked for and how to mend it. A
// file that is there but cannot be opened is passed over, and the message says why.
absl::StatusOr<OpenedLibrary> OpenLibrary(const LibraryName& name, const LibraryPaths& paths);

// The folders of step 4 above, in the order in which they are tried.
std::vector<std::string> PythonFolders(const LibraryPaths& paths);

// The address of `symbol`; FAILED_PRECONDITION where the library is too old to have it.
absl::StatusOr<void*> FindSymbol(const OpenedLibrary& library, const char* symbol);

// Sets *function to the library's function `symbol`.
template <typename Function>
absl::Status Bind(const OpenedLibrary& library, const char* symbol, Function** function) {
  absl::StatusOr<void*> address = FindSymbol(library, symbol);
  if (!address.ok()) return address.status();
  *function = reinterpret_cast<Function*>(*address);
  return absl::OkStatus();
}

}  // namespace oneflow::cuda
