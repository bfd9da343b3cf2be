// The emulated machine: devices, streams, events and their pending items. Internal to the emulated
// GPU: tests include emulated_gpu.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/emulated/memory.h"

struct CUstream_st;

namespace oneflow::emulated {

// One piece of work in a stream.
struct Item {
  std::string what;
  // True if it may run; called when it is the next of its stream, until it returns true. Empty: it
  // may.
  std::function<bool()> ready;
  // Returns the mistake, if any: the device is then unusable.
  std::function<std::string()> run;
  std::function<std::string()> waits_for;  // why it is not ready, in words
  // The streams that must go on before it can be ready; asked while it is not. Empty: none.
  std::function<std::vector<CUstream_st*>()> needs;
  bool is_work = true;  // not a mark or a wait: it has access to device memory
  std::optional<std::vector<MemoryRange>> ports;
  uint64_t order = 0;  // number of its issue on its device
};

// One cudaEventRecord.
struct Record {
  CUstream_st* stream = nullptr;  // valid until it is done
  bool done = false;
  uint64_t time = 0;  // Machine::now
};

}  // namespace oneflow::emulated

struct CUstream_st {
  int device = 0;
  bool blocking = false;  // with regard to the default stream
  bool is_default = false;
  bool destroyed = false;  // its work goes on
  int reserved = 0;        // operations of NCCL that have been called and not given to it
  int number = 0;
  int in_flight = 0;  // items that are work
  std::deque<oneflow::emulated::Item> items;
};

struct CUevent_st {
  int device = 0;
  bool timed = false;
  std::shared_ptr<oneflow::emulated::Record> latest;
};

namespace oneflow::emulated {

class Machine {
 public:
  explicit Machine(const Options& options);

  const Options& options() const { return options_; }
  Memory& memory() { return memory_; }
  std::map<std::string, int>& counts() { return counts_; }
  std::vector<std::string>& diagnostics() { return diagnostics_; }
  int live_objects() const;

  // Called at the begin of each entry: counts it, records it if the step forbids it, and returns
  // the error to return at once: a requested one, or the device's.
  cudaError_t Enter(const std::string& entry, int device);
  void Fail(const std::string& entry, int call, cudaError_t error);
  void Forbid(const std::string& what);
  void BeginStep();
  Step EndStep();

  // The stream of a handle: the device's default stream for nullptr; nullptr for a handle that is
  // not valid.
  CUstream_st* Find(cudaStream_t stream, int device);
  CUevent_st* Find(cudaEvent_t event) const;
  CUstream_st* NewStream(int device, bool blocking);
  void Destroy(CUstream_st* stream);
  CUevent_st* NewEvent(int device, bool timed);
  void Destroy(CUevent_st* event);

  void Enqueue(CUstream_st* stream, Item item);
  // Which streams a call polls or waits for.
  using Wanted = std::function<bool(const CUstream_st&)>;
  // Runs a drawn number of items; a lazy machine runs none.
  void RunSome();
  // A query: the same, but a lazy machine runs items that the wanted streams need, until `done`.
  void Poll(const Wanted& wanted, const std::function<bool()>& done);
  // Runs one item; a lazy machine, one that the wanted streams need. False if none may run.
  bool RunOne(const Wanted& wanted);
  bool Idle(int device) const;
  // The number of the item that was issued last on a device, and whether all up to one have run.
  uint64_t issued(int device) const { return devices_[device].issued; }
  bool IdleUpTo(int device, uint64_t order) const;
  std::string Stuck();
  // Makes a device unusable: its work is dropped.
  void Break(int device, cudaError_t error);
  cudaError_t error_of(int device) const { return devices_[device].error; }

  uint64_t Next() { return draw_.Next(); }
  // The number of items that all devices have run: the clock of events.
  uint64_t now() const { return now_; }
  // The state of the emulated NCCL.
  std::shared_ptr<void>& nccl() { return nccl_; }
  // By device and kernel: the most bytes of dynamic shared memory that a launch may take.
  std::map<std::pair<int, const void*>, size_t>& allowed_shared() { return allowed_shared_; }
  void add_communicators(int n) { communicators_ += n; }
  int connections() const { return connections_; }
  void AddConnection();
  // Begins and ends the time in which NCCL has an operation that is not given to the stream yet;
  // other work that is given to it meanwhile is a mistake.
  static void Reserve(CUstream_st* stream) { ++stream->reserved; }
  void Unreserve(CUstream_st* stream);
  // From now on waiting threads look every millisecond, because other processes do not notify.
  void Poll() { polls_ = true; }
  bool polls() const { return polls_; }

 private:
  struct Device {
    cudaError_t error = cudaSuccess;
    uint64_t issued = 0;
    CUstream_st* default_stream = nullptr;
  };
  bool MayRun(CUstream_st& stream);
  bool ComesAfter(const CUstream_st& stream, const CUstream_st& other) const;
  bool InOrder(const CUstream_st& stream) const;
  void AddRunnable(CUstream_st* stream, std::set<CUstream_st*>* seen,
                   std::vector<CUstream_st*>* runnable);
  void Run(CUstream_st& stream);

  const Options options_;
  Draw draw_;
  Memory memory_;
  std::vector<Device> devices_;
  std::vector<std::unique_ptr<CUstream_st>> streams_;
  std::vector<std::unique_ptr<CUevent_st>> events_;
  int made_streams_ = 0;
  uint64_t now_ = 0;
  int communicators_ = 0, connections_ = 0;
  bool polls_ = false;
  std::map<std::pair<int, const void*>, size_t> allowed_shared_;
  std::shared_ptr<void> nccl_;
  std::map<std::string, int> counts_;
  std::map<std::string, std::map<int, cudaError_t>> failures_;  // by entry and number of the call
  std::vector<std::string> diagnostics_;
  bool in_step_ = false;
  Step step_;
};

// Replaces the old machine by a new one.
void Replace(const Options& options);

// The machine, and the lock that every entry holds.
class Locked {
 public:
  Locked();
  Machine* operator->() const { return machine_; }
  Machine& operator*() const { return *machine_; }

  // Runs items until `done`, which the wanted streams will make true. If none may run, waits for
  // other threads to issue some.
  void RunUntil(const Machine::Wanted& wanted, const std::function<bool()>& done);
  // Waits for other threads until `done`. Runs nothing.
  void WaitUntil(const std::function<bool()>& done);
  void NotifyAll();

 private:
  void Wait();
  std::unique_lock<std::mutex> lock_;
  Machine* machine_;
};

int CurrentDevice();

}  // namespace oneflow::emulated
