#include "training/files/durable.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "training/checkpoint/system_calls_for_test.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// The paths that are synced during `act`, in order.
std::vector<std::string> Synced(const std::function<absl::Status()>& act) {
  std::vector<std::string> paths;
  OnSystemCall([&](const SystemCall& call) {
    if (call.name == "fsync") paths.push_back(call.path);
    return 0;
  });
  const absl::Status status = act();
  OnSystemCall(nullptr);
  INFO(status);
  CHECK(status.ok());
  return paths;
}

TEST_CASE("folders that are made are on the disk, each in the one above it") {
  const TemporaryDirectory dir;
  const std::string top = fs::canonical(dir.path());
  CHECK(Synced([&] { return CreateFolders(top + "/a/b/c"); }) ==
        std::vector<std::string>{top, top + "/a", top + "/a/b"});
  CHECK(fs::is_directory(top + "/a/b/c"));
  CHECK(Synced([&] { return CreateFolders(top + "/a/b/c"); }).empty());
  REQUIRE(WriteDurably(top + "/file", "").ok());
  CHECK_THAT(std::string(CreateFolders(top + "/file/c").message()),
             Catch::Contains("/file/c: cannot be created: Not a directory"));
}

TEST_CASE("an old folder goes when the new one has its name on the disk, not before") {
  const TemporaryDirectory dir;
  const std::string top = fs::canonical(dir.path()), from = top + "/new", to = top + "/it";
  for (const bool replaces : {false, true}) {
    fs::create_directory(from);
    REQUIRE(WriteDurably(from + "/text", replaces ? "second" : "first").ok());
    bool old_there = false;
    OnSystemCall([&](const SystemCall& call) {
      if (call.name != "fsync") return 0;
      CHECK(call.path == top);
      CHECK(fs::exists(to + "/text"));
      old_there = fs::exists(from + "/text");
      return 0;
    });
    CHECK(ReplaceFolder(from, to).ok());
    OnSystemCall(nullptr);
    CHECK(old_there == replaces);
    CHECK_FALSE(fs::exists(from));
    CHECK(fs::file_size(to + "/text") == (replaces ? 6 : 5));
  }
}

}  // namespace
}  // namespace oneflow
