#include "training/data/mapped_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <string>

#include "oneflow_core/base/temporary_directory.h"

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
  const MappedFile file = MappedFile::Open(folder.Write("data", text)).value();
  const auto full = [&] {
    return std::all_of(file.bytes().begin(), file.bytes().end(),
                       [](std::byte b) { return b == std::byte{'x'}; });
  };
  CHECK(full());
  const int64_t before = ResidentFilePages();
  file.Release(file.bytes().subspan(100));
  CHECK(ResidentFilePages() < before - kPages / 2);
  CHECK(full());
  file.Release({});
}

}  // namespace
}  // namespace oneflow
