// This file is compiled without ThreadSanitizer (BUILD.bazel), which would take the fibers' use of
// one object for a race.
#include "actor_runtime/cuda/emulated/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include "glog/logging.h"

#ifndef __x86_64__
#error "the switch of fibers is written for x86-64"
#endif

// ThreadSanitizer's macro is not set here, so its functions are found when the program is linked.
extern "C" {
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);
__attribute__((weak)) void __tsan_acquire(void* address);
__attribute__((weak)) void __tsan_release(void* address);
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** save, const void* bottom,
                                                          size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* save, const void** bottom,
                                                           size_t* size);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* begin, size_t size);

// Saves the registers that a function must keep on the running stack, its top in *save, and takes
// up the stack with top `to`.
void oneflow_emulated_switch(void** save, void* to);
}

asm(R"(
.text
.type oneflow_emulated_switch, @function
oneflow_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size oneflow_emulated_switch, .-oneflow_emulated_switch
)");

namespace oneflow::emulated {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 64 * kPage;
constexpr size_t kStride = kStackBytes + kPage;  // with a page that no stack may touch

// The fibers that run now, because Begin has no arguments.
Fibers* beginning = nullptr;

}  // namespace

struct Fibers::Fiber {
  void* top = nullptr;
  void* tsan = nullptr;
  void* fake_stack = nullptr;  // AddressSanitizer's
  const void* bottom = nullptr;
  size_t size = 0;
  bool left = false;  // in the middle of its entry
};

Fibers::Fibers(int count, void (*entry)(int))
    : entry_(entry),
      count_(count),
      fibers_(std::make_unique<Fiber[]>(count + 1)),
      caller_(&fibers_[count]) {
  void* memory = mmap(nullptr, count * kStride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PCHECK(memory != MAP_FAILED) << "stacks of " << count << " fibers";
  stacks_ = static_cast<std::byte*>(memory);
  for (int i = 0; i < count; ++i) {
    PCHECK(mprotect(stacks_ + i * kStride, kPage, PROT_NONE) == 0);
    fibers_[i].bottom = StackBase(i);
    fibers_[i].size = kStackBytes;
    if (__tsan_create_fiber) fibers_[i].tsan = __tsan_create_fiber(0);
  }
}

Fibers::~Fibers() {
  for (int i = 0; i < count_; ++i) {
    if (__tsan_destroy_fiber) __tsan_destroy_fiber(fibers_[i].tsan);
  }
  munmap(stacks_, count_ * kStride);
}

std::byte* Fibers::StackBase(int i) const { return stacks_ + i * kStride + kPage; }

void Fibers::Start(int i) {
  Fiber& fiber = fibers_[i];
  if (__asan_unpoison_memory_region) {
    // Begin does not return, so its frame stays guarded; so do all frames of a fiber that was left.
    const size_t bytes = fiber.left ? kStackBytes : kPage / 2;
    __asan_unpoison_memory_region(StackBase(i) + kStackBytes - bytes, bytes);
  }
  fiber.left = true;
  fiber.fake_stack = nullptr;
  auto* top = reinterpret_cast<void**>(StackBase(i) + kStackBytes);
  *--top = nullptr;  // the return address of Begin, which has no caller
  *--top = reinterpret_cast<void*>(&Begin);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  fiber.top = top;
}

void Fibers::Resume(int i) {
  Fiber& fiber = fibers_[i];
  running_ = i;
  beginning = this;
  if (__tsan_switch_to_fiber) {
    caller_->tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber.tsan, 1);
  }
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(&caller_->fake_stack, fiber.bottom, fiber.size);
  }
  oneflow_emulated_switch(&caller_->top, fiber.top);
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(caller_->fake_stack, nullptr, nullptr);
  }
}

void Fibers::Yield() {
  Fiber& fiber = fibers_[running_];
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(caller_->tsan, 1);
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(&fiber.fake_stack, caller_->bottom, caller_->size);
  }
  oneflow_emulated_switch(&fiber.top, caller_->top);
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(fiber.fake_stack, nullptr, nullptr);
  }
}

void Fibers::Begin() {
  Fibers* self = beginning;
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(nullptr, &self->caller_->bottom, &self->caller_->size);
  }
  self->entry_(self->running_);
  self->fibers_[self->running_].left = false;
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(self->caller_->tsan, 1);
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(nullptr, self->caller_->bottom, self->caller_->size);
  }
  oneflow_emulated_switch(&self->fibers_[self->running_].top, self->caller_->top);
  LOG(FATAL) << "a fiber was resumed after its end";
}

void Acquire(void* object) {
  if (__tsan_acquire) __tsan_acquire(object);
}
void Release(void* object) {
  if (__tsan_release) __tsan_release(object);
}

}  // namespace oneflow::emulated
