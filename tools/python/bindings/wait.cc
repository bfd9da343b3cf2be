#include "tools/python/bindings/wait.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tools/python/bindings/without_gil.h"

namespace oneflow {
namespace {

namespace py = pybind11;

// How long Ctrl-C may go unseen.
constexpr std::chrono::milliseconds kLook{50};

struct Sentence {
  bool progress = false;
  std::string text;
};

// What the work has said and nobody has heard yet.
struct Said {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Sentence> sentences;
  bool done = false;
};

void Hear(const std::vector<Sentence>& sentences, const Listeners& listeners) {
  for (const Sentence& sentence : sentences) {
    const py::object& listener = sentence.progress ? listeners.progress : listeners.notice;
    if (!listener.is_none()) listener(ToText(sentence.text));
  }
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace

py::object ToText(const std::string& text) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void WaitFor(const std::function<void(const Caller& caller)>& work, const Listeners& listeners,
             std::string* printed) {
  Said said;
  std::atomic<bool> stopped{false};
  const auto say = [&](bool progress, const std::string& text) {
    const std::lock_guard lock(said.mutex);
    said.sentences.push_back({progress, text});
    said.changed.notify_one();
  };
  const Caller caller{.print =
                          [&](const std::string& text) {
                            const std::lock_guard lock(said.mutex);
                            printed->append(text);
                          },
                      .notice = [&](const std::string& sentence) { say(false, sentence); },
                      .progress = [&](const std::string& sentence) { say(true, sentence); },
                      .stopped = [&] { return stopped.load(); }};
  std::thread worker([&] {
    work(caller);
    const std::lock_guard lock(said.mutex);
    said.done = true;
    said.changed.notify_one();
  });
  std::exception_ptr thrown;
  for (bool done = false; !done;) {
    std::vector<Sentence> heard;
    {
      const WithoutGil without;
      std::unique_lock lock(said.mutex);
      said.changed.wait_for(lock, kLook, [&] { return said.done || !said.sentences.empty(); });
      if (ProcessExits()) {
        stopped = true;
        said.changed.wait(lock, [&] { return said.done; });
      }
      heard.swap(said.sentences);
      done = said.done;
    }
    try {
      if (!thrown) Hear(heard, listeners);
    } catch (...) {
      thrown = std::current_exception();
      stopped = true;
    }
  }
  worker.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace oneflow
