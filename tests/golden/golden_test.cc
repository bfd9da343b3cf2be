// Runs every *.golden of this folder. With ONEFLOW_GOLDEN_UPDATE=<folder> it rewrites the
// expectations of the files there instead (tests/golden/update); then read what changed.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "oneflow_core/base/strings.h"
#include "tests/golden/golden_case.h"

namespace oneflow {
namespace {

std::vector<std::string> GoldenFiles(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
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

TEST_CASE("golden: every case prints what it expects") {
  const char* update = std::getenv("ONEFLOW_GOLDEN_UPDATE");
  const std::vector<std::string> files = GoldenFiles(update ? update : "tests/golden");
  REQUIRE(files.size() >= 16);
  for (const std::string& file : files) {
    const std::string name = std::filesystem::path(file).filename().string();
    INFO(name);
    const auto golden = ParseGoldenCase(name, Read(file));
    REQUIRE(golden.ok());
    const auto result = RunGoldenCase(*golden);
    CHECK(result.ok() == (name.rfind("fail_", 0) != 0));
    const std::string got =
        result.ok() ? *result : std::string(ToStd(result.status().message())) + "\n";
    if (update) {
      std::ofstream(file) << golden->head << "-- expect --\n" << got;
    } else {
      CHECK(got == golden->expect);
    }
  }
}

}  // namespace
}  // namespace oneflow
