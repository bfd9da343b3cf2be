// What tests/catch_main.cc adds to every test.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <thread>

TEST_CASE("tests are limited in CPU time, and end with an error where they use it up") {
  const char* wall = std::getenv("TEST_TIMEOUT");
  if (wall == nullptr) {
    SUCCEED("not run by Bazel");
    return;
  }
  rlimit limit = {};
  REQUIRE(getrlimit(RLIMIT_CPU, &limit) == 0);
  const rlim_t cores = std::max(1u, std::thread::hardware_concurrency());
  CHECK(limit.rlim_cur == std::atoi(wall) * cores / 5);
  const pid_t child = fork();
  if (child == 0) {
    std::raise(SIGXCPU);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 1));
}
