#include "tools/oneflow/job/command.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

TEST_CASE("command: output, exit code, signals") {
  const auto result = RunCommand({"bash", "-c", "echo out; echo err >&2; cat; exit 7"});
  REQUIRE(result.ok());
  CHECK(result->code == 7);
  CHECK(result->out == "out\n");
  CHECK(result->err == "err\n");
  CHECK(result->exited);
  const auto killed = RunCommand({"bash", "-c", "kill -KILL $$"});
  CHECK(killed->code == 137);
  CHECK(!killed->exited);
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
  // Wherever it says it.
  CHECK(ToStd(RunForOutput({"sh", "-c", "echo oh; exit 1"}).status().message()) ==
        "`sh -c 'echo oh; exit 1'` failed with exit code 1: oh");
  CHECK(ToStd(RunForOutput({"false"}).status().message()) == "`false` failed with exit code 1");
  const absl::Status absent = RunForOutput({"oneflow-no-such-program"}).status();
  CHECK(absl::IsNotFound(absent));
  CHECK(ToStd(absent.message()).find("oneflow-no-such-program: cannot be run") == 0);
}

TEST_CASE("command: words reach a program through a shell, every byte of them") {
  CHECK(ShellQuoted("--data=/a/b.txt,c") == "--data=/a/b.txt,c");
  CHECK(ShellQuoted("it's") == "'it'\\''s'");
  std::vector<std::string> words = {"printf", "%s\\0", "", "it's", "\\", "'\\''", "$HOME `x`", "~"};
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string word(random() % 20, ' ');
    for (char& c : word) c = static_cast<char>(1 + random() % 255);
    words.push_back(word);
  }
  std::string expected;
  for (size_t i = 2; i < words.size(); ++i) expected += words[i] + std::string(1, '\0');
  CHECK(*RunForOutput({"bash", "-c", CommandText(words)}) == expected);
  CHECK(*RunForOutput({"sh", "-c", CommandText(words)}) == expected);
}

}  // namespace
}  // namespace oneflow
