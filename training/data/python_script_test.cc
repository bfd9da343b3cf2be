#include "training/data/python_script.h"

#include <dirent.h>
#include <sys/wait.h>
#include <catch2/catch.hpp>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Seconds: none that ends takes as long; and for those that never end.
constexpr double kPatience = 600, kLittle = 0.2;

absl::StatusOr<PythonScript> StartScript(std::string_view source,
                                         std::vector<std::string> arguments = {},
                                         double patience = kPatience) {
  return PythonScript::Start({.source = source,
                              .arguments = std::move(arguments),
                              .purpose = "reading a.parquet",
                              .modules = {{"absent_module", "apt-get install absent"}},
                              .patience = patience});
}

absl::StatusOr<std::vector<std::string>> ReadLines(PythonScript& script) {
  std::vector<std::string> lines;
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<std::string_view> line, script.ReadLine());
    if (!line) return lines;
    lines.emplace_back(*line);
  }
}

// How a script ends, whose output is dropped.
absl::Status ReadToEnd(std::string_view source, double patience = kPatience) {
  auto script = StartScript(source, {}, patience);
  REQUIRE(script.ok());
  return script->Finish();
}

int CountOpenFiles() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Counts the descriptors that a test leaves open, and looks for children.
class LeavesNothing {
 public:
  ~LeavesNothing() {
    CHECK(CountOpenFiles() == before_);
    CHECK((waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));
  }

 private:
  const int before_ = CountOpenFiles();
};

}  // namespace

TEST_CASE("lines of a script, with its arguments; the last may lack its line feed") {
  const LeavesNothing nothing;
  auto script = StartScript("import sys\nfor word in sys.argv[1:]: print(word)\nprint('', end='x')",
                            {"größer", "", "a\nb"});
  REQUIRE(script.ok());
  CHECK(ReadLines(*script).value() == std::vector<std::string>{"größer", "", "a", "b", "x"});
  CHECK(script->ReadLine().value() == std::nullopt);
  CHECK(script->Finish().ok());
}

TEST_CASE("bytes of a script, of more than any pipe holds") {
  const LeavesNothing nothing;
  auto script =
      StartScript("import sys\nfor i in range(300): sys.stdout.buffer.write(b'\\0\\n' * 5000)");
  REQUIRE(script.ok());
  std::string all;
  std::vector<char> block(100000);
  for (;;) {
    const size_t n = script->Read(block).value();
    if (n == 0) break;
    all.append(block.data(), n);
  }
  CHECK(all.size() == 3000000);
  CHECK(all.substr(2999998) == std::string("\0\n", 2));
}

TEST_CASE("a script answers lines with lines, of any length") {
  const LeavesNothing nothing;
  auto script = StartScript(
      "import sys\nfor line in sys.stdin:\n"
      "  sys.stderr.write('e' * 100000)\n"
      "  sys.stdout.write(line[::-1].strip() + '\\n'); sys.stdout.flush()");
  REQUIRE(script.ok());
  for (const size_t size : {1, 10, 3000000}) {
    const std::string request(size, 'a');
    CHECK(script->Ask(request + "b").value() == "b" + request);
  }
  CHECK(script->Finish().ok());
  CHECK(script->Finish().ok());
}

TEST_CASE("input and output of more than the pipes hold, written before any is read") {
  const LeavesNothing nothing;
  auto script = StartScript("import sys\nfor line in sys.stdin: print(line * 3, end='')");
  REQUIRE(script.ok());
  const std::string line = std::string(999, 'y') + "\n";
  for (int i = 0; i < 2000; ++i) REQUIRE(script->Write(line).ok());
  script->CloseInput();
  CHECK(ReadLines(*script)->size() == 6000);
}

TEST_CASE("a script that exits with 2 tells the user's mistake in its own words") {
  const LeavesNothing nothing;
  auto script = StartScript(
      "import sys\nprint('one', flush=True)\nsys.stderr.write('a.parquet: no column text; use "
      "--key\\n')\n"
      "sys.exit(2)");
  REQUIRE(script.ok());
  CHECK(script->ReadLine().value() == "one");
  const absl::Status status = script->ReadLine().status();
  CHECK(status == absl::InvalidArgumentError("a.parquet: no column text; use --key"));
  CHECK(ExitCode(status) == 2);
  CHECK(script->Finish() == status);
}

TEST_CASE("what is missing is named, with how to install it") {
  const LeavesNothing nothing;
  const auto message = [](const absl::Status& status) {
    CHECK(ExitCode(status) == 2);
    return std::string(status.message());
  };
  CHECK(message(ReadToEnd("import absent_module")) ==
        "reading a.parquet: needs the module absent_module, which python3 does not have; "
        "install it: apt-get install absent");
  CHECK(message(ReadToEnd("import other_module.part")) ==
        "reading a.parquet: needs the module other_module, which python3 does not have; "
        "install it: python3 -m venv ~/other_module && ~/other_module/bin/pip install other_module "
        "&& export PATH=~/other_module/bin:$PATH");
  const auto none = PythonScript::Start(
      {.source = "", .purpose = "reading a.parquet", .python = "python_that_is_absent"});
  CHECK(message(none.status()) ==
        "reading a.parquet: needs python_that_is_absent, which is not on PATH; "
        "install it: apt-get install python3");
}

TEST_CASE("a script that fails is an error with the last of what it said") {
  const LeavesNothing nothing;
  const auto message = [](const absl::Status& status) {
    CHECK(ExitCode(status) == 1);
    return std::string(status.message());
  };
  CHECK_THAT(message(ReadToEnd("raise ValueError('odd')")),
             Catch::StartsWith("reading a.parquet: python3 failed with exit code 1: Traceback") &&
                 Catch::EndsWith("ValueError: odd"));
  CHECK(message(ReadToEnd("import sys; sys.exit(2)")) ==
        "reading a.parquet: python3 failed with exit code 2");
  CHECK_THAT(
      message(ReadToEnd("import os; os.kill(os.getpid(), 9)")),
      Catch::Contains("ended by signal 9 (Killed), as the system does when memory runs out"));
  const std::string much = message(ReadToEnd(
      "import sys\nfor i in range(100000): sys.stderr.write('line %d\\n' % i)\nsys.exit(3)"));
  CHECK(much.size() < 5000);
  CHECK_THAT(much, Catch::EndsWith("line 99999"));
}

TEST_CASE("a script that dies while it is asked is an error, and no signal") {
  const LeavesNothing nothing;
  auto script = StartScript("import sys\nsys.stdin.readline()\nprint('half', end='')\nsys.exit(5)");
  REQUIRE(script.ok());
  CHECK_THAT(std::string(script->Ask("one").status().message()),
             Catch::EndsWith("python3 failed with exit code 5"));
  CHECK_FALSE(script->Ask("two").ok());
  auto silent = StartScript("import sys\nsys.stdin.close()");
  REQUIRE(silent.ok());
  absl::Status status;
  while (status.ok()) status = silent->Write(std::string(100000, 'x'));
  CHECK(status.message() == "reading a.parquet: python3 ended before its input did");
  auto early = StartScript("import sys\nsys.stdin.readline()");
  REQUIRE(early.ok());
  CHECK(early->Ask("one").status().message() ==
        "reading a.parquet: python3 ended without an answer");
}

TEST_CASE(
    "a script that does not end is killed: by Finish after a while, by the destructor at once") {
  const LeavesNothing nothing;
  constexpr char kHangs[] =
      "import signal, sys\nsys.stderr.write('waiting')\nsys.stderr.flush()\n"
      "print('up', flush=True)\nsignal.pause()";
  auto script = StartScript(kHangs, {}, kLittle);
  REQUIRE(script.ok());
  CHECK(script->ReadLine().value() == "up");
  CHECK(script->Finish().message() ==
        "reading a.parquet: python3 did not end within 0.2 s of the end of its input, and was "
        "killed: waiting");
  // One that closes its output, too.
  CHECK_THAT(
      std::string(ReadToEnd("import os, signal\nos.close(1)\nos.close(2)\nsignal.pause()", kLittle)
                      .message()),
      Catch::Contains("did not end within"));
  auto dropped = StartScript(kHangs);
  REQUIRE(dropped.ok());
  CHECK(dropped->ReadLine().value() == "up");
}

TEST_CASE("a process that the script leaves behind is not waited for") {
  const LeavesNothing nothing;
  auto script = StartScript(
      "import os, signal, sys\nprint('all', flush=True)\nif os.fork() == 0:\n"
      "  signal.alarm(20); signal.pause()");
  REQUIRE(script.ok());
  CHECK(ReadLines(*script).value() == std::vector<std::string>{"all"});
}

TEST_CASE("the environment is small, and the user's modules are not seen") {
  const LeavesNothing nothing;
  setenv("PYTHONPATH", "/odd", 1);
  setenv("SECRET", "odd", 1);
  auto script = StartScript(
      "import os, sys\nprint('SECRET' in os.environ, '/odd' in sys.path, "
      "'' in sys.path, sys.stdout.encoding)");
  unsetenv("PYTHONPATH");
  unsetenv("SECRET");
  REQUIRE(script.ok());
  CHECK(script->ReadLine().value() == "False False False utf-8");
}

TEST_CASE("threads run scripts at once") {
  const LeavesNothing nothing;
  std::vector<std::string> found(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&found, i] {
      auto script =
          StartScript("import sys\nfor line in sys.stdin: print(line, end='', flush=True)");
      if (script.ok()) found[i] = script->Ask(std::to_string(i)).value_or("none");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == std::to_string(i));
}

}  // namespace oneflow
