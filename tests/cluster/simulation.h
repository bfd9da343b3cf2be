// Simulation: virtual time, drawn choices and threads of control that take turns, for a cluster
// that lives in one thread. All that happens is an event at a moment; events of one moment happen
// in the order in which they were asked for. So a run is a function of its seed.
//
//   Simulation simulation(seed);
//   ControlThread thread(simulation, [&] { ... thread.Pause(5 * kMillisecond); ... });
//   while (!done && simulation.RunNext()) { }
//   if (!simulation.violation().empty()) FAIL(simulation.Explain());
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "training/job/job.h"

namespace oneflow::cluster {

inline constexpr JobTime kMicrosecond = 1'000, kMillisecond = 1'000'000;

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : seed_(seed), random_(seed) {}
  Simulation(const Simulation&) = delete;

  uint64_t seed() const { return seed_; }
  JobTime now() const { return now_; }
  void After(JobTime delay, std::function<void()> event);
  // The next event; whether there was one.
  bool RunNext();

  // Drawn numbers: below n, once in n times, from a to before b.
  uint64_t Below(uint64_t n) { return random_() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  JobTime Between(JobTime a, JobTime b) {
    return a + static_cast<JobTime>(Below(static_cast<uint64_t>(b - a)));
  }

  // Something worth telling, should the run fail.
  void Note(std::string what);
  // Something happened that must not. The first one counts.
  void Violate(const std::string& what);
  const std::string& violation() const { return violation_; }
  // The seed, the violation and the last notes.
  std::string Explain() const;

 private:
  struct Event {
    JobTime at;
    uint64_t order;
    std::function<void()> happen;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  JobTime now_ = 0;
  uint64_t events_ = 0;
  std::vector<Event> queue_;  // a heap
  std::deque<std::string> notes_;
  std::string violation_;
};

// A thread of control: a process's main thread, on its own stack. It runs when it is resumed by an
// event and until it pauses or waits.
class ControlThread {
 public:
  // `schedule`: asks for an event of the owner's, after a delay, that may be held back or dropped.
  using Schedule = std::function<void(JobTime delay, std::function<void()> event)>;
  ControlThread(Schedule schedule, std::function<void()> body);
  // Requires that it is over, or has not begun.
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;

  void Start(JobTime delay);
  bool over() const { return over_; }
  // By others: it looks again at what it waits for.
  void Wake();
  // By others: nothing holds it any more. It runs to its end at once, without pauses; what it waits
  // for must be true, or become true by what it does itself. Returns whether it has ended.
  bool Finish();

  // By itself.
  void Pause(JobTime delay);
  void WaitFor(const std::function<bool()>& is_true);

  // The one that runs now, on this thread of the system; null: none.
  static ControlThread* Current();

 private:
  static void Enter(int fiber);
  void Resume();
  void Yield();

  const Schedule schedule_;
  const std::function<void()> body_;
  int fiber_;
  bool begun_ = false, over_ = false, waiting_ = false, scheduled_ = false, finishing_ = false;
};

}  // namespace oneflow::cluster
