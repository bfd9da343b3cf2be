// Waits for work on another thread as Python expects it: other Python threads go on, what the work
// says reaches Python's functions as it comes, and Ctrl-C is seen.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <string>

#include "tools/oneflow/cli/caller.h"

namespace oneflow {

// Python's functions of one sentence; None: nobody listens.
struct Listeners {
  pybind11::object notice = pybind11::none(), progress = pybind11::none();
};

// A text of a user may hold bytes that are no UTF-8: they become U+FFFD.
pybind11::object ToText(const std::string& text);

// Runs `work` on another thread, and calls the listeners on this one, which holds the GIL. What is
// printed is added to `printed`. After an exception of a listener, or a signal's such as
// KeyboardInterrupt, the work is asked to stop; it is waited for, and the exception is thrown.
void WaitFor(const std::function<void(const Caller& caller)>& work, const Listeners& listeners,
             std::string* printed);

}  // namespace oneflow
