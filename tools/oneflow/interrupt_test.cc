#include "tools/oneflow/interrupt.h"

#include <catch2/catch.hpp>
#include <csignal>

namespace oneflow {
namespace {

TEST_CASE("a signal is seen at once, and told at least once, however soon all is over") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(signal, SIG_DFL);
    int told = 0;
    {
      const Interrupt interrupt([&] { ++told; });
      CHECK_FALSE(interrupt.signalled());
      raise(signal);
      CHECK(interrupt.signalled());
    }
    CHECK(told >= 1);
  }
}

TEST_CASE("without a signal nothing is told; one that was ignored before stays ignored") {
  std::signal(SIGHUP, SIG_IGN);  // as nohup does
  int told = 0;
  {
    const Interrupt interrupt([&] { ++told; });
    raise(SIGHUP);
    CHECK_FALSE(interrupt.signalled());
  }
  CHECK(told == 0);
  CHECK(std::signal(SIGHUP, SIG_DFL) == SIG_IGN);
}

}  // namespace
}  // namespace oneflow
