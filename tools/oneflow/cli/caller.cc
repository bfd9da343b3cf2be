#include "tools/oneflow/cli/caller.h"

#include <atomic>

namespace oneflow {
namespace {

// As global as the flags that a verb reads, and replaced with them.
std::atomic<const Caller*> current_caller{nullptr};

}  // namespace

const Caller* CurrentCaller() { return current_caller.load(); }

CallerScope::CallerScope(const Caller& caller) { current_caller = &caller; }
CallerScope::~CallerScope() { current_caller = nullptr; }

}  // namespace oneflow
