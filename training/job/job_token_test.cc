#include "training/job/job_token.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

mode_t Mode(const std::string& path) {
  struct stat facts;
  REQUIRE(lstat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

TEST_CASE(
    "All that ask for the token of a run at once get one token, which no other user can read") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/tokens";
  std::vector<std::future<absl::StatusOr<std::string>>> asking;
  for (int i = 0; i < 16; ++i) {
    asking.push_back(std::async(std::launch::async,
                                [&] { return TokenOfRun(folder, "127.0.0.1:29501-run/7"); }));
  }
  std::set<std::string> tokens;
  for (auto& one : asking) tokens.insert(one.get().value());
  REQUIRE(tokens.size() == 1);
  CHECK(tokens.begin()->size() == 64);
  CHECK(Mode(folder) == 0700);
  CHECK(Mode(folder + "/token-127.0.0.1_29501-run_7") == 0600);
  CHECK(std::distance(fs::directory_iterator(folder), {}) == 1);  // no drafts

  CHECK(TokenOfRun(folder, "127.0.0.1:29501-run/7").value() == *tokens.begin());
  CHECK(TokenOfRun(folder, "127.0.0.1:29502").value() != *tokens.begin());
}

TEST_CASE("A token that another user may have made or read is refused") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/tokens", file = folder + "/token-run";
  REQUIRE(TokenOfRun(folder, "run").ok());
  const auto refusal = [&] {
    const absl::Status refused = TokenOfRun(folder, "run").status();
    CHECK(ExitCode(refused) == 2);
    return std::string(refused.message());
  };
  REQUIRE(chmod(file.c_str(), 0640) == 0);
  CHECK_THAT(refusal(), Contains(file + ": may be read by others"));
  REQUIRE(chmod(file.c_str(), 0600) == 0);
  REQUIRE(chmod(folder.c_str(), 0777) == 0);
  CHECK_THAT(refusal(), Contains(folder + ": may be written to by others"));
  REQUIRE(chmod(folder.c_str(), 0700) == 0);
  REQUIRE(truncate(file.c_str(), 0) == 0);
  CHECK_THAT(refusal(), Contains("is no token; remove it, or give all processes the same "
                                 "ONEFLOW_JOB_TOKEN"));
  fs::remove_all(folder);
  fs::create_directory_symlink(dir.path(), folder);
  CHECK_THAT(refusal(), Contains("is no folder"));
}

TEST_CASE("Tokens of runs that do not come again go, and those that nobody uses") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/tokens";
  const auto age = [&](const std::string& name, int days) {
    const auto now = fs::file_time_type::clock::now();
    fs::last_write_time(folder + "/" + name, now - std::chrono::hours(24 * days));
  };
  for (const char* run : {"once", "old", "recent"}) REQUIRE(TokenOfRun(folder, run).ok());
  ForgetToken(folder, "once");
  CHECK_FALSE(fs::exists(folder + "/token-once"));
  ForgetToken(folder, "once");  // is gone already
  REQUIRE(WriteFile(folder + "/other", "not ours").ok());
  age("token-old", kTokenDays + 1);
  age("token-recent", kTokenDays + 1);
  age("other", kTokenDays + 1);
  REQUIRE(TokenOfRun(folder, "recent").ok());  // it is in use
  REQUIRE(TokenOfRun(folder, "new").ok());
  CHECK_FALSE(fs::exists(folder + "/token-old"));
  for (const char* name : {"token-recent", "token-new", "other"}) {
    CHECK(fs::exists(folder + "/" + name));
  }
}

}  // namespace
}  // namespace oneflow
