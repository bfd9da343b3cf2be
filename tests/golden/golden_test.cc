// Runs every *.golden of the folders here, one a pass. With ONEFLOW_GOLDEN_UPDATE=<folder> it
// rewrites the expectations of the files there instead (tests/golden/update); then read what
// changed.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/base/wrap.h"
#include "tests/golden/golden_case.h"

namespace oneflow {
namespace {

std::vector<std::string> GoldenFiles(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".golden") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// "fuse/plain.golden" of the path ".../fuse/plain.golden".
std::string CaseName(const std::filesystem::path& path) {
  return (path.parent_path().filename() / path.filename()).string();
}

bool Fails(const std::filesystem::path& path) {
  return path.filename().string().rfind("fail_", 0) == 0;
}

TEST_CASE("golden: every case prints what it expects") {
  const char* update = std::getenv("ONEFLOW_GOLDEN_UPDATE");
  const std::vector<std::string> files = GoldenFiles(update ? update : "tests/golden");
  REQUIRE(files.size() >= 40);
  for (const std::string& file : files) {
    const std::string name = CaseName(file);
    INFO(name);
    const auto golden = ParseGoldenCase(name, Read(file)).value();
    CHECK(golden.passes.back() == std::filesystem::path(name).parent_path().string());
    const auto result = RunGoldenCase(golden);
    INFO(result.status().ToString());
    CHECK(result.ok() != Fails(file));
    const std::string got =
        result.ok() ? *result : WrapLines(ToStd(result.status().message())) + "\n";
    if (update) {
      std::ofstream(file) << golden.head << "-- expect --\n" << got;
    } else {
      CHECK(got == golden.expect);
    }
  }
}

TEST_CASE("golden: no interleaving of a case's plan sticks") {
  int runs = 0;
  for (const std::string& file : GoldenFiles("tests/golden")) {
    if (Fails(file)) continue;
    INFO(CaseName(file));
    const auto golden = ParseGoldenCase(CaseName(file), Read(file)).value();
    if (!CanTrain(golden)) continue;
    const absl::Status status = RunDry(golden);
    INFO(status.ToString());
    CHECK(status.ok());
    ++runs;
  }
  CHECK(runs >= 10);
}

}  // namespace
}  // namespace oneflow
