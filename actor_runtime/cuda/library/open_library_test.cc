#include "actor_runtime/cuda/library/open_library.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/base/temporary_directory.h"

namespace oneflow::cuda {
namespace {

namespace fs = std::filesystem;

constexpr LibraryName kName{"Example", "libexample.so.7", "install the package example"};

// A file of that name in `folder`, which is made: the real library, or text.
void PutLibrary(const fs::path& folder) {
  fs::create_directories(folder);
  fs::copy_file("actor_runtime/cuda/library/libfor_test.so", folder / kName.soname);
}
void PutText(const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / kName.soname) << "not a library";
}

// A machine whose files are all in `root`.
LibraryPaths PathsIn(const fs::path& root) {
  return {.folder = root / "given",
          .toolkits = {root / "cuda/lib64", root / "cuda/targets/x86_64-linux/lib"},
          .path = (root / "empty").string() + ":" + (root / "venv/bin").string(),
          .home = root / "home"};
}

void PutPython(const fs::path& root) {
  fs::create_directories(root / "venv/bin");
  std::ofstream(root / "venv/bin/python3") << "";
}

TEST_CASE("a library is taken from the first path that has it") {
  TemporaryDirectory directory;
  const fs::path root(directory.path());
  const LibraryPaths paths = PathsIn(root);
  PutPython(root);
  // From the last path to the first: each new file is preferred to those of later paths.
  const fs::path order[] = {root / "home/.local/lib/python3.11/site-packages/nvidia/cublas/lib",
                            root / "venv/lib/python3.12/site-packages/nvidia/nccl/lib",
                            root / "venv/lib/python3.12/site-packages/nvidia/cu13/lib",
                            root / "cuda/targets/x86_64-linux/lib",
                            root / "cuda/lib64",
                            root / "given"};
  for (const fs::path& folder : order) {
    PutLibrary(folder);
    const auto library = OpenLibrary(kName, paths);
    REQUIRE(library.status() == absl::OkStatus());
    CHECK(library->path == (folder / kName.soname).string());
    CHECK(library->title == "Example");
  }
}

TEST_CASE("functions are bound by name, one that is not there is refused") {
  TemporaryDirectory directory;
  const fs::path root(directory.path());
  PutLibrary(root / "given");
  const auto library = OpenLibrary(kName, PathsIn(root));
  REQUIRE(library.status() == absl::OkStatus());
  int (*answer)() = nullptr;
  REQUIRE(Bind(*library, "LibraryForTestAnswer", &answer) == absl::OkStatus());
  CHECK(answer() == 42);
  const absl::Status missing = Bind(*library, "Nowhere", &answer);
  CHECK(missing.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(missing.message() ==
        "Example: " + library->path + " has no Nowhere; install a newer version");
}

TEST_CASE("the error of a missing library lists the paths and has a hint") {
  TemporaryDirectory directory;
  const fs::path root(directory.path());
  const absl::Status status = OpenLibrary(kName, PathsIn(root)).status();
  CHECK(status.code() == absl::StatusCode::kNotFound);
  const std::string at = root.string();
  CHECK(status.message() == "Example: libexample.so.7 is not in " + at +
                                "/given, the loader's paths, " + at + "/cuda/lib64, " + at +
                                "/cuda/targets/x86_64-linux/lib; install the package example, or "
                                "name its folder with --cuda_libs");
}

TEST_CASE("a file that is no library is passed over, and the message says why") {
  TemporaryDirectory directory;
  const fs::path root(directory.path());
  PutText(root / "given");
  const absl::Status status = OpenLibrary(kName, PathsIn(root)).status();
  CHECK(std::string(status.message()).find("given/libexample.so.7: file too short") !=
        std::string::npos);
  PutLibrary(root / "cuda/lib64");
  const auto library = OpenLibrary(kName, PathsIn(root));
  REQUIRE(library.status() == absl::OkStatus());
  CHECK(library->path == (root / "cuda/lib64" / kName.soname).string());
}

TEST_CASE("wheels are looked for beside the first python3 on PATH only") {
  TemporaryDirectory directory;
  const fs::path root(directory.path());
  LibraryPaths paths = PathsIn(root);
  fs::create_directories(root / "venv/lib/python3.12/site-packages/nvidia/nccl/lib");
  fs::create_directories(root / "venv/lib/python3.12/site-packages/nvidia/cublas/include");
  CHECK(PythonFolders(paths).empty());  // no python3 there yet
  PutPython(root);
  const std::vector<std::string> nccl = {
      (root / "venv/lib/python3.12/site-packages/nvidia/nccl/lib").string()};
  CHECK(PythonFolders(paths) == nccl);
  fs::create_directories(root / "empty");
  std::ofstream(root / "empty/python3") << "";
  CHECK(PythonFolders(paths).empty());
}

}  // namespace
}  // namespace oneflow::cuda
