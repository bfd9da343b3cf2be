// For tests: a program that links this counts every operator new of the process.
#pragma once

#include <cstdint>

namespace oneflow {

int64_t Allocations();        // so far, of all threads
int64_t ThreadAllocations();  // of the calling thread

}  // namespace oneflow
