// main() of every test binary. Catch2's own, from the system's library, bears another name here
// (BUILD.bazel): compiling it takes ten seconds in each configuration.
//
// Besides Catch2's report on stdout it writes the XML that Bazel asks for, takes --test_filter, and
// ends with the line "N passed, M failed".
//
// It limits the CPU time of the test: what another process takes of the machine does not count.
// Bazel's limit is wall time, several times as long (.bazelrc), for tests that hang without
// computing.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct TestCase {
  std::string name;
  bool ok;
  double seconds;
};

// Filled by the listener, which Catch2 owns.
std::vector<TestCase>& FinishedTestCases() {
  static std::vector<TestCase> cases;
  return cases;
}

// Catch2 2.x takes one reporter only, and that is the console's. A listener runs beside it.
class Recorder : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    timer_.start();
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    FinishedTestCases().push_back(
        {stats.testInfo.name, stats.totals.assertions.allOk(), timer_.getElapsedSeconds()});
    TestEventListenerBase::testCaseEnded(stats);
  }

 private:
  Catch::Timer timer_;
};
CATCH_REGISTER_LISTENER(Recorder)

std::string EscapeXml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

void WriteXml(const std::string& path, const std::string& suite, size_t failed) {
  std::ofstream out(path);
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\""
      << EscapeXml(suite) << "\" tests=\"" << FinishedTestCases().size() << "\" failures=\""
      << failed << "\" errors=\"0\">\n";
  for (const TestCase& test : FinishedTestCases()) {
    out << "<testcase name=\"" << EscapeXml(test.name) << "\" status=\"run\" time=\""
        << test.seconds << "\">" << (test.ok ? "" : "<failure message=\"failed\"/>")
        << "</testcase>\n";
  }
  out << "</testsuite>\n</testsuites>\n";
}

// The value of an environment variable; empty if it is not set.
std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// .bazelrc gives a test this many times as much wall time as it may compute on each core.
constexpr long kWallOverCpu = 5;

void EndForCpuTime(int) {
  constexpr char kWhy[] = "the test has used up its CPU time: see bazel/cc.bzl on sizes of tests\n";
  if (write(STDERR_FILENO, kWhy, sizeof(kWhy) - 1) < 0) _exit(2);
  _exit(1);
}

// Without Bazel there is no limit.
void LimitCpuTime() {
  const long wall = std::atol(Environment("TEST_TIMEOUT").c_str());
  if (wall <= 0) return;
  const auto cores = static_cast<long>(std::max(1u, std::thread::hardware_concurrency()));
  rlimit limit = {};
  if (getrlimit(RLIMIT_CPU, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wall * cores / kWallOverCpu);
  std::signal(SIGXCPU, EndForCpuTime);
  setrlimit(RLIMIT_CPU, &limit);
}

}  // namespace

extern "C" int catch2_main(int argc, char** argv);

int main(int argc, char** argv) {
  LimitCpuTime();
  // A test that asserts nothing has failed.
  std::vector<std::string> added = {"--warn", "NoAssertions"};
  const std::string filter = Environment("TESTBRIDGE_TEST_ONLY");
  if (!filter.empty()) added.push_back(filter);
  std::vector<char*> all(argv, argv + argc);
  for (std::string& argument : added) all.push_back(argument.data());
  all.push_back(nullptr);
  const int result = catch2_main(static_cast<int>(all.size()) - 1, all.data());

  size_t failed = 0;
  for (const TestCase& test : FinishedTestCases()) failed += test.ok ? 0 : 1;
  const std::string xml = Environment("XML_OUTPUT_FILE");
  if (!xml.empty()) WriteXml(xml, argv[0], failed);
  std::printf("%zu passed, %zu failed\n", FinishedTestCases().size() - failed, failed);
  return result;
}
