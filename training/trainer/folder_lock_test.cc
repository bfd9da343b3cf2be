#include "training/trainer/folder_lock.h"

#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"

namespace {
std::function<int()>
    on_flock;  // returns 0 to go on, or the errno of a failure; null: nobody listens
}  // namespace

// Stands before the C library's.
extern "C" int flock(int fd, int operation) noexcept {
  if (const int error = on_flock ? on_flock() : 0; error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, fd, operation));
}

namespace oneflow {
namespace {

namespace fs = std::filesystem;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("a folder has one owner, whom the others' errors name; the lock ends with the owner") {
  const TemporaryDirectory dir;
  const std::string folder = dir.path() + "/a/b";
  {
    const auto lock = FolderLock::Take(folder).value();
    const absl::Status second = FolderLock::Take(folder).status();
    CHECK(ExitCode(second) == 2);
    const std::string owner = "process " + std::to_string(getpid()) + " on ";
    CHECK_THAT(Text(second),
               Catch::StartsWith("--checkpoint_dir=" + folder + ": is in use by " + owner));
    CHECK_THAT(Text(second), Catch::Matches(".* since 20[0-9-]+T[0-9:]+Z; give another folder, or "
                                            "wait until that run has ended"));
    CHECK(FolderLock::Take(dir.path() + "/a").ok());
  }
  CHECK(fs::is_empty(folder));
  CHECK(FolderLock::Take(folder).ok());
}

TEST_CASE("an owner that was killed blocks nobody") {
  const TemporaryDirectory dir;
  int taken[2];
  REQUIRE(pipe(taken) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = FolderLock::Take(dir.path());
    const char done = lock.ok() ? 'y' : 'n';
    if (write(taken[1], &done, 1) == 1) pause();
    _exit(0);
  }
  char done = 0;
  REQUIRE(read(taken[0], &done, 1) == 1);
  CHECK(done == 'y');
  CHECK_THAT(Text(FolderLock::Take(dir.path()).status()),
             Catch::Contains("in use by process " + std::to_string(child) + " on "));
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  close(taken[0]), close(taken[1]);
  CHECK(fs::exists(dir.path() + "/lock"));
  const auto lock = FolderLock::Take(dir.path()).value();
  CHECK_THAT(ReadFile(dir.path() + "/lock").value(),
             Catch::StartsWith("process " + std::to_string(getpid()) + " on "));
}

TEST_CASE("a lock on a file that its owner has removed is none") {
  const TemporaryDirectory dir;
  int calls = 0;
  on_flock = [&] {
    if (++calls == 1) fs::remove(dir.path() + "/lock");
    return 0;
  };
  const auto lock = FolderLock::Take(dir.path());
  on_flock = nullptr;
  REQUIRE(lock.ok());
  CHECK(calls == 2);
  CHECK(ExitCode(FolderLock::Take(dir.path()).status()) == 2);
}

TEST_CASE("an owner that has not written its name yet is another process") {
  const TemporaryDirectory dir;
  const auto lock = FolderLock::Take(dir.path()).value();
  REQUIRE(truncate((dir.path() + "/lock").c_str(), 0) == 0);
  CHECK_THAT(Text(FolderLock::Take(dir.path()).status()),
             Catch::Contains("is in use by another process; "));
}

TEST_CASE("a file system without locks locks nothing; an interrupted call is made again") {
  const TemporaryDirectory dir;
  on_flock = [] { return ENOLCK; };
  {
    const auto first = FolderLock::Take(dir.path()), second = FolderLock::Take(dir.path());
    CHECK(first.ok());
    CHECK(second.ok());
  }
  CHECK(fs::is_empty(dir.path()));
  int calls = 0;
  on_flock = [&] { return ++calls == 1 ? EINTR : 0; };
  CHECK(FolderLock::Take(dir.path()).ok());
  CHECK(calls == 2);
  on_flock = nullptr;
}

TEST_CASE("what is no folder cannot be locked") {
  const TemporaryDirectory dir;
  const std::string file = dir.Write("file", "");
  const absl::Status status = FolderLock::Take(file).status();
  CHECK(ExitCode(status) == 2);
  CHECK_THAT(Text(status), Catch::StartsWith(file + "/lock: cannot be created: Not a directory"));
}

}  // namespace
}  // namespace oneflow
