#include <cuda_bf16.h>
#include <nccl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/emulated/meeting.h"

namespace oneflow::emulated {
namespace {

using Catch::Matchers::Contains;

void Good(cudaError_t error) { REQUIRE(error == cudaSuccess); }
void Good(ncclResult_t result) {
  INFO(ncclGetLastError(nullptr));
  REQUIRE(result == ncclSuccess);
}

// A device of a group: its communicator, a stream and memory that begins with `rank` * 100 + i.
struct Member {
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;

  void Write(const std::vector<float>& values) const {
    Good(cudaMemcpy(data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    Good(cudaStreamSynchronize(nullptr));
  }
  std::vector<float> Read(size_t count) const {
    std::vector<float> values(count);
    Good(cudaSetDevice(device));
    Good(cudaStreamSynchronize(stream));
    Good(cudaMemcpy(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost));
    Good(cudaSetDevice(0));
    return values;
  }
};

constexpr size_t kRoom = 64;

std::vector<Member> Members(int count, Model model = Model::kFree, uint64_t seed = 0) {
  Reset({.devices = count, .model = model, .seed = seed, .guard_memory = true});
  std::vector<Member> members(count);
  std::vector<ncclComm_t> comms(count);
  Good(ncclCommInitAll(comms.data(), count, nullptr));
  for (int i = 0; i < count; ++i) {
    Member& member = members[i];
    member.device = i;
    member.comm = comms[i];
    Good(cudaSetDevice(i));
    Good(cudaStreamCreateWithFlags(&member.stream, cudaStreamNonBlocking));
    Good(cudaMalloc(&member.data, kRoom * sizeof(float)));
    std::vector<float> values(kRoom);
    for (size_t v = 0; v < kRoom; ++v) values[v] = i * 100.0f + v;
    member.Write(values);
  }
  Good(cudaSetDevice(0));
  return members;
}

void GiveBack(const std::vector<Member>& members) {
  for (const Member& member : members) {
    Good(cudaFree(member.data));
    Good(cudaStreamDestroy(member.stream));
    Good(ncclCommDestroy(member.comm));
  }
  CHECK(Diagnostics().empty());
  CHECK(LiveObjects() == 0);
}

TEST_CASE("Collectives, in place and not, under many schedules") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Member> members = Members(3, kModels[seed % 3], seed);
    for (const Member& m : members) {
      // Elements 0-5: sums; 6-11: gathered; 12-13: the member's part of sums; 20-21: of member 1.
      Good(ncclAllReduce(m.data, m.data, 6, ncclFloat32, ncclSum, m.comm, m.stream));
      Good(ncclAllGather(m.data + 6 + 2 * m.device, m.data + 6, 2, ncclFloat32, m.comm, m.stream));
      Good(ncclReduceScatter(m.data + 30, m.data + 12, 2, ncclFloat32, ncclMax, m.comm, m.stream));
      Good(ncclBroadcast(m.data + 20, m.data + 20, 2, ncclFloat32, 1, m.comm, m.stream));
    }
    for (const Member& m : members) {
      const std::vector<float> values = m.Read(kRoom);
      for (int i = 0; i < 6; ++i) CHECK(values[i] == 300 + 3 * i);
      for (int i = 6; i < 12; ++i) CHECK(values[i] == (i - 6) / 2 * 100 + i);
      for (int i = 12; i < 14; ++i) CHECK(values[i] == 200 + 30 + 2 * m.device + (i - 12));
      for (int i = 20; i < 22; ++i) CHECK(values[i] == 100 + i);
      CHECK(values[22] == m.device * 100 + 22);
    }
    GiveBack(members);
  }
}

TEST_CASE("Sends and receives of a group are one operation") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Member> members = Members(3, kModels[seed % 3], seed);
    Good(ncclGroupStart());            // One thread: it would wait in the call of the first member.
    for (const Member& m : members) {  // A ring: each alone would wait for ever.
      Good(ncclSend(m.data, 4, ncclFloat32, (m.device + 1) % 3, m.comm, m.stream));
      Good(ncclRecv(m.data + 8, 4, ncclFloat32, (m.device + 2) % 3, m.comm, m.stream));
    }
    Good(ncclGroupEnd());
    CHECK(Connections() == 3);
    for (const Member& m : members) {
      const std::vector<float> values = m.Read(12);
      for (int i = 0; i < 4; ++i) CHECK(values[8 + i] == (m.device + 2) % 3 * 100 + i);
    }
    GiveBack(members);
  }
}

TEST_CASE("A ring of single sends waits for ever, and says so") {
  const std::vector<Member> members = Members(2);
  Good(ncclGroupStart());  // first messages connect
  for (const Member& m : members) {
    Good(ncclSend(m.data, 4, ncclFloat32, 1 - m.device, m.comm, m.stream));
    Good(ncclRecv(m.data + 8, 4, ncclFloat32, 1 - m.device, m.comm, m.stream));
  }
  Good(ncclGroupEnd());
  for (const Member& m : members) m.Read(1);
  for (const Member& m : members) {
    Good(ncclSend(m.data, 4, ncclFloat32, 1 - m.device, m.comm, m.stream));
    Good(ncclRecv(m.data + 8, 4, ncclFloat32, 1 - m.device, m.comm, m.stream));
  }
  for (int i = 0; i < 100; ++i) CHECK(cudaStreamQuery(members[0].stream) == cudaErrorNotReady);
  CHECK_THAT(Stuck(), Contains("device 0 stream 1: ncclSend by rank 0 waits for others of "
                               "communicator"));
}

TEST_CASE("An operation waits for every member's to be the next of its stream") {
  const std::vector<Member> members = Members(2);
  const Member &a = members[0], &b = members[1];
  Good(ncclAllReduce(a.data, a.data, 1, ncclFloat32, ncclSum, a.comm, a.stream));
  for (int i = 0; i < 100; ++i) CHECK(cudaStreamQuery(a.stream) == cudaErrorNotReady);
  CHECK_THAT(Stuck(), Contains("ncclAllReduce by rank 0 waits for others") && Contains("member 1"));
  Good(ncclAllReduce(b.data, b.data, 1, ncclFloat32, ncclSum, b.comm, b.stream));
  CHECK(Stuck() == "");
  CHECK(a.Read(1)[0] == 100);
  CHECK(b.Read(1)[0] == 100);
  GiveBack(members);
}

// Two communicators of the same two devices, on separate streams, in opposite orders.
std::string OppositeOrders(Model model) {
  std::vector<Member> members = Members(2, model);
  std::vector<ncclComm_t> second(2);
  Good(ncclCommInitAll(second.data(), 2, nullptr));
  for (Member& m : members) {
    Good(cudaSetDevice(m.device));
    cudaStream_t other;
    Good(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (int turn = 0; turn < 2; ++turn) {
      const bool first = turn == m.device;
      Good(ncclAllReduce(m.data, m.data, 1, ncclFloat32, ncclSum, first ? m.comm : second[m.device],
                         first ? m.stream : other));
    }
  }
  std::string stuck;
  for (int i = 0; i < 100; ++i) {
    if (cudaStreamQuery(members[0].stream) == cudaSuccess) return "done";
    stuck = Stuck();
  }
  return stuck;
}

TEST_CASE("Opposite orders of issue are a deadlock on serial devices alone") {
  CHECK(OppositeOrders(Model::kFree) == "done");
  const std::string stuck = OppositeOrders(Model::kSerial);
  CHECK_THAT(stuck, Contains("ncclAllReduce by rank 0 waits for others of communicator"));
  CHECK_THAT(stuck, Contains("waits for work issued before on its device"));
}

TEST_CASE("Each rank from a separate thread") {
  Reset({.devices = 4});
  ncclUniqueId id;
  Good(ncclGetUniqueId(&id));
  std::vector<float> results(4);
  std::vector<int> bad(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr, half = nullptr;
      float* data = nullptr;
      const float value = static_cast<float>(rank + 1);
      bad[rank] += cudaSetDevice(rank) != cudaSuccess;
      bad[rank] += ncclCommInitRank(&comm, 4, id, rank) != ncclSuccess;
      bad[rank] += ncclCommSplit(comm, rank % 2, -rank, &half, nullptr) != ncclSuccess;
      cudaMalloc(&data, sizeof(float));
      cudaMemcpy(data, &value, sizeof(float), cudaMemcpyDefault);
      // Rank 0 of the part is the one with the greatest rank of the full communicator.
      bad[rank] += ncclBroadcast(data, data, 1, ncclFloat32, 0, half, nullptr) != ncclSuccess;
      bad[rank] += ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess;
      cudaMemcpy(&results[rank], data, sizeof(float), cudaMemcpyDefault);
      cudaFree(data);
      bad[rank] += ncclCommDestroy(half) != ncclSuccess;
      bad[rank] += ncclCommDestroy(comm) != ncclSuccess;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(bad == std::vector<int>(4));
  CHECK(results == std::vector<float>(4, 3 + 4 + 3 + 4));
  CHECK(LiveObjects() == 0);
}

TEST_CASE("One thread makes and splits communicators in groups") {
  Reset({.devices = 3});
  ncclUniqueId id;
  Good(ncclGetUniqueId(&id));
  std::vector<ncclComm_t> comms(3), parts(3);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  Good(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    Good(cudaSetDevice(rank));
    Good(ncclCommInitRankConfig(&comms[rank], 3, id, rank, &config));
    CHECK(comms[rank] == nullptr);
  }
  Good(ncclGroupEnd());
  Good(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    const int color = rank == 1 ? NCCL_SPLIT_NOCOLOR : 0;
    Good(ncclCommSplit(comms[rank], color, rank, &parts[rank], nullptr));
  }
  Good(ncclGroupEnd());
  CHECK(parts[1] == nullptr);
  CHECK(parts[0] != nullptr);
  CHECK(LiveObjects() == 5);
  for (int rank = 0; rank < 3; ++rank) {
    Good(ncclCommDestroy(comms[rank]));
    if (parts[rank] != nullptr) Good(ncclCommDestroy(parts[rank]));
  }
  CHECK(LiveObjects() == 0);
  Good(cudaSetDevice(0));
}

TEST_CASE("Members that do not do the same are found") {
  const std::vector<Member> members = Members(2);
  const Member &a = members[0], &b = members[1];
  Good(ncclAllReduce(a.data, a.data, 4, ncclFloat32, ncclSum, a.comm, a.stream));
  Good(ncclAllReduce(b.data, b.data, 5, ncclFloat32, ncclSum, b.comm, b.stream));
  REQUIRE(Diagnostics().size() == 1);
  CHECK_THAT(Diagnostics()[0], Contains("rank 1 calls all_reduce of 5 float32") &&
                                   Contains("where others call all_reduce of 4 float32"));
  for (const Member& m : members) {
    ncclResult_t error = ncclSuccess;
    Good(ncclCommGetAsyncError(m.comm, &error));
    CHECK(error == ncclInvalidUsage);
    CHECK(m.Read(1)[0] == m.device * 100);  // nothing is done
  }
}

TEST_CASE("Calls that NCCL would refuse are refused") {
  const std::vector<Member> members = Members(2);
  const Member &a = members[0], &b = members[1];
  const auto all_reduce = [&](void* to, size_t count, cudaStream_t stream) {
    return ncclAllReduce(a.data, to, count, ncclFloat32, ncclSum, a.comm, stream);
  };
  CHECK(all_reduce(a.data, kRoom + 1, a.stream) == ncclInvalidArgument);  // beyond the end
  CHECK(all_reduce(b.data, 1, a.stream) == ncclInvalidArgument);          // another device's
  CHECK(all_reduce(a.data, 1, b.stream) == ncclInvalidArgument);
  CHECK(ncclSend(a.data, 1, ncclFloat32, 2, a.comm, a.stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(a.data, a.data, 1, ncclFloat32, ncclSum, nullptr, a.stream) ==
        ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  Good(ncclGroupStart());
  CHECK(all_reduce(b.data, 1, a.stream) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  Fail("ncclAllReduce");
  CHECK(all_reduce(a.data, 1, a.stream) == ncclSystemError);
  CHECK(CallCounts()["ncclAllReduce"] == 6);
  GiveBack(members);
}

TEST_CASE("A lost member: operations do not end until they are aborted") {
  const std::vector<Member> members = Members(2);
  BreakCommunicator(members[0].comm);
  for (const Member& m : members) {
    Good(ncclAllReduce(m.data, m.data, 1, ncclFloat32, ncclSum, m.comm, m.stream));
  }
  for (int i = 0; i < 100; ++i) CHECK(cudaStreamQuery(members[1].stream) == cudaErrorNotReady);
  ncclResult_t error = ncclSuccess;
  Good(ncclCommGetAsyncError(members[1].comm, &error));
  CHECK(error == ncclRemoteError);
  CHECK(Stuck() != "");
  for (const Member& m : members) {
    Good(ncclCommAbort(m.comm));
    CHECK(m.Read(1)[0] == m.device * 100);
    Good(cudaFree(m.data));
    Good(cudaStreamDestroy(m.stream));
  }
  CHECK(LiveObjects() == 0);
}

TEST_CASE("A first message waits in the call until the other side comes, and connects the pair") {
  const std::vector<Member> members = Members(3);
  BeginStep();
  ncclResult_t sent = ncclInternalError;  // by a thread that may not use the checks of tests
  std::thread first([&] {
    sent = ncclSend(members[0].data, 1, ncclFloat32, 1, members[0].comm, members[0].stream);
  });
  while (CallCounts()["ncclSend"] == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) Good(cudaStreamQuery(members[0].stream));  // nothing is on it
  Good(ncclRecv(members[1].data, 1, ncclFloat32, 0, members[1].comm, members[1].stream));
  first.join();
  Good(sent);
  CHECK(members[1].Read(1)[0] == 0);
  CHECK(Connections() == 1);
  CHECK(EndStep().forbidden.front() == "a connection of NCCL");
  GiveBack(members);
}

ncclResult_t ReadState(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  Good(ncclCommGetAsyncError(comm, &state));
  return state;
}

// Until all are ready, or refused.
void Await(const std::vector<ncclComm_t>& comms) {
  for (ncclComm_t comm : comms) {
    while (ReadState(comm) == ncclInProgress) {
    }
  }
}

TEST_CASE("A communicator that does not block is in progress, and takes nothing else meanwhile") {
  Reset({.devices = 2});
  ncclUniqueId id;
  Good(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  std::vector<ncclComm_t> comms(2);
  std::vector<cudaStream_t> streams(2);
  std::vector<float*> data(2);
  for (int rank = 0; rank < 2; ++rank) {
    Good(cudaSetDevice(rank));
    Good(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
    Good(cudaMalloc(&data[rank], sizeof(float)));
    CHECK(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config) == ncclInProgress);
    for (int i = 0; i < 20 && rank == 0; ++i) CHECK(ReadState(comms[0]) == ncclInProgress);
  }
  Await(comms);
  const auto send = [&](int rank) {
    return rank == 0 ? ncclSend(data[0], 1, ncclFloat32, 1, comms[0], streams[0])
                     : ncclRecv(data[1], 1, ncclFloat32, 0, comms[1], streams[1]);
  };
  CHECK(send(0) == ncclInProgress);
  for (int i = 0; i < 20; ++i) CHECK(ReadState(comms[0]) == ncclInProgress);  // not connected
  CHECK(send(0) == ncclInvalidArgument);
  CHECK(Diagnostics().empty());
  Good(cudaSetDevice(0));
  Good(cudaMemsetAsync(data[0], 0, sizeof(float), streams[0]));
  REQUIRE(Diagnostics().size() == 1);
  CHECK(Diagnostics()[0] == "device 0 stream 1: fill before NCCL has given it its operation");
  CHECK(send(1) == ncclInProgress);
  Await(comms);
  Good(cudaStreamSynchronize(streams[1]));
  CHECK(Connections() == 1);
  // One that is in progress can be aborted.
  CHECK(ncclSend(data[0], 1, ncclFloat32, 1, comms[0], streams[0]) == ncclInProgress);
  for (int rank = 0; rank < 2; ++rank) {
    Good(ncclCommAbort(comms[rank]));
    Good(cudaFree(data[rank]));
    Good(cudaStreamDestroy(streams[rank]));
  }
  CHECK(LiveObjects() == 0);
}

TEST_CASE("An abort waits for kernels of other communicators of its device") {
  for (const bool together : {true, false}) {
    const std::vector<Member> members = Members(2);
    std::vector<ncclComm_t> others(2);
    std::vector<cudaStream_t> streams(2);
    Good(ncclCommInitAll(others.data(), 2, nullptr));
    // Device 0 waits for device 1 in both communicators.
    Good(cudaStreamCreateWithFlags(&streams[0], cudaStreamNonBlocking));
    const Member& m = members[0];
    Good(ncclAllReduce(m.data, m.data, 1, ncclFloat32, ncclSum, m.comm, m.stream));
    Good(ncclAllReduce(m.data, m.data, 1, ncclFloat32, ncclSum, others[0], streams[0]));
    if (together) {
      Good(ncclGroupStart());
      Good(ncclCommAbort(m.comm));
      Good(ncclCommAbort(others[0]));
      Good(ncclGroupEnd());
    } else {
      std::atomic<bool> ended = false;
      ncclResult_t aborted = ncclInternalError;
      std::thread first([&] {
        aborted = ncclCommAbort(m.comm);
        ended = true;
      });
      while (CallCounts()["ncclCommAbort"] == 0) std::this_thread::yield();
      for (int i = 0; i < 1000; ++i) CHECK(cudaStreamQuery(streams[0]) == cudaErrorNotReady);
      CHECK_FALSE(ended);
      Good(ncclCommAbort(others[0]));
      first.join();
      Good(aborted);
    }
    Good(cudaStreamQuery(streams[0]));
    Good(ncclCommAbort(members[1].comm));
    Good(ncclCommAbort(others[1]));
  }
}

TEST_CASE("Sums of bf16 are rounded at each member of the ring") {
  // 256 + 1 + 1 from member 1 on, by way of 2, to 0: 257 rounds to 256 each time; from elsewhere 2
  // is added at once.
  std::vector<std::vector<__nv_bfloat16>> values(3);
  std::vector<Buffers> buffers;
  for (int m = 0; m < 3; ++m) {
    values[m].assign(3, __float2bfloat16_rn(m == 1 ? 256.0f : 1.0f));
    buffers.push_back({values[m].data(), values[m].data()});
  }
  Execute({Operation::kAllReduce, 3, ncclBfloat16, ncclSum}, buffers);
  for (int m = 0; m < 3; ++m) {
    CHECK(__bfloat162float(values[m][0]) == 256);  // (256 + 1) + 1
    CHECK(__bfloat162float(values[m][1]) == 258);  // (1 + 1) + 256
    CHECK(__bfloat162float(values[m][2]) == 256);  // (1 + 256) + 1
  }
}

}  // namespace
}  // namespace oneflow::emulated
