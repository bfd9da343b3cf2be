// Fibers: stacks to switch between on one thread of the host. The sanitizers are notified of each
// switch; ThreadSanitizer takes every fiber for a thread and a switch for no synchronisation.
#pragma once

#include <cstddef>
#include <memory>

namespace oneflow::emulated {

// Each fiber has a stack. A caller runs it, and continues when the fiber yields or ends. All calls
// between Start and the end of a fiber are from one thread.
class Fibers {
 public:
  Fibers(int count, void (*entry)(int fiber));
  ~Fibers();
  Fibers(const Fibers&) = delete;

  // Makes fiber i begin entry(i) when it is next resumed. Its earlier run is forgotten: frames that
  // it left are not destroyed.
  void Start(int i);
  // By the caller: runs fiber i until it yields or ends.
  void Resume(int i);
  // By the running fiber: back to the caller.
  void Yield();

 private:
  struct Fiber;
  static void Begin();
  std::byte* StackBase(int i) const;

  void (*entry_)(int);
  const int count_;
  std::byte* stacks_ = nullptr;
  std::unique_ptr<Fiber[]> fibers_;
  Fiber* caller_;  // the last of fibers_: stands for who resumes
  int running_ = 0;
};

// Tells ThreadSanitizer that all after Acquire(object) in one fiber comes after all before
// Release(object) in others.
void Acquire(void* object);
void Release(void* object);

}  // namespace oneflow::emulated
