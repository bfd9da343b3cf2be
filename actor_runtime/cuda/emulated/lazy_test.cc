#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "actor_runtime/cuda/emulated/runtime_for_test.h"

namespace oneflow::emulated {
namespace {

TEST_CASE("A lazy machine runs what is polled or waited for, and what that needs") {
  std::set<cudaError_t> first;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Reset(Machine(Model::kLazy, seed));
    int* at = OnDevice(4);
    const cudaStream_t fills = NewStream(), needed = NewStream(), polled = NewStream();
    const cudaEvent_t before = NewEvent(), end = NewEvent();
    Good(cudaMemset(at, 0, 4 * sizeof(int)));  // on the default stream: nobody waits for it
    Good(Set(at + 1, 5, needed));
    Good(cudaEventRecord(before, needed));
    Good(Set(at + 2, 6, needed));  // after the event
    Good(cudaStreamWaitEvent(polled, before));
    Good(Twice(at + 1, polled));
    Good(cudaEventRecord(end, polled));
    Good(Set(at + 3, 7, polled));  // after the event
    Good(Set(at, 8, fills));
    first.insert(cudaEventQuery(end));
    while (cudaEventQuery(end) == cudaErrorNotReady) {
    }
    int* host = Pinned(4);
    const cudaStream_t reader = NewStream();
    Good(cudaMemcpyAsync(host, at, 4 * sizeof(int), kToHost, reader));
    Good(cudaStreamSynchronize(reader));
    CHECK(std::vector<int>(host, host + 4) == std::vector<int>{-1, 11, -1, -1});  // -1: new memory
    Good(cudaDeviceSynchronize());
    CHECK(cudaStreamQuery(fills) == cudaSuccess);
  }
  CHECK(first == std::set<cudaError_t>{cudaSuccess, cudaErrorNotReady});
}

// What is read through a stream that does not wait for the default one: NaNs of new memory.
TEST_CASE("A fill, or a copy of pageable memory, that nobody waits for comes last") {
  for (const bool fills : {false, true}) {
    for (const bool waits : {false, true}) {
      Reset(Machine(Model::kLazy, 1));
      int* at = OnDevice(1);
      int* host = Pinned(1);
      const int value = 0;
      const cudaStream_t stream = NewStream();
      Good(fills ? cudaMemset(at, 0, sizeof(int)) : cudaMemcpy(at, &value, sizeof(int), kToDevice));
      if (waits) Good(cudaStreamSynchronize(nullptr));
      Good(cudaMemcpyAsync(host, at, sizeof(int), kToHost, stream));
      Good(cudaStreamSynchronize(stream));
      CHECK(*host == (waits ? 0 : -1));
    }
  }
}

}  // namespace
}  // namespace oneflow::emulated
