// This file is compiled without ThreadSanitizer: the fibers share the state of their block by
// running one at a time, which it cannot know.
#include "actor_runtime/cuda/emulated/grid.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/emulated/fiber.h"
#include "glog/logging.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* begin, size_t size);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* begin, size_t size);
}

// The linker's, if any __shared__ array is in the section.
extern "C" __attribute__((weak)) std::byte __start_emulated_gpu_shared[];
extern "C" __attribute__((weak)) std::byte __stop_emulated_gpu_shared[];

namespace oneflow::emulated {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kWarps = kMostThreads / kLanes;

enum class State : uint8_t { kReady, kAtWarp, kAtBlock, kEnded };

struct Warp {
  const char* what;  // the function its lanes meet in
  size_t bytes;
  int arrived;
  unsigned generation;
  // Two, so that a lane that goes on to the next function leaves what a slower one still reads.
  alignas(16) std::byte values[2][kLanes * kMostLaneBytes];
  char barriers[2];  // for Acquire and Release
};

// The block that runs. One at a time: shared memory has one copy.
struct Block {
  const char* name;
  const std::function<void()>* thread;
  int threads, arrived, ended;
  unsigned generation;
  std::string error;
  int running;
  State states[kMostThreads];
  uint3 indices[kMostThreads];  // of the threads
  Warp warps[kWarps];
  char begin, end, barriers[2];  // for Acquire and Release
  alignas(128) std::byte shared[kMostSharedBytes];
  int warp_order[kWarps];
  int lane_order[kWarps][kLanes];
};

Block block;

void EnterThread(int i);

Fibers& TheFibers() {
  static Fibers fibers(kMostThreads, EnterThread);
  return fibers;
}

std::string IndexText(const uint3& at) {
  return absl::StrCat("(", at.x, ",", at.y, ",", at.z, ")");
}

// The i-th index in a grid or block of that size.
uint3 IndexIn(const dim3& size, unsigned i) {
  return {i % size.x, i / size.x % size.y, i / size.x / size.y};
}

void EnterThread(int i) {
  Acquire(&block.begin);
  (*block.thread)();
  block.states[i] = State::kEnded;
  ++block.ended;
  Release(&block.end);
}

void WaitAs(State state) {
  block.states[block.running] = state;
  TheFibers().Yield();
}

// Notes what is wrong with the running thread.
template <typename... A>
void Report(const A&... what) {
  if (!block.error.empty()) return;
  block.error = absl::StrCat(block.name, ": thread ", IndexText(threadIdx), " of block ",
                             IndexText(blockIdx), ": ", what...);
}

// Ends the grid: the thread is not resumed. Its frames must not own anything.
void Leave() {
  Release(&block.end);
  for (;;) WaitAs(State::kAtBlock);
}

// Waits for the other lanes of the warp in function `what`.
void MeetWarp(const char* what, size_t bytes, unsigned mask) {
  Warp& warp = block.warps[block.running / kLanes];
  if (mask != 0xffffffffu) {
    Report(what, " with a mask that is not full");
    Leave();
  }
  if (warp.arrived == 0) {
    warp.what = what;
    warp.bytes = bytes;
  } else if ((warp.what != what && std::strcmp(warp.what, what) != 0) || warp.bytes != bytes) {
    Report("is in ", what, " of ", bytes, " bytes, another lane of its warp in ", warp.what, " of ",
           warp.bytes, " bytes");
    Leave();
  }
  if (++warp.arrived < kLanes) return WaitAs(State::kAtWarp);
  warp.arrived = 0;
  ++warp.generation;
  std::fill_n(block.states + block.running / kLanes * kLanes, kLanes, State::kReady);
}

// Barriers that tests watch or remove. Most kernels run without: one check a barrier.
struct BarrierWatch {
  bool any = false;
  bool notes = false;
  std::set<Barrier> noted;
  std::optional<Barrier> removed;
};

BarrierWatch& TheWatch() {
  static BarrierWatch watch;
  return watch;
}

// True if the barrier at that line is removed from the running kernel.
bool IsRemoved(const char* file, int line) {
  BarrierWatch& watch = TheWatch();
  if (!watch.any) return false;
  Barrier barrier{block.name, file, line};
  const bool removed = watch.removed == barrier;
  if (watch.notes) watch.noted.insert(std::move(barrier));
  return removed;
}

// Runs the lanes of a warp as far as they get. Returns whether any of them ran.
bool RunWarp(int warp) {
  bool any = false;
  for (bool progressed = true; progressed && block.error.empty();) {
    progressed = false;
    for (int lane : block.lane_order[warp]) {
      const int i = warp * kLanes + lane;
      if (block.states[i] != State::kReady) continue;
      block.running = i;
      threadIdx = block.indices[i];
      TheFibers().Resume(i);
      if (!block.error.empty()) return true;
      progressed = any = true;
    }
  }
  return any;
}

// Says who does not come.
std::string Stuck() {
  for (int i = 0; i < block.threads; ++i) {
    if (block.states[i] == State::kEnded) continue;
    const Warp& warp = block.warps[i / kLanes];
    return absl::StrCat(block.name, ": thread ", IndexText(block.indices[i]), " of block ",
                        IndexText(blockIdx), " waits for ever in ",
                        block.states[i] == State::kAtBlock ? "__syncthreads" : warp.what, ": ",
                        block.ended, " of ", block.threads, " threads have ended, ", block.arrived,
                        " are in __syncthreads");
  }
  return "";
}

template <typename Word>
void CopyWords(const std::byte* from, size_t words, std::byte* to) {
  using Unaligned [[gnu::may_alias, gnu::aligned(1)]] = Word;
  for (size_t i = 0; i < words; ++i) {
    reinterpret_cast<Unaligned*>(to)[i] = reinterpret_cast<const Unaligned*>(from)[i];
    asm volatile("" ::: "memory");  // The compiler would make a memcpy of the loop.
  }
}

// A std::memcpy that ThreadSanitizer does not watch.
void Copy(const void* from, size_t bytes, void* to) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  const size_t words = bytes / sizeof(uint64_t), done = words * sizeof(uint64_t);
  CopyWords<uint64_t>(source, words, target);
  CopyWords<uint8_t>(source + done, bytes - done, target + done);
}

void FillShared(size_t dynamic_bytes) {
  if (__asan_poison_memory_region) {
    __asan_unpoison_memory_region(block.shared, dynamic_bytes);
    __asan_poison_memory_region(block.shared + dynamic_bytes, kMostSharedBytes - dynamic_bytes);
  }
  // Bytes of -1 are NaN as f32, f64 and bf16.
  std::memset(block.shared, 0xff, dynamic_bytes);
  if (__start_emulated_gpu_shared != nullptr) {
    std::memset(__start_emulated_gpu_shared, 0xff,
                __stop_emulated_gpu_shared - __start_emulated_gpu_shared);
  }
}

void RunBlock(const KernelOrder& order, Draw& draw) {
  const int warps = block.threads / kLanes;
  Arrange(order.kind, draw, std::span(block.warp_order, warps));
  for (int warp = 0; warp < warps; ++warp) {
    block.warps[warp].arrived = 0;
    Arrange(order.kind, draw, block.lane_order[warp]);
  }
  for (int i = 0; i < block.threads; ++i) {
    block.states[i] = State::kReady;
    TheFibers().Start(i);
  }
  block.arrived = block.ended = 0;
  Release(&block.begin);
  for (bool progressed = true; progressed && block.error.empty();) {
    progressed = false;
    for (int w = 0; w < warps; ++w) progressed |= RunWarp(block.warp_order[w]);
  }
  Acquire(&block.end);
  if (block.error.empty()) block.error = Stuck();
}

}  // namespace

int Lane() { return block.running % kLanes; }

void* DynamicSharedMemory() { return block.shared; }

void ExchangeInWarp(const void* value, size_t bytes, int first, int count, void* results,
                    unsigned mask, const char* what) {
  Warp& warp = block.warps[block.running / kLanes];
  std::byte* values = warp.values[warp.generation % 2];
  Copy(value, bytes, values + Lane() * bytes);
  MeetWarp(what, bytes, mask);
  Copy(values + first * bytes, count * bytes, results);
}

std::string RunGrid(const char* name, const Grid& grid, const std::function<void()>& thread,
                    const KernelOrder& order) {
  Draw draw{order.seed};
  gridDim = grid.blocks;
  blockDim = grid.block;
  block.name = name;
  block.thread = &thread;
  block.threads = static_cast<int>(grid.block.x * grid.block.y * grid.block.z);
  block.error.clear();
  CHECK_LE(block.threads, kMostThreads);
  for (int i = 0; i < block.threads; ++i) block.indices[i] = IndexIn(blockDim, i);
  std::vector<int> blocks(size_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z);
  Arrange(order.kind, draw, blocks);
  for (int b : blocks) {
    blockIdx = IndexIn(gridDim, static_cast<unsigned>(b));
    FillShared(grid.shared_bytes);
    RunBlock(order, draw);
    if (!block.error.empty()) break;
  }
  return std::move(block.error);
}

void NoteBarriers() {
  TheWatch().any = TheWatch().notes = true;
  TheWatch().noted.clear();
}

std::vector<Barrier> TakeNotedBarriers() {
  BarrierWatch& watch = TheWatch();
  watch.notes = false;
  watch.any = watch.removed.has_value();
  const std::set<Barrier> noted = std::exchange(watch.noted, {});
  return {noted.begin(), noted.end()};
}

void RemoveBarrier(const Barrier* barrier) {
  BarrierWatch& watch = TheWatch();
  watch.removed = barrier == nullptr ? std::nullopt : std::optional(*barrier);
  watch.any = watch.notes || watch.removed.has_value();
}

}  // namespace oneflow::emulated

namespace emulated = oneflow::emulated;

void __syncthreads(const char* file, int line) {
  if (emulated::IsRemoved(file, line)) return;
  auto& block = emulated::block;
  char* barrier = &block.barriers[block.generation % 2];
  emulated::Release(barrier);
  if (++block.arrived < block.threads) {
    emulated::WaitAs(emulated::State::kAtBlock);
  } else {
    block.arrived = 0;
    ++block.generation;
    std::fill_n(block.states, block.threads, emulated::State::kReady);
  }
  emulated::Acquire(barrier);
}

void __syncwarp(unsigned mask, const char* file, int line) {
  if (emulated::IsRemoved(file, line)) return;
  auto& warp = emulated::block.warps[emulated::block.running / emulated::kLanes];
  char* barrier = &warp.barriers[warp.generation % 2];
  emulated::Release(barrier);
  emulated::MeetWarp("__syncwarp", 0, mask);
  emulated::Acquire(barrier);
}

unsigned __ballot_sync(unsigned mask, int predicate) {
  const unsigned char value = predicate != 0;
  unsigned char all[emulated::kLanes];
  emulated::ExchangeInWarp(&value, 1, 0, emulated::kLanes, all, mask, "__ballot_sync");
  unsigned result = 0;
  for (int lane = 0; lane < emulated::kLanes; ++lane) {
    result |= unsigned{all[lane]} << lane;
  }
  return result;
}
