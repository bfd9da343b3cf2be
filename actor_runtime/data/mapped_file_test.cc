#include "actor_runtime/data/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <string>

#include "actor_runtime/data/temporary_directory.h"

namespace oneflow {
namespace {

// Pages of files that are in the memory of this process.
int64_t ResidentFilePages() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0, of_files = 0;
  statm >> size >> resident >> of_files;
  return of_files;
}

TEST_CASE("released pages leave the process, and an access loads them") {
  const TemporaryDirectory folder;
  constexpr int64_t kPages = 2048;
  const std::string text(kPages * sysconf(_SC_PAGESIZE) + 5, 'x');
  const absl::StatusOr<MappedFile> file = MappedFile::Open(folder.Write("data", text));
  REQUIRE(file.ok());
  const auto full = [&] {
    return std::all_of(file->bytes().begin(), file->bytes().end(),
                       [](std::byte b) { return b == std::byte{'x'}; });
  };
  CHECK(full());
  const int64_t before = ResidentFilePages();
  file->Release(file->bytes().subspan(100));
  CHECK(ResidentFilePages() < before - kPages / 2);
  CHECK(full());
  file->Release({});
}

// None of the opens may wait: with a pipe that nobody writes to the test would never end.
TEST_CASE("pipes, sockets and devices are refused at once") {
  const TemporaryDirectory folder;
  const std::string pipe = folder.path() + "/pipe", link = folder.path() + "/link";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(symlink(pipe.c_str(), link.c_str()) == 0);
  for (const std::string& path : {pipe, link}) {
    for (const absl::Status& status : {MappedFile::Open(path).status(), CheckRegularFile(path)}) {
      CHECK(status.message() == path +
                                    ": is a pipe, no regular file: data is read in any order; "
                                    "write it to a file first, and give that");
    }
  }
  CHECK_THAT(std::string(MappedFile::Open("/dev/zero").status().message()),
             Catch::Contains("is a device, no regular file"));
  CHECK_THAT(std::string(CheckRegularFile(folder.path()).message()),
             Catch::Contains("Is a directory"));
  CHECK(absl::IsNotFound(CheckRegularFile(folder.path() + "/absent")));
  CHECK(CheckRegularFile(folder.Write("data", "")).ok());
}

}  // namespace
}  // namespace oneflow
