#include "training/data/data_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <string>

#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

TEST_CASE("a file is read anywhere; one that was truncated is an error with the position") {
  const TemporaryDirectory folder;
  const std::string path = folder.Write("data", "abcdefgh");
  const DataFile file = DataFile::Open(path).value();
  CHECK(file.size() == 8);
  std::string text(4, ' ');
  const auto read = [&](int64_t offset) {
    return file.Read(offset, std::as_writable_bytes(std::span(text)));
  };
  CHECK(read(3).ok());
  CHECK(text == "defg");
  REQUIRE(truncate(path.c_str(), 5) == 0);
  CHECK(read(1).ok());
  const absl::Status truncated = read(3);
  CHECK(ExitCode(truncated) == 2);
  CHECK(truncated.message() ==
        path +
            ": ends at byte 5, and had 8 when it was opened: it was truncated; "
            "make it again, and leave it alone while it is in use");
  CHECK(file.Read(8, {}).ok());
}

// None of the opens may wait: with a pipe that nobody writes to the test would never end.
TEST_CASE("pipes, sockets and devices are refused at once") {
  const TemporaryDirectory folder;
  const std::string pipe = folder.path() + "/pipe", link = folder.path() + "/link";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(symlink(pipe.c_str(), link.c_str()) == 0);
  for (const std::string& path : {pipe, link}) {
    for (const absl::Status& status : {DataFile::Open(path).status(), CheckRegularFile(path)}) {
      CHECK(status.message() == path +
                                    ": is a pipe, no regular file: data is read in any order; "
                                    "write it to a file first, and give that");
    }
  }
  CHECK_THAT(std::string(DataFile::Open("/dev/zero").status().message()),
             Catch::Contains("is a device, no regular file"));
  CHECK_THAT(std::string(CheckRegularFile(folder.path()).message()),
             Catch::Contains("Is a directory"));
  CHECK(absl::IsNotFound(CheckRegularFile(folder.path() + "/absent")));
  CHECK(CheckRegularFile(folder.Write("data", "")).ok());
}

}  // namespace
}  // namespace oneflow
