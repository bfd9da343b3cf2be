#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/emulated/launch.h"
#include "actor_runtime/cuda/emulated/runtime_for_test.h"

extern "C" __attribute__((weak)) void __asan_init();

namespace oneflow::emulated {
namespace {

int Read(const int* at) {
  int value = 0;
  Good(cudaMemcpy(&value, at, sizeof(int), kToHost));
  return value;
}

TEST_CASE("A stream keeps the order of its work") {
  for (const Model model : kModels) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Reset(Machine(model, seed));
      int* at = OnDevice(1);
      int* host = Pinned(1);
      const cudaStream_t stream = NewStream();
      Good(Set(at, 1, stream));
      Good(Twice(at, stream));
      Good(cudaMemcpyAsync(host, at, sizeof(int), kToHost, stream));
      Good(cudaMemsetAsync(at, 0, sizeof(int), stream));
      Good(Twice(at, stream));
      Good(cudaStreamSynchronize(stream));
      CHECK(*host == 3);
      CHECK(Read(at) == 1);
      Good(cudaFree(at));
      Good(cudaFreeHost(host));
      Good(cudaStreamDestroy(stream));
      CHECK(LiveObjects() == 0);
    }
  }
}

// Two streams, the second after the first if `waits`; returns the result of the second.
int Handover(Model model, uint64_t seed, bool waits) {
  Reset(Machine(model, seed));
  int* at = OnDevice(1);
  const cudaStream_t first = NewStream(), second = NewStream();
  const cudaEvent_t event = NewEvent();
  Good(Set(at, 5, first));
  Good(cudaEventRecord(event, first));
  if (waits) Good(cudaStreamWaitEvent(second, event));
  Good(Set(at, 7, second));
  Good(cudaDeviceSynchronize());
  return Read(at);
}

TEST_CASE("Streams are free of each other but for events; a serial device has one order") {
  std::set<int> with, without, serial;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    with.insert(Handover(Model::kFree, seed, true));
    without.insert(Handover(Model::kFree, seed, false));
    serial.insert(Handover(Model::kSerial, seed, false));
  }
  CHECK(with == std::set<int>{7});
  CHECK(without == std::set<int>{5, 7});
  CHECK(serial == std::set<int>{7});
}

TEST_CASE("A seed is a schedule") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CHECK(Handover(Model::kFree, seed, false) == Handover(Model::kFree, seed, false));
  }
}

TEST_CASE("Work is late as often as early, and queries bring it on") {
  std::set<cudaError_t> first;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Reset(Machine(Model::kFree, seed));
    int* at = OnDevice(1);
    const cudaStream_t stream = NewStream();
    const cudaEvent_t event = NewEvent();
    CHECK(cudaEventQuery(event) == cudaSuccess);  // never recorded
    Good(Set(at, 1, stream));
    Good(cudaEventRecord(event, stream));
    first.insert(cudaEventQuery(event));
    while (cudaEventQuery(event) == cudaErrorNotReady) {
    }
    Good(cudaStreamQuery(stream));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  CHECK(first == std::set<cudaError_t>{cudaSuccess, cudaErrorNotReady});
}

TEST_CASE("A wait is for the latest record at the time of the call") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Reset(Machine(Model::kFree, seed));
    int* at = OnDevice(2);
    const cudaStream_t first = NewStream(), second = NewStream(), third = NewStream();
    const cudaEvent_t event = NewEvent();
    Good(cudaStreamWaitEvent(second, event));  // never recorded: no wait
    Good(cudaStreamSynchronize(second));
    Good(Set(at, 1, first));
    Good(cudaEventRecord(event, first));
    Good(cudaStreamWaitEvent(second, event));
    Good(cudaEventRecord(event, third));  // records nothing; the wait above is for the record above
    Good(Twice(at, second));
    Good(cudaEventDestroy(event));  // pending waits stay
    Good(cudaStreamSynchronize(second));
    CHECK(Read(at) == 3);
  }
}

TEST_CASE("The default stream waits for blocking streams and they for it") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Reset(Machine(Model::kFree, seed));
    int* at = OnDevice(1);
    cudaStream_t blocking;
    Good(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault));
    Good(Set(at, 1, blocking));
    Good(Twice(at, nullptr));
    Good(Twice(at, blocking));
    CHECK(Read(at) == 7);
  }
}

TEST_CASE("Pinned memory is read when the copy runs, pageable memory at the call") {
  std::set<int> seen;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Reset(Machine(Model::kFree, seed));
    int* at = OnDevice(2);
    int* pinned = Pinned(1);
    std::vector<int> pageable = {3};
    const cudaStream_t stream = NewStream();
    *pinned = 3;
    Good(cudaMemcpyAsync(at, pinned, sizeof(int), cudaMemcpyDefault, stream));
    Good(cudaMemcpyAsync(at + 1, pageable.data(), sizeof(int), kToDevice, stream));
    *pinned = pageable[0] = 4;  // too early for the first
    Good(cudaStreamSynchronize(stream));
    seen.insert(Read(at));
    CHECK(Read(at + 1) == 3);
  }
  CHECK(seen == std::set<int>{3, 4});
}

TEST_CASE("Copies that do not fit their memory are refused") {
  Reset(Machine(Model::kFree, 0));
  int* at = OnDevice(4);
  int* pinned = Pinned(4);
  CHECK(cudaMemcpy(at, pinned, 17, kToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(at + 1, pinned, 16, kToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(at, pinned, 16, kToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemset(pinned, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("Memory is counted, and has an end") {
  Reset({.devices = 2, .memory_bytes = 1000});
  float* first = OnDevice<float>(200);
  CHECK(AllocatedBytes(0) == 800);
  size_t free_bytes = 0, total = 0;
  Good(cudaMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes == 200);
  CHECK(total == 1000);
  void* second = nullptr;
  CHECK(cudaMalloc(&second, 201) == cudaErrorMemoryAllocation);
  Good(cudaSetDevice(1));
  Good(cudaMalloc(&second, 201));
  CHECK(AllocatedBytes(1) == 201);
  Good(cudaFree(second));
  Good(cudaSetDevice(0));
  std::vector<float> values(200);
  Good(cudaMemcpy(values.data(), first, 800, kToHost));
  CHECK(std::isnan(values[0] + values[199]));
  Good(cudaFree(first));
  CHECK(cudaFree(first) == cudaErrorInvalidValue);
  CHECK(AllocatedBytes(0) == 0);
  int* pinned = Pinned(3);
  CHECK(PinnedBytes() == 12);
  CHECK(LiveObjects() == 1);
  Good(cudaFreeHost(pinned));
  CHECK(PinnedBytes() == 0);
  CHECK(LiveObjects() == 0);
}

TEST_CASE("Devices") {
  Reset({.devices = 3});
  int count = 0, major = 0;
  Good(cudaGetDeviceCount(&count));
  CHECK(count == 3);
  Good(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 2));
  CHECK(major == 9);
  cudaDeviceProp properties;
  Good(cudaGetDeviceProperties(&properties, 1));
  CHECK(std::string(properties.name) == "Emulated GPU");
  CHECK(cudaSetDevice(3) == cudaErrorInvalidDevice);
  Good(cudaSetDevice(2));
  int here = 0, there = -1;
  std::thread([&] { cudaGetDevice(&there); }).join();
  Good(cudaGetDevice(&here));
  CHECK(here == 2);
  CHECK(there == 0);  // a thread's own
  const cudaStream_t stream = NewStream();
  Good(cudaSetDevice(0));
  CHECK(Set(nullptr, 0, stream) == cudaErrorInvalidResourceHandle);  // a stream of device 2
  Good(cudaSetDevice(2));
  Reset({.devices = 0});
  CHECK(cudaGetLastError() == cudaSuccess);
  Good(cudaGetDevice(&here));
  CHECK(here == 0);
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  CHECK(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("A broken kernel leaves its device unusable, and no other one") {
  Reset(Machine(Model::kFree, 0));
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  Good(Launch("broken", {1, 64}, stream, [] {
    if (threadIdx.x == 0) __syncthreads();
  }));
  cudaEventRecord(event, stream);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  CHECK(cudaEventQuery(event) == cudaErrorLaunchFailure);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4) == cudaErrorLaunchFailure);
  REQUIRE(Diagnostics().size() == 1);
  CHECK_THAT(Diagnostics()[0], Catch::Matchers::Contains("broken: thread (0,0,0)"));
  Good(cudaSetDevice(1));
  Good(cudaMalloc(&memory, 4));
  Good(cudaFree(memory));
  CHECK(cudaSetDevice(0) == cudaErrorLaunchFailure);
}

TEST_CASE("Calls fail where they are asked to, and are counted") {
  Reset(Machine(Model::kFree, 0));
  Fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
  void* memory = nullptr;
  Good(cudaMalloc(&memory, 4));
  CHECK(cudaMalloc(&memory, 4) == cudaErrorMemoryAllocation);
  Good(cudaMalloc(&memory, 4));
  CHECK(CallCounts()["cudaMalloc"] == 3);
  Fail("cudaLaunchKernel", 1, cudaErrorIllegalAddress);
  int* at = OnDevice(1);
  CHECK(Set(at, 1, nullptr) == cudaErrorIllegalAddress);
  CHECK(Set(at, 1, nullptr) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(CallCounts()["cudaLaunchKernel"] == 2);
  CHECK(EnterLibrary("cublasLtMatmul") == false);  // the device is unusable for libraries, too
  Reset(Machine(Model::kFree, 0));
  Fail("cublasLtMatmul");
  CHECK(!EnterLibrary("cublasLtMatmul"));
  CHECK(EnterLibrary("cublasLtMatmul"));
}

TEST_CASE("Shapes of launches that no GPU takes") {
  Reset(Machine(Model::kFree, 0));
  for (const Grid& grid : {Grid{0, 32}, Grid{1, 33}, Grid{1, 1056}, Grid{dim3(1, 65536), 32},
                           Grid{1, 32, 228 << 10}}) {
    CHECK(Launch("none", grid, nullptr, [] {}) == cudaErrorInvalidConfiguration);
  }
  CHECK(Launch("none", {1, 32}, reinterpret_cast<cudaStream_t>(8), [] {}) ==
        cudaErrorInvalidResourceHandle);
}

TEST_CASE("A step's forbidden calls and most work in flight") {
  Reset(Machine(Model::kFree, 3));
  int* at = OnDevice(1);
  int* pinned = Pinned(1);
  int pageable = 0;
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  BeginStep();
  Good(Set(at, 1, stream));
  Good(cudaMemcpyAsync(pinned, at, sizeof(int), kToHost, stream));
  Good(cudaEventRecord(event, stream));
  while (cudaEventQuery(event) == cudaErrorNotReady) {
  }
  emulated::Step clean = EndStep();
  CHECK(clean.forbidden.empty());
  CHECK(clean.most_in_flight[stream] >= 1);
  CHECK(clean.most_in_flight[stream] <= 2);
  BeginStep();
  Good(cudaMemcpyAsync(at, &pageable, sizeof(int), kToDevice, stream));
  Good(cudaStreamSynchronize(stream));
  Good(cudaFree(at));
  Good(cudaEventDestroy(event));
  CHECK(EndStep().forbidden == std::vector<std::string>{"copy of pageable memory",
                                                        "cudaStreamSynchronize", "cudaFree",
                                                        "cudaEventDestroy"});
}

TEST_CASE("Host code in streams") {
  Reset(Machine(Model::kFree, 0));
  int* at = OnDevice(1);
  const cudaStream_t stream = NewStream();
  Good(Set(at, 4, stream));
  Good(EnqueueHost(stream, "add", [at] { *at += 3; }));
  int seen = 0;
  Good(cudaLaunchHostFunc(
      stream, [](void* p) { *static_cast<int*>(p) = 1; }, &seen));
  Good(cudaStreamSynchronize(stream));
  CHECK(Read(at) == 7);
  CHECK(seen == 1);
}

// True if a child process that runs it ends in good order.
bool Survives(const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    // A death that is expected is not to be reported.
    close(1);
    close(2);
    if (__asan_init == nullptr) signal(SIGSEGV, SIG_DFL);
    action();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("The host dies if it touches device memory") {
  Reset(Machine(Model::kFree, 0));
  volatile int* at = OnDevice(1);
  CHECK(Survives([] {}));
  CHECK_FALSE(Survives([&] { *at = 1; }));
  CHECK_FALSE(Survives([&] { static_cast<void>(*at); }));
  Reset({});
  at = OnDevice(1);
  CHECK(Survives([&] { *at = 1; }));
}

TEST_CASE("AddressSanitizer guards the ends of allocations and what is outside of ports") {
  const bool watched = __asan_init != nullptr;
  Reset(Machine(Model::kFree, 0));
  int* at = OnDevice(8);
  const auto runs = [&](int i) {
    return Survives([&] {
      Set(at + i, 1, nullptr);
      cudaDeviceSynchronize();
    });
  };
  CHECK(runs(7));
  CHECK(runs(8) == !watched);
  CHECK(runs(-1) == !watched);
  const MemoryRange range{at + 2, 8};
  const auto limited = [&](int i) {
    return Survives([&] {
      LimitPorts({&range, 1});
      Set(at + i, 1, nullptr);
      cudaDeviceSynchronize();
    });
  };
  CHECK(limited(3));
  CHECK(limited(4) == !watched);
  CHECK(limited(1) == !watched);
  LimitPorts({&range, 1});
  Good(Set(at + 2, 1, nullptr));
  Good(Set(at + 4, 1, nullptr));  // limits are of one launch
  Good(cudaDeviceSynchronize());
  int* other = OnDevice(8);
  Good(cudaFree(at));
  CHECK(runs(0) == !watched);
  CHECK(other != at);
  const auto shared = [](size_t i) {
    return Survives([&] {
      Launch("shared", {1, 32, 64}, nullptr,
             [=] { static_cast<char*>(DynamicSharedMemory())[i] = 1; });
      cudaDeviceSynchronize();
    });
  };
  CHECK(shared(63));
  CHECK(shared(64) == !watched);
}

TEST_CASE("Threads share a machine") {
  Reset(Machine(Model::kFree, 5));
  std::vector<int> results(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&results, t] {
      cudaSetDevice(t % 2);
      int* at = nullptr;
      int* host = nullptr;
      cudaStream_t stream;
      cudaMalloc(&at, sizeof(int));
      cudaHostAlloc(&host, sizeof(int), 0);
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      Set(at, t, stream);
      for (int i = 0; i < 5; ++i) Twice(at, stream);
      cudaMemcpyAsync(host, at, sizeof(int), kToHost, stream);
      cudaStreamSynchronize(stream);
      results[t] = *host;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(results == std::vector<int>{31, 63, 95, 127});
}

TEST_CASE("Nothing is stuck where work can go on") {
  Reset(Machine(Model::kFree, 0));
  int* at = OnDevice(1);
  Good(Set(at, 1, nullptr));
  CHECK(Stuck() == "");
  Good(cudaDeviceSynchronize());
  CHECK(Stuck() == "");
}

TEST_CASE("Times of events grow in the order in which things run") {
  for (const Model model : kModels) {
    Reset(Machine(model, 3));
    const cudaStream_t first = NewStream(), second = NewStream();
    const cudaEvent_t begin = NewEvent(cudaEventDefault), middle = NewEvent(cudaEventDefault);
    const cudaEvent_t end = NewEvent(cudaEventDefault);
    int* at = OnDevice(1);
    Good(cudaEventRecord(begin, first));
    Good(Set(at, 1, first));
    Good(cudaEventRecord(middle, first));
    Good(cudaStreamWaitEvent(second, middle));
    Good(Set(at, 2, second));
    Good(Set(at, 3, second));
    Good(cudaEventRecord(end, second));
    float elapsed = 0, rest = 0;
    Good(cudaEventSynchronize(end));
    Good(cudaEventElapsedTime(&elapsed, begin, middle));
    CHECK(elapsed > 0);
    Good(cudaEventElapsedTime(&rest, middle, end));
    CHECK(rest > elapsed);
    Good(cudaEventElapsedTime(&elapsed, end, begin));
    CHECK(elapsed < 0);
    const cudaEvent_t unrecorded = NewEvent(cudaEventDefault);
    CHECK(cudaEventElapsedTime(&elapsed, begin, unrecorded) == cudaErrorInvalidResourceHandle);
    const cudaEvent_t untimed = NewEvent();
    Good(cudaEventRecord(untimed, first));
    Good(cudaEventSynchronize(untimed));
    CHECK(cudaEventElapsedTime(&elapsed, begin, untimed) == cudaErrorInvalidResourceHandle);
  }
}

}  // namespace
}  // namespace oneflow::emulated
