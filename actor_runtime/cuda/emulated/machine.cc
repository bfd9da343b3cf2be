#include "actor_runtime/cuda/emulated/machine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace oneflow::emulated {
namespace {

// Calls that a step must not make: they allocate, or wait for a device.
bool IsForbidden(const std::string& entry) {
  static const char* const kForbidden[] = {
      "cudaMalloc",        "cudaFree",     "cudaHostAlloc",       "cudaMemcpy",
      "cudaMemset",        "cudaFreeHost", "cudaEvent",           "cudaStreamCreate",
      "cudaStreamDestroy", "cublasLt",     "cudaFuncSetAttribute"};
  if (entry == "cudaEventRecord" || entry == "cudaEventQuery") return false;
  if (entry == "cudaEventElapsedTime") return false;
  if (entry == "cudaMemcpyAsync" || entry == "cudaMemsetAsync") return false;
  // Products are planned before a step.
  if (entry == "cublasLtMatmul") return false;
  if (entry.ends_with("Synchronize")) return true;
  return std::any_of(std::begin(kForbidden), std::end(kForbidden),
                     [&](const char* prefix) { return entry.starts_with(prefix); });
}

std::string Name(const CUstream_st& stream) {
  return absl::StrCat("device ", stream.device, " stream ", stream.number);
}

struct Global {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<Machine> machine = std::make_unique<Machine>(Options{});
};

Global& TheGlobal() {
  static Global global;
  return global;
}

}  // namespace

Machine::Machine(const Options& options)
    : options_(options),
      draw_{options.seed},
      memory_(options.devices, options.memory_bytes, options.guard_memory),
      devices_(options.devices) {
  for (int i = 0; i < options.devices; ++i) {
    streams_.push_back(std::make_unique<CUstream_st>());
    devices_[i].default_stream = streams_.back().get();
    devices_[i].default_stream->device = i;
    devices_[i].default_stream->is_default = true;
  }
}

int Machine::live_objects() const {
  int live = memory_.count() + static_cast<int>(events_.size()) + communicators_;
  for (const auto& stream : streams_) live += !stream->is_default && !stream->destroyed;
  return live;
}

cudaError_t Machine::Enter(const std::string& entry, int device) {
  const int call = ++counts_[entry];
  if (in_step_ && IsForbidden(entry)) step_.forbidden.push_back(entry);
  const auto asked = failures_.find(entry);
  if (asked != failures_.end() && asked->second.contains(call)) {
    const cudaError_t error = asked->second.at(call);
    if (entry == "cudaLaunchKernel") Break(device, error);
    return error;
  }
  return device < options_.devices ? devices_[device].error : cudaErrorNoDevice;
}

void Machine::Fail(const std::string& entry, int call, cudaError_t error) {
  failures_[entry][counts_[entry] + call] = error;
}

void Machine::Forbid(const std::string& what) {
  if (in_step_) step_.forbidden.push_back(what);
}

void Machine::BeginStep() {
  in_step_ = true;
  step_ = {};
}

Step Machine::EndStep() {
  in_step_ = false;
  return std::move(step_);
}

CUstream_st* Machine::Find(cudaStream_t stream, int device) {
  if (stream == nullptr) {
    return device < options_.devices ? devices_[device].default_stream : nullptr;
  }
  for (const auto& known : streams_) {
    if (known.get() == stream && !known->destroyed) return stream;
  }
  return nullptr;
}

CUevent_st* Machine::Find(cudaEvent_t event) const {
  for (const auto& known : events_) {
    if (known.get() == event) return event;
  }
  return nullptr;
}

CUstream_st* Machine::NewStream(int device, bool blocking) {
  streams_.push_back(std::make_unique<CUstream_st>());
  CUstream_st* stream = streams_.back().get();
  stream->device = device;
  stream->blocking = blocking;
  stream->number = ++made_streams_;
  return stream;
}

void Machine::Destroy(CUstream_st* stream) {
  stream->destroyed = true;
  std::erase_if(streams_, [](const auto& s) { return s->destroyed && s->items.empty(); });
}

CUevent_st* Machine::NewEvent(int device, bool timed) {
  events_.push_back(std::make_unique<CUevent_st>());
  events_.back()->device = device;
  events_.back()->timed = timed;
  return events_.back().get();
}

void Machine::Destroy(CUevent_st* event) {
  std::erase_if(events_, [&](const auto& e) { return e.get() == event; });
}

bool Machine::IdleUpTo(int device, uint64_t order) const {
  return std::all_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
    return stream->device != device || stream->items.empty() || stream->items.front().order > order;
  });
}

void Machine::AddConnection() {
  ++connections_;
  Forbid("a connection of NCCL");
}

void Machine::Unreserve(CUstream_st* stream) {
  for (const auto& known : streams_) {
    if (known.get() == stream) --stream->reserved;
  }
}

void Machine::Enqueue(CUstream_st* stream, Item item) {
  if (stream->reserved > 0) {
    diagnostics_.push_back(
        absl::StrCat(Name(*stream), ": ", item.what, " before NCCL has given it its operation"));
  }
  item.order = ++devices_[stream->device].issued;
  if (item.is_work) {
    ++stream->in_flight;
    int& most = step_.most_in_flight[stream];
    if (in_step_) most = std::max(most, stream->in_flight);
  }
  stream->items.push_back(std::move(item));
  TheGlobal().changed.notify_all();
}

// True if the next item of the stream must come after that of another.
bool Machine::ComesAfter(const CUstream_st& stream, const CUstream_st& other) const {
  if (other.device != stream.device || other.items.empty()) return false;
  if (other.items.front().order >= stream.items.front().order) return false;
  return options_.model == Model::kSerial || (stream.is_default && other.blocking) ||
         (other.is_default && stream.blocking);
}

// True if all that the next item of the stream must come after is done, apart from the item's own
// condition.
bool Machine::InOrder(const CUstream_st& stream) const {
  return std::none_of(streams_.begin(), streams_.end(),
                      [&](const auto& other) { return ComesAfter(stream, *other); });
}

bool Machine::MayRun(CUstream_st& stream) {
  if (stream.items.empty()) return false;
  if (devices_[stream.device].error != cudaSuccess) return true;
  const Item& item = stream.items.front();
  return InOrder(stream) && (!item.ready || item.ready());
}

void Machine::Run(CUstream_st& stream) {
  const Item item = std::move(stream.items.front());
  stream.items.pop_front();
  ++now_;
  std::string error;
  // An unusable device does no work, but its events are recorded: queries return its error.
  if (!item.is_work) {
    error = item.run();
  } else {
    --stream.in_flight;
    if (devices_[stream.device].error == cudaSuccess) {
      memory_.Open(item.ports ? &*item.ports : nullptr);
      error = item.run();
      memory_.Close();
    }
  }
  if (!error.empty()) {
    LOG(ERROR) << error;
    diagnostics_.push_back(error);
    Break(stream.device, cudaErrorLaunchFailure);
  }
  if (stream.destroyed) Destroy(&stream);
  TheGlobal().changed.notify_all();
}

// Adds the stream if its next item may run, else the streams that it waits for.
void Machine::AddRunnable(CUstream_st* stream, std::set<CUstream_st*>* seen,
                          std::vector<CUstream_st*>* runnable) {
  if (stream->items.empty() || !seen->insert(stream).second) return;
  if (MayRun(*stream)) return runnable->push_back(stream);
  for (const auto& other : streams_) {
    if (ComesAfter(*stream, *other)) AddRunnable(other.get(), seen, runnable);
  }
  const Item& item = stream->items.front();
  if (!item.needs) return;
  for (CUstream_st* other : item.needs()) AddRunnable(other, seen, runnable);
}

bool Machine::RunOne(const Wanted& wanted) {
  const bool lazy = options_.model == Model::kLazy;
  std::vector<CUstream_st*> ready;
  std::set<CUstream_st*> seen;
  for (const auto& stream : streams_) {
    if (lazy) {
      if (wanted(*stream)) AddRunnable(stream.get(), &seen, &ready);
    } else if (MayRun(*stream)) {
      ready.push_back(stream.get());
    }
  }
  if (ready.empty()) return false;
  Run(*ready[draw_.Below(ready.size())]);
  return true;
}

void Machine::RunSome() {
  if (options_.model == Model::kLazy) return;
  Poll({}, [] { return false; });
}

void Machine::Poll(const Wanted& wanted, const std::function<bool()>& done) {
  // Half of the time none, so that the work issued by a call is still pending when it returns.
  constexpr int kAll = 1 << 30;
  constexpr int kItems[] = {0, 0, 0, 0, 1, 1, 4, kAll};
  const bool lazy = options_.model == Model::kLazy;
  int left = kItems[draw_.Below(std::size(kItems))];
  while (left-- > 0 && !(lazy && done()) && RunOne(wanted)) {
  }
}

bool Machine::Idle(int device) const {
  return std::all_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
    return stream->device != device || stream->items.empty();
  });
}

std::string Machine::Stuck() {
  std::string stuck;
  // Asking may let another item run: twice, so that no answer is outdated.
  for (int round = 0; round < 2; ++round) {
    for (const auto& stream : streams_) {
      if (MayRun(*stream)) return "";
    }
  }
  for (const auto& stream : streams_) {
    if (stream->items.empty()) continue;
    const Item& item = stream->items.front();
    absl::StrAppend(&stuck, Name(*stream), ": ", item.what, " waits for ",
                    InOrder(*stream) ? item.waits_for() : "work issued before on its device", "\n");
  }
  return stuck;
}

void Machine::Break(int device, cudaError_t error) {
  if (devices_[device].error == cudaSuccess) devices_[device].error = error;
}

Locked::Locked() : lock_(TheGlobal().mutex), machine_(TheGlobal().machine.get()) {}

void Locked::Wait() {
  if (machine_->polls()) {
    TheGlobal().changed.wait_for(lock_, std::chrono::milliseconds(1));
    return;
  }
  // A program that waits for ever says so, and for whom.
  const auto timeout = std::chrono::seconds(10);
  if (TheGlobal().changed.wait_for(lock_, timeout) == std::cv_status::timeout) {
    LOG(ERROR) << "the emulated GPU waits: " << machine_->Stuck();
  }
}

void Locked::RunUntil(const Machine::Wanted& wanted, const std::function<bool()>& done) {
  while (!done()) {
    if (!machine_->RunOne(wanted)) Wait();
  }
}

void Locked::WaitUntil(const std::function<bool()>& done) {
  while (!done()) Wait();
}

void Locked::NotifyAll() { TheGlobal().changed.notify_all(); }

void Replace(const Options& options) {
  Global& global = TheGlobal();
  std::lock_guard lock(global.mutex);
  global.machine.reset();
  global.machine = std::make_unique<Machine>(options);
}

}  // namespace oneflow::emulated
