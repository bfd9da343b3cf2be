#include "planning/measure/kernel_time.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <latch>
#include <limits>
#include <span>
#include <thread>

#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/run_context.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/bf16.h"
#include "planning/measure/repeat.h"

namespace oneflow {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};
using Buffer = std::vector<Line>;

template <typename T>
void Fill(T value, Buffer* buffer) {
  T* data = reinterpret_cast<T*>(buffer->data());
  std::fill(data, data + buffer->size() * sizeof(Line) / sizeof(T), value);
}

// For which this thread has run.
double SecondsOfThread() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Slots, as a plan would give them, with something finite in them.
Buffer AllocateBuffer(const Port& port) {
  const size_t bytes = static_cast<size_t>(port.slice.elements()) * ElementBytes(port.dtype);
  Buffer buffer(bytes / sizeof(Line) + 1);
  if (port.dtype == DType::kF32) Fill(0.25f, &buffer);
  if (port.dtype == DType::kF64) Fill(0.25, &buffer);
  if (port.dtype == DType::kBF16) Fill(ToBf16(0.25f), &buffer);
  return buffer;
}

// One actor's kernel with all that a call needs. Not moved once made: the call points into it.
class Bench {
 public:
  Bench(const TimedKernel& kernel, int threads) : timed_(kernel), pool_(threads) {
    for (const std::vector<Port>& sources : setup_.in) in_.push_back(AllocateBuffer(sources[0]));
    for (const Port& port : setup_.out) out_.push_back(AllocateBuffer(port));
    workspace_.resize(static_cast<size_t>(setup_.workspace_bytes) / sizeof(Line) + 1);
    run_.optimizer = [](int64_t step) { return StepNumbers{1e-4, 0.9, 0.95, 1e-8, 0.1, 1, step}; };
    MakeCall();
  }

  absl::StatusOr<KernelTime> Time(double budget) {
    ASSIGN_OR_RETURN(const Kernel kernel, MakeKernel(setup_));
    KernelTime time;
    time.of_thread = std::numeric_limits<double>::infinity();
    const auto call = [&] {
      const double start = SecondsOfThread();
      absl::Status status = kernel(call_);
      time.of_thread = std::min(time.of_thread, SecondsOfThread() - start);
      return status;
    };
    ASSIGN_OR_RETURN(const std::vector<double> seconds, Repeat(budget, call));
    time.seconds = Median(seconds);
    time.flops = timed_.flops;
    time.bytes = timed_.bytes;
    return time;
  }

  // Calls it until `done`, and says so after the first call.
  absl::Status CallUntil(const std::atomic<bool>& done, std::latch* called) {
    const absl::StatusOr<Kernel> kernel = MakeKernel(setup_);
    if (kernel.ok()) (*kernel)(call_).IgnoreError();
    called->count_down();
    while (kernel.ok() && !done.load()) RETURN_IF_ERROR((*kernel)(call_));
    return kernel.status();
  }

 private:
  void MakeCall() {
    for (const Buffer& buffer : in_) in_bases_.push_back(buffer[0].bytes);
    for (const std::byte*& base : in_bases_) in_spans_.push_back({&base, 1});
    for (Buffer& buffer : out_) out_bases_.push_back(buffer[0].bytes);
    call_.in = in_spans_;
    call_.out = out_bases_;
    call_.workspace = {workspace_[0].bytes, static_cast<size_t>(setup_.workspace_bytes)};
    call_.pool = &pool_;
    call_.run = &run_;
  }

  const TimedKernel& timed_;
  const KernelSetup& setup_ = timed_.setup;
  ThreadPool pool_;
  RunContext run_;
  std::vector<Buffer> in_, out_;
  Buffer workspace_;
  std::vector<const std::byte*> in_bases_;
  std::vector<std::span<const std::byte* const>> in_spans_;
  std::vector<std::byte*> out_bases_;
  KernelCall call_;
};

}  // namespace

absl::StatusOr<KernelTime> TimeKernel(const TimedOp& op, int threads, double budget, int devices) {
  ASSIGN_OR_RETURN(const TimedKernel kernel, MakeTimedKernel(op, proto::CPU, threads));
  return TimeSetup(kernel, threads, budget, devices);
}

absl::StatusOr<KernelTime> TimeSetup(const TimedKernel& kernel, int threads, double budget,
                                     int devices) {
  Bench bench(kernel, threads);
  std::atomic<bool> done = false;
  std::latch called(devices - 1);
  std::vector<std::jthread> others;
  for (int d = 1; d < devices; ++d) {
    // A failure of a thread is a failure of the measurement.
    others.emplace_back([&] { Bench(kernel, threads).CallUntil(done, &called).IgnoreError(); });
  }
  called.wait();
  const absl::StatusOr<KernelTime> time = bench.Time(budget);
  done.store(true);
  return time;
}

absl::StatusOr<double> MeasureMatrixRate(int threads, DType dtype) {
  const TimedInput square = {{768, 768}, dtype};
  double best = 0;
  for (int round = 0; round < 2; ++round) {
    ASSIGN_OR_RETURN(const KernelTime time,
                     TimeKernel({"linear", {square, square}, {}}, /*threads=*/1, 0.06, threads));
    best = std::max(best, threads * time.flops / time.of_thread);
  }
  return best;
}

}  // namespace oneflow
