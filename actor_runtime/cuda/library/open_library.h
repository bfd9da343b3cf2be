// Foreign libraries opened at run time: cuBLASLt and NCCL. The program links neither, so it starts
// on machines without them, and uses those that are installed.
//
//   const LibraryPaths paths = FindLibraryPaths(FLAGS_cuda_libs);
//   ASSIGN_OR_RETURN(const OpenedLibrary library, OpenLibrary(kCublasLt, paths));
//   RETURN_IF_ERROR(Bind(library, "cublasLtCreate", &create));
//
// A library is searched in this order, and the first that can be opened is taken:
//   1. the folder that the user names;
//   2. the loader's own search: LD_LIBRARY_PATH, the binary's run path, ld.so.conf;
//   3. the folders of a toolkit;
//   4. the folders nvidia/*/lib among the packages of the first python3 on PATH (pip's wheels).
// A library stays open until the process ends. This is not a package manager: nothing is installed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow::cuda {

struct LibraryName {
  const char* title;   // for people
  const char* soname;  // the file's name, with the major version
  const char* hint;    // how to install it
};

// The inputs of the search.
struct LibraryPaths {
  std::string folder;                 // of the user; "": none
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

// NOT_FOUND if no path has it: the message lists the paths and says how to install it. A file that
// exists but cannot be opened is skipped, and the message says why.
absl::StatusOr<OpenedLibrary> OpenLibrary(const LibraryName& name, const LibraryPaths& paths);

// The folders of step 4 above, in the order of the search.
std::vector<std::string> PythonFolders(const LibraryPaths& paths);

// The address of `symbol`; FAILED_PRECONDITION if the library is too old to have it.
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
