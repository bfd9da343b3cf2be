#include "tools/oneflow/job/command.h"

#include <catch2/catch.hpp>
#include <string>

#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

TEST_CASE("command: output, exit code, signals") {
  const auto result = RunCommand({"bash", "-c", "echo out; echo err >&2; cat; exit 7"});
  REQUIRE(result.ok());
  CHECK(result->code == 7);
  CHECK(result->out == "out\n");
  CHECK(result->err == "err\n");
  CHECK(RunCommand({"bash", "-c", "kill -KILL $$"})->code == 137);
}

TEST_CASE("command: both outputs are read however much there is") {
  const auto result =
      RunCommand({"bash", "-c", "head -c 300000 /dev/zero >&2; head -c 300001 /dev/zero"});
  REQUIRE(result.ok());
  CHECK(result->out.size() == 300'001);
  CHECK(result->err.size() == 300'000);
}

TEST_CASE("command: one that must succeed tells what it said") {
  CHECK(*RunForOutput({"echo", "a b"}) == "a b\n");
  const absl::Status failed =
      RunForOutput({"bash", "-c", "echo no such thing >&2; exit 3"}).status();
  CHECK(ToStd(failed.message()) ==
        "`bash -c 'echo no such thing >&2; exit 3'` failed with exit code 3: no such thing");
  const absl::Status absent = RunForOutput({"oneflow-no-such-program"}).status();
  CHECK(absl::IsNotFound(absent));
  CHECK(ToStd(absent.message()).find("oneflow-no-such-program: cannot be run") == 0);
}

TEST_CASE("command: a quoted word reaches a program as it was") {
  for (const std::string word :
       {"", "plain", "a b", "it's", "$HOME `x` \"y\" \\", "*", "a;b", "~"}) {
    CHECK(*RunForOutput({"bash", "-c", "printf %s " + ShellQuoted(word)}) == word);
  }
  CHECK(ShellQuoted("--data=/a/b.txt,c") == "--data=/a/b.txt,c");
}

}  // namespace
}  // namespace oneflow
