// The GIL is given up while C++ works.
#pragma once

#include <pybind11/pybind11.h>

namespace oneflow {

// Gives up the GIL as long as it lives.
//
// Python ends a daemon thread where it asks for the GIL after the process has begun to exit, which
// no C++ thread survives: such a thread stays in the destructor instead.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

// True once the process exits: what a daemon thread does is to end.
bool ProcessExits();

// Lets an exit of the process wait for the daemon threads that are in a WithoutGil.
void WaitAtExit();

}  // namespace oneflow
