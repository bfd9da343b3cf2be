#include "tools/oneflow/cli/end_in_words.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "actor_runtime/device/host_limits.h"

namespace oneflow {
namespace {

[[noreturn]] void End(const char* why) {
  std::fprintf(stderr, "oneflow: error: %s\n", why);
  std::_Exit(1);
}

// Allocates nothing.
[[noreturn]] void EndWithoutMemory() {
  std::set_new_handler(nullptr);
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    End("this process gets no more memory");
  }
  char why[128];
  std::snprintf(why, sizeof(why),
                "this process gets no more memory: `ulimit -v` allows %llu bytes; give it more",
                static_cast<unsigned long long>(limit.rlim_cur));
  End(why);
}

std::terminate_handler before = nullptr;

// An exception that nobody catches: only the library throws any.
[[noreturn]] void EndWithException() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      End(("a thread cannot be started: " + DescribeThreadLimit() + "; give it more").c_str());
    }
  } catch (const std::bad_alloc&) {
    End("this process gets no more memory");
  } catch (...) {
  }
  before();
  std::abort();
}

}  // namespace

void EndInWords() {
  std::set_new_handler(EndWithoutMemory);
  before = std::set_terminate(EndWithException);
  std::signal(SIGXFSZ, SIG_IGN);  // a write fails, and says so
}

}  // namespace oneflow
