#include "tools/python/bindings/without_gil.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace oneflow {
namespace {

namespace py = pybind11;

struct ExitState {
  const pid_t process = getpid();  // a fork has none of the threads
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;  // threads in a WithoutGil
  bool begun = false;
  std::thread::id exiting;  // the thread that exits
};

// Never destroyed: threads stay in it.
ExitState& TheExit() {
  static ExitState* const state = new ExitState;
  return *state;
}

void Leave(ExitState* exit) {
  --exit->inside;
  exit->changed.notify_all();
}

void WaitForDaemons() {
  ExitState& exit = TheExit();
  if (getpid() != exit.process) return;
  for (bool over = false; !over;) {
    {
      const py::gil_scoped_release release;
      std::unique_lock lock(exit.mutex);
      exit.begun = true;
      exit.exiting = std::this_thread::get_id();
      over = exit.changed.wait_for(lock, std::chrono::milliseconds(50),
                                   [&] { return exit.inside == 0; });
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

}  // namespace

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {
  ExitState& exit = TheExit();
  const std::lock_guard lock(exit.mutex);
  ++exit.inside;
}

WithoutGil::~WithoutGil() {
  ExitState& exit = TheExit();
  {
    std::unique_lock lock(exit.mutex);
    if (exit.begun && exit.exiting != std::this_thread::get_id()) {
      Leave(&exit);
      while (true) exit.changed.wait(lock);
    }
  }
  PyEval_RestoreThread(state_);
  const std::lock_guard lock(exit.mutex);
  Leave(&exit);
}

bool ProcessExits() {
  ExitState& exit = TheExit();
  const std::lock_guard lock(exit.mutex);
  return exit.begun && exit.exiting != std::this_thread::get_id();
}

void WaitAtExit() {
  TheExit();
  py::module_::import("atexit").attr("register")(py::cpp_function(&WaitForDaemons));
}

}  // namespace oneflow
