#include "oneflow_core/base/file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// A fresh folder, removed at the end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("file_test." + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};

TEST_CASE("A file is read back as it was written, and replaced whole") {
  const Folder folder;
  const std::string bytes("a\0b\n", 4);
  for (const std::string& text : {bytes, std::string(200'000, 'x'), std::string()}) {
    REQUIRE(WriteFile(folder / "f", text).ok());
    CHECK(ReadFile(folder / "f").value() == text);
  }
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);  // no temporary is left
}

TEST_CASE("What is no regular file is written to, not replaced") {
  const Folder folder;
  REQUIRE(WriteFile(folder / "target", "old").ok());
  fs::create_symlink("target", folder.path / "link");
  REQUIRE(WriteFile(folder / "link", "new").ok());
  CHECK(fs::is_symlink(folder.path / "link"));
  CHECK(ReadFile(folder / "target").value() == "new");
  // A device that is always full; through a link, so that a mistake here can only hurt the link.
  fs::create_symlink("/dev/full", folder.path / "full");
  const absl::Status full = WriteFile(folder / "full", "x");
  CHECK(std::string(full.message()).find("No space left on device") != std::string::npos);
  CHECK(ExitCode(full) == 1);
  CHECK(fs::is_symlink(folder.path / "full"));
}

TEST_CASE("A path that a file is to have later is tried, and leaves none") {
  const Folder folder;
  for (const bool there : {false, true}) {
    if (there) REQUIRE(WriteFile(folder / "f", "old").ok());
    CHECK(MakeWayForFile(folder / "f").ok());
    CHECK_FALSE(fs::exists(folder / "f"));
  }
  CHECK(ExitCode(MakeWayForFile(folder / "none/f")) == 2);
  CHECK(ExitCode(MakeWayForFile(folder.path)) == 2);
  CHECK(fs::is_directory(folder.path));
  fs::create_symlink("/dev/null", folder.path / "link");
  CHECK(MakeWayForFile(folder / "link").ok());
  CHECK(fs::is_symlink(folder.path / "link"));
}

TEST_CASE("Errors of files name the path, the reason and the hint") {
  const Folder folder;
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  CHECK(message(ReadFile(folder / "none", "give a plan").status()) ==
        (folder / "none") + ": cannot be read: No such file or directory; give a plan");
  CHECK(message(ReadFile(folder.path).status()) ==
        folder.path.string() + ": cannot be read: Is a directory; check the path");
  CHECK(ExitCode(WriteFile(folder / "none/f", "x")) == 2);
  CHECK(message(WriteFile(folder / "none/f", "x")) ==
        (folder / "none/f") +
            ": cannot be written: No such file or directory; check the folder and the disk");
}

TEST_CASE(
    "A path that leads nowhere, or is another's, is a mistake, a full or broken disk a failure at "
    "run time") {
  for (const int error : {ENOENT, ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP, EINVAL, EACCES, EPERM}) {
    CHECK(ExitCode(WriteError("f", "cannot be written", error)) == 2);
  }
  for (const int error : {ENOSPC, EDQUOT, EROFS, EIO, EFBIG, ESTALE}) {
    CHECK(ExitCode(WriteError("f", "cannot be written", error)) == 1);
  }
  CHECK(std::string(WriteError("f", "cannot be made", ENOSPC, "make room").message()) ==
        "f: cannot be made: No space left on device; make room");
}

}  // namespace
}  // namespace oneflow
