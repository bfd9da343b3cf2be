#include "training/trainer/old_checkpoints.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

void Make(const TemporaryDirectory& dir, const std::string& name, bool complete = true) {
  fs::create_directories(dir.path() + "/" + name);
  REQUIRE(WriteFile(dir.path() + "/" + name + "/rank-00000.bin", "bytes").ok());
  if (complete) REQUIRE(WriteFile(dir.path() + "/" + name + "/manifest.json", "{}").ok());
}

Names In(const std::string& folder) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST_CASE("the newest checkpoints stay, by their steps") {
  const TemporaryDirectory dir;
  for (const char* name : {"step-00000009", "step-00000010", "step-100000000", "step-00000002"}) {
    Make(dir, name);
  }
  REQUIRE(KeepNewest(dir.path(), 4).ok());
  CHECK(In(dir.path()).size() == 4);
  REQUIRE(KeepNewest(dir.path(), 2).ok());
  CHECK(In(dir.path()) == Names{"step-00000010", "step-100000000"});
  REQUIRE(KeepNewest(dir.path(), 1).ok());
  CHECK(In(dir.path()) == Names{"step-100000000"});
}

TEST_CASE("what is not complete does not count and stays; what was cut off goes") {
  const TemporaryDirectory dir;
  Make(dir, "step-00000001"), Make(dir, "step-00000002"), Make(dir, "old-1/step-00000001");
  Make(dir, "step-00000003", false), Make(dir, "step-x"), Make(dir, "step-00000004.tmp");
  Make(dir, "step-00000001.tmp", false);
  dir.Write("lock", "process 1\n");
  REQUIRE(KeepNewest(dir.path(), 1).ok());
  CHECK(In(dir.path()) == Names{"lock", "old-1", "step-00000002", "step-00000003", "step-x"});
  CHECK(In(dir.path() + "/old-1") == Names{"step-00000001"});
}

TEST_CASE("a folder that cannot be removed is reported") {
  const TemporaryDirectory dir;
  const std::string longest = "step-" + std::string(249, '0') + "2";  // no room for .tmp
  Make(dir, "step-00000003"), Make(dir, longest), Make(dir, "step-00000001");
  const absl::Status status = KeepNewest(dir.path(), 1);
  CHECK(std::string(status.message()) == dir.path() + "/" + longest +
                                             ": cannot be removed: File name too long; check the "
                                             "folder and the disk");
  CHECK(In(dir.path()) == Names{longest, "step-00000003"});
  CHECK_FALSE(KeepNewest(dir.path() + "/no", 1).ok());
}

TEST_CASE("checkpoints of another run are set aside, each time to a new folder") {
  const TemporaryDirectory dir;
  CHECK(SetCheckpointsAside(dir.path()).value() == "");
  CHECK(In(dir.path()).empty());
  for (const std::string aside : {"old-1", "old-2"}) {
    Make(dir, "step-00000001"), Make(dir, "step-00000002", false);
    CHECK(SetCheckpointsAside(dir.path()).value() == dir.path() + "/" + aside);
    CHECK(In(dir.path() + "/" + aside) == Names{"step-00000001", "step-00000002"});
  }
  CHECK(In(dir.path()) == Names{"old-1", "old-2"});
}

TEST_CASE("later checkpoints are set aside, those that are not complete stay") {
  const TemporaryDirectory dir;
  for (const char* name : {"step-00000001", "step-00000002", "step-00000004", "step-00000005"}) {
    Make(dir, name, std::string(name) != "step-00000004");
  }
  CHECK(SetLaterAside(dir.path(), 5)->empty());
  CHECK(*SetLaterAside(dir.path(), 1) == dir.path() + "/old-1");
  CHECK(In(dir.path()) == Names{"step-00000001", "step-00000004", "old-1"});
  CHECK(In(dir.path() + "/old-1") == Names{"step-00000002", "step-00000005"});
}

}  // namespace
}  // namespace oneflow
