#include "tools/oneflow/cli/interrupt.h"

#include <catch2/catch.hpp>
#include <csignal>

namespace oneflow {
namespace {

TEST_CASE("a signal is reported at least once, however soon the run is over") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(signal, SIG_DFL);
    int reports = 0;
    {
      const Interrupt interrupt([&] { ++reports; });
      raise(signal);
    }
    CHECK(reports >= 1);
  }
}

TEST_CASE("without a signal nothing is reported; one that was ignored before stays ignored") {
  std::signal(SIGHUP, SIG_IGN);  // as nohup does
  int reports = 0;
  {
    const Interrupt interrupt([&] { ++reports; });
    raise(SIGHUP);
  }
  CHECK(reports == 0);
  CHECK(std::signal(SIGHUP, SIG_DFL) == SIG_IGN);
}

}  // namespace
}  // namespace oneflow
