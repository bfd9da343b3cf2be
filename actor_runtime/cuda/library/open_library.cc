#include "actor_runtime/cuda/library/open_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace oneflow::cuda {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The folders in `folder` whose names begin with `prefix`, in the order of their names: a listing
// comes in any order, and which library is taken should not depend on it.
std::vector<fs::path> FoldersIn(const fs::path& folder, const char* prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename().string().starts_with(prefix) && it->is_directory(ignored)) {
      found.push_back(it->path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The file that the loader opened for `handle`.
std::string MakePath(void* handle) {
  link_map* map = nullptr;
  const bool found = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
  return found ? map->l_name : "";
}

// The loader's text for a library that it did not find, after its name.
constexpr char kAbsent[] = "cannot open shared object file: No such file or directory";

// RTLD_LOCAL: two libraries may carry the same names, as a framework in the same process does.
void* Open(const std::string& file) { return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); }

std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

}  // namespace

LibraryPaths FindLibraryPaths(std::string folder) {
  LibraryPaths paths{.folder = std::move(folder)};
  std::vector<std::string> roots = {Environment("CUDA_PATH")};
  if (roots[0] != "/usr/local/cuda") roots.push_back("/usr/local/cuda");
  for (const std::string& toolkit : roots) {
    if (toolkit.empty()) continue;
    paths.toolkits.push_back(toolkit + "/lib64");
    paths.toolkits.push_back(toolkit + "/targets/x86_64-linux/lib");
  }
  paths.path = Environment("PATH");
  paths.home = Environment("HOME");
  return paths;
}

std::vector<std::string> PythonFolders(const LibraryPaths& paths) {
  // A virtual environment, or a separately installed Python, keeps packages beside bin; Debian's
  // keeps those of pip under /usr/local; those of one user are at home.
  std::vector<fs::path> roots;
  const std::vector<std::string> path = absl::StrSplit(paths.path, ':', absl::SkipEmpty());
  for (const fs::path folder : path) {
    if (!Exists(folder / "python3")) continue;
    const fs::path prefix = folder.parent_path();
    roots = {prefix / "lib", prefix / "local" / "lib"};
    if (prefix == "/usr") roots.push_back("/usr/local/lib");
    break;
  }
  if (!roots.empty() && !paths.home.empty()) {
    roots.push_back(fs::path(paths.home) / ".local" / "lib");
  }
  std::vector<std::string> found;
  for (const fs::path& root : roots) {
    for (const fs::path& python : FoldersIn(root, "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& wheel : FoldersIn(python / packages / "nvidia", "")) {
          if (Exists(wheel / "lib")) found.push_back((wheel / "lib").string());
        }
      }
    }
  }
  return found;
}

absl::StatusOr<OpenedLibrary> OpenLibrary(const LibraryName& name, const LibraryPaths& paths) {
  std::vector<std::string> looked, broken;
  const auto opened = [&](void* handle) {
    return OpenedLibrary{name.title, MakePath(handle), handle};
  };
  // The library in `folder`; null where it has none that can be opened.
  const auto try_folder = [&](const std::string& folder) -> void* {
    const fs::path file = fs::path(folder) / name.soname;
    looked.push_back(folder);
    if (!Exists(file)) return nullptr;
    void* handle = Open(file.string());
    if (handle == nullptr) broken.push_back(LoaderError());
    return handle;
  };

  if (!paths.folder.empty()) {
    if (void* handle = try_folder(paths.folder)) return opened(handle);
  }
  looked.push_back("the loader's paths");
  if (void* handle = Open(name.soname)) return opened(handle);
  // That it is merely absent is said below.
  const std::string why = LoaderError();
  if (why != absl::StrCat(name.soname, ": ", kAbsent)) broken.push_back(why);
  std::vector<std::string> folders = paths.toolkits;
  const std::vector<std::string> python = PythonFolders(paths);
  folders.insert(folders.end(), python.begin(), python.end());
  for (const std::string& folder : folders) {
    if (void* handle = try_folder(folder)) return opened(handle);
  }
  std::string message =
      absl::StrCat(name.title, ": ", name.soname, " is not in ", absl::StrJoin(looked, ", "));
  if (!broken.empty()) absl::StrAppend(&message, " (", absl::StrJoin(broken, "; "), ")");
  return absl::NotFoundError(
      absl::StrCat(message, "; ", name.hint, ", or name its folder with --cuda_libs"));
}

absl::StatusOr<void*> FindSymbol(const OpenedLibrary& library, const char* symbol) {
  if (void* address = dlsym(library.handle, symbol)) return address;
  return absl::FailedPreconditionError(absl::StrCat(library.title, ": ", library.path, " has no ",
                                                    symbol, "; install a newer version"));
}

}  // namespace oneflow::cuda
