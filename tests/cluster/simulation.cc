#include "tests/cluster/simulation.h"

#include <algorithm>
#include <array>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor_runtime/cuda/emulated/fiber.h"

namespace oneflow::cluster {
namespace {

constexpr size_t kNotes = 60;
constexpr int kMostThreads = 64;
// Turns of a thread that finishes; one that needs more never ends.
constexpr int kMostTurns = 1'000'000;

// The stacks, which all simulations use in turn: there is one thread of the host.
struct Stacks {
  explicit Stacks(void (*entry)(int)) : fibers(kMostThreads, entry) {}
  emulated::Fibers fibers;
  std::array<ControlThread*, kMostThreads> threads = {};
  ControlThread* current = nullptr;
};
thread_local Stacks* stacks = nullptr;

}  // namespace

void Simulation::After(JobTime delay, std::function<void()> event) {
  CHECK_GE(delay, 0);
  queue_.push_back({now_ + delay, events_++, std::move(event)});
  std::push_heap(queue_.begin(), queue_.end(), Later);
}

bool Simulation::RunNext() {
  if (queue_.empty()) return false;
  std::pop_heap(queue_.begin(), queue_.end(), Later);
  const Event event = std::move(queue_.back());
  queue_.pop_back();
  now_ = event.at;
  event.happen();
  return true;
}

void Simulation::Note(std::string what) {
  notes_.push_back(
      absl::StrFormat("%10.3f ms  %s", static_cast<double>(now_) / kMillisecond, what));
  if (notes_.size() > kNotes) notes_.pop_front();
}

void Simulation::Violate(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = what;
  Note("violation: " + what);
}

std::string Simulation::Explain() const {
  std::string text = absl::StrCat("seed ", seed_, ": ", violation_, "\nthe last events:");
  for (const std::string& note : notes_) absl::StrAppend(&text, "\n", note);
  return text;
}

ControlThread::ControlThread(Schedule schedule, std::function<void()> body)
    : schedule_(std::move(schedule)), body_(std::move(body)) {
  if (stacks == nullptr) stacks = new Stacks(&ControlThread::Enter);
  const auto free = std::find(stacks->threads.begin(), stacks->threads.end(), nullptr);
  CHECK(free != stacks->threads.end()) << "too many threads of control";
  *free = this;
  fiber_ = static_cast<int>(free - stacks->threads.begin());
}

ControlThread::~ControlThread() {
  CHECK(over_ || !begun_) << "a thread of control is destroyed in its middle";
  stacks->threads[fiber_] = nullptr;
}

ControlThread* ControlThread::Current() { return stacks == nullptr ? nullptr : stacks->current; }

void ControlThread::Enter(int fiber) {
  ControlThread* const thread = stacks->threads[fiber];
  emulated::Acquire(stacks);
  thread->body_();
  thread->over_ = true;
  emulated::Release(stacks);
}

void ControlThread::Start(JobTime delay) {
  begun_ = true;
  stacks->fibers.Start(fiber_);
  scheduled_ = true;
  schedule_(delay, [this] { Resume(); });
}

void ControlThread::Resume() {
  if (over_) return;
  scheduled_ = false;
  ControlThread* const before = std::exchange(stacks->current, this);
  CHECK(before == nullptr) << "threads of control do not resume each other";
  emulated::Release(stacks);
  stacks->fibers.Resume(fiber_);
  emulated::Acquire(stacks);
  stacks->current = nullptr;
}

void ControlThread::Yield() {
  emulated::Release(stacks);
  stacks->fibers.Yield();
  emulated::Acquire(stacks);
}

void ControlThread::Wake() {
  if (!waiting_ || scheduled_ || over_) return;
  scheduled_ = true;
  schedule_(0, [this] { Resume(); });
}

void ControlThread::Pause(JobTime delay) {
  CHECK(Current() == this);
  if (finishing_) return;
  scheduled_ = true;
  schedule_(delay, [this] { Resume(); });
  Yield();
}

void ControlThread::WaitFor(const std::function<bool()>& is_true) {
  CHECK(Current() == this);
  while (!is_true()) {
    waiting_ = true;
    Yield();
    waiting_ = false;
  }
}

bool ControlThread::Finish() {
  finishing_ = true;
  if (!begun_) over_ = true;
  for (int turn = 0; turn < kMostTurns && !over_; ++turn) Resume();
  return over_;
}

}  // namespace oneflow::cluster
