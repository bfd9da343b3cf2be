#include "planning/measure/gpu_time.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/kernel/run_context.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/tensor/bf16.h"
#include "planning/measure/repeat.h"

namespace oneflow {
namespace {

constexpr int kQueue = 32;             // calls that are given to a stream at once
constexpr int kLeastCalls = 3;         // that are timed
constexpr int64_t kAlignment = 256;    // of tensors
constexpr int64_t kPattern = 1 << 20;  // bytes; larger tensors repeat it
constexpr double kShortest = 1e-9;     // seconds that are distinguished from none

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int64_t PortBytes(const Port& port) {
  return port.slice.elements() * static_cast<int64_t>(ElementBytes(port.dtype));
}

// Numbers of different bits, for a GPU is faster on zeros; whole numbers are ids below 61.
void FillPattern(DType dtype, std::span<std::byte> pattern) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> values(-0.5f, 0.5f);
  const auto fill = [&](auto next) {
    const auto step = sizeof(decltype(next()));
    for (size_t at = 0; at + step <= pattern.size(); at += step) {
      const auto value = next();
      std::memcpy(&pattern[at], &value, step);
    }
  };
  switch (dtype) {
    case DType::kF32: return fill([&] { return values(random); });
    case DType::kF64: return fill([&] { return static_cast<double>(values(random)); });
    case DType::kBF16: return fill([&] { return ToBf16(values(random)); });
    case DType::kI32: return fill([&] { return static_cast<int32_t>(random() % 61); });
    default: return fill([&] { return uint8_t{1}; });
  }
}

// A device of rank 0 with one stream and the memory of one call.
class OneDevice {
 public:
  static absl::StatusOr<OneDevice> Make(const DeviceBackend& backend, int64_t bytes,
                                        int64_t host_bytes) {
    OneDevice one;
    ASSIGN_OR_RETURN(const DeviceFacts facts, backend.facts_of(0));
    if (bytes > facts.free_bytes / 2) {
      return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes are more than half of the ",
                                                       facts.free_bytes, " that are free"));
    }
    one.backend_ = &backend;
    ASSIGN_OR_RETURN(one.device_, backend.make_device(0));
    RETURN_IF_ERROR(one.device_->Attach());
    ASSIGN_OR_RETURN(one.memory_, one.device_->Allocate(proto::DEVICE, bytes));
    ASSIGN_OR_RETURN(one.host_, one.device_->Allocate(proto::HOST, host_bytes));
    ASSIGN_OR_RETURN(one.stream_, one.device_->MakeStream(kQueue, /*timed=*/true));
    return one;
  }

  Device& device() { return *device_; }
  std::byte* memory() const { return memory_; }
  std::byte* host() const { return host_; }
  void* stream() const { return stream_->handle(); }

  // Numbers in `bytes` of the device's memory. Requires kPattern bytes of the host's.
  absl::Status Fill(DType dtype, std::byte* target, int64_t bytes) {
    FillPattern(dtype, {host_, static_cast<size_t>(kPattern)});
    for (int64_t at = 0; at < bytes; at += kPattern) {
      ASSIGN_OR_RETURN(const Kernel copy,
                       MakeCopy(*backend_, *device_, "copy_in", std::min(kPattern, bytes - at)));
      RETURN_IF_ERROR(Copy(copy, host_, target + at));
    }
    return device_->Synchronize();
  }

  static absl::StatusOr<Kernel> MakeCopy(const DeviceBackend& backend, Device& device,
                                         const std::string& kind, int64_t bytes) {
    const Port port{DType::kU8, {bytes}, Slice{{0}, {bytes}}, {}};
    KernelSetup setup;
    setup.kind = setup.name = kind;
    setup.in = {{port}};
    setup.out = {port};
    return backend.make_kernel(device, setup);
  }
  absl::Status Copy(const Kernel& copy, const std::byte* from, std::byte* to) const {
    const std::span<const std::byte* const> in(&from, 1);
    KernelCall call;
    call.in = {&in, 1};
    call.out = {&to, 1};
    call.stream = stream();
    return copy(call);
  }

  // When each of `count` calls ran, at most kQueue.
  absl::StatusOr<std::vector<LaunchTimes>> Run(int count,
                                               const std::function<absl::Status()>& call) {
    RETURN_IF_ERROR(device_->StartClock());
    for (int n = 0; n < count; ++n) {
      RETURN_IF_ERROR(stream_->Begin(n));
      RETURN_IF_ERROR(call());
      RETURN_IF_ERROR(stream_->Record(n));
    }
    RETURN_IF_ERROR(device_->Synchronize());
    std::vector<LaunchTimes> times(count);
    for (int n = 0; n < count; ++n) {
      RETURN_IF_ERROR(stream_->IsOver(n).status());
      ASSIGN_OR_RETURN(times[n], stream_->ReadTimes(n));
    }
    return times;
  }

  // One call to warm up, then as many as fit in `budget` seconds, kQueue at a time.
  absl::StatusOr<GpuTime> Time(double budget, const std::function<absl::Status()>& call) {
    RETURN_IF_ERROR(Run(1, call).status());
    std::vector<double> seconds;
    const auto start = std::chrono::steady_clock::now();
    do {
      ASSIGN_OR_RETURN(const std::vector<LaunchTimes> times,
                       Run(Next(seconds, start, budget), call));
      for (const LaunchTimes& t : times) {
        seconds.push_back(static_cast<double>(t.end_ns - t.begin_ns) * 1e-9);
      }
    } while (seconds.size() < kLeastCalls || SecondsSince(start) < budget);
    GpuTime time;
    time.host_seconds = SecondsSince(start) / static_cast<double>(seconds.size());
    time.seconds = std::max(kShortest, Median(std::move(seconds)));
    return time;
  }

 private:
  // As many as took an eighth of the budget so far; the first are one by one.
  static int Next(const std::vector<double>& seconds, std::chrono::steady_clock::time_point start,
                  double budget) {
    if (seconds.size() < kLeastCalls) return 1;
    const double one = SecondsSince(start) / static_cast<double>(seconds.size());
    return static_cast<int>(std::clamp(budget / 8 / one, 1.0, static_cast<double>(kQueue)));
  }

  const DeviceBackend* backend_ = nullptr;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceStream> stream_;  // gone before the device
  std::byte* memory_ = nullptr;
  std::byte* host_ = nullptr;
};

// One call of a kernel, with its addresses. Not moved once made: the call points into it.
class OneCall {
 public:
  OneCall(const KernelSetup& setup, std::byte* memory) {
    int64_t at = 0;
    const auto take = [&](int64_t bytes) {
      std::byte* const address = memory == nullptr ? nullptr : memory + at;
      at += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      return address;
    };
    for (const auto& sources : setup.in) in_.push_back(take(PortBytes(sources[0])));
    for (const Port& port : setup.out) out_.push_back(take(PortBytes(port)));
    workspace_ = take(setup.workspace_bytes);
    bytes_ = std::max(kAlignment, at);
    for (const std::byte*& base : in_) spans_.push_back({&base, 1});
    run_.optimizer = [](int64_t step) { return StepNumbers{1e-4, 0.9, 0.95, 1e-8, 0.1, 1, step}; };
    call_.in = spans_;
    call_.out = out_;
    call_.workspace = {workspace_, static_cast<size_t>(setup.workspace_bytes)};
    call_.run = &run_;
  }
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;

  int64_t bytes() const { return bytes_; }
  const KernelCall& OnStream(void* stream) {
    call_.stream = stream;
    return call_;
  }
  std::byte* in(size_t i) const { return const_cast<std::byte*>(in_[i]); }
  std::byte* out(size_t i) const { return out_[i]; }

 private:
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<std::span<const std::byte* const>> spans_;
  std::byte* workspace_ = nullptr;
  int64_t bytes_ = 0;
  RunContext run_;
  KernelCall call_;
};

// One member of an all-gather, on its own thread: a device's calls may wait for others'.
class Gatherer {
 public:
  static absl::StatusOr<Gatherer> Make(const DeviceBackend& backend, int rank,
                                       PlannedExchange::Member* member) {
    Gatherer g;
    g.rank_ = rank;
    const int64_t in = PortBytes(member->setup.in[0][0]), out = PortBytes(member->setup.out[0]);
    ASSIGN_OR_RETURN(g.device_, backend.make_device(rank));
    RETURN_IF_ERROR(g.device_->Attach());
    ASSIGN_OR_RETURN(g.memory_, g.device_->Allocate(proto::DEVICE, in + out + kAlignment));
    ASSIGN_OR_RETURN(g.stream_, g.device_->MakeStream(kQueue, /*timed=*/true));
    g.out_ = g.memory_ + (in + kAlignment - 1) / kAlignment * kAlignment;
    member->device = g.device_.get();
    return g;
  }

  // `count` exchanges, at most kQueue; seconds from the begin of the first to the end of the last.
  absl::StatusOr<double> Run(int count, const ExchangeWork& work, Communicator& communicator) {
    RETURN_IF_ERROR(device_->Attach());
    RETURN_IF_ERROR(device_->StartClock());
    const std::byte* const in = memory_;
    for (int n = 0; n < count; ++n) {
      RETURN_IF_ERROR(stream_->Begin(n));
      communicator.Enter(rank_, {&work, {&in, 1}, {&out_, 1}, false, {}, stream_.get()});
      Communicator::Progress progress = Communicator::kWaiting;
      while (progress != Communicator::kOver && progress != Communicator::kFailed) {
        progress = communicator.Poll(rank_, nullptr);
        if (progress == Communicator::kWaiting) std::this_thread::yield();
      }
      if (progress == Communicator::kFailed) return communicator.status();
      RETURN_IF_ERROR(stream_->Record(n));
    }
    RETURN_IF_ERROR(device_->Synchronize());
    LaunchTimes first, last;
    for (int n = 0; n < count; ++n) {
      RETURN_IF_ERROR(stream_->IsOver(n).status());
      ASSIGN_OR_RETURN(last, stream_->ReadTimes(n));
      if (n == 0) first = last;
    }
    return static_cast<double>(last.end_ns - first.begin_ns) * 1e-9;
  }

 private:
  int rank_ = 0;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceStream> stream_;  // gone before the device
  std::byte *memory_ = nullptr, *out_ = nullptr;
};

PlannedExchange MakeAllGather(int ranks, int64_t bytes) {
  const int64_t n = std::max<int64_t>(1, bytes / 4);
  const Dims dims = {ranks, n};
  PlannedExchange exchange;
  for (int r = 0; r < ranks; ++r) {
    KernelSetup& setup = exchange.members.emplace_back().setup;
    setup.kind = setup.name = "all_gather";
    setup.mesh.axes = {{"data", ranks}};
    setup.coordinate = {r};
    setup.in = {{{DType::kF32, dims, Slice{{r, 0}, {1, n}}, {r}}}};
    setup.out = {{DType::kF32, dims, Slice{{0, 0}, dims}, {r}}};
    exchange.far.near.push_back(1);
  }
  return exchange;
}

}  // namespace

absl::StatusOr<GpuTime> TimeOnGpu(const DeviceBackend& backend, const TimedOp& op, double budget) {
  ASSIGN_OR_RETURN(const TimedKernel timed, MakeTimedKernel(op, proto::CUDA, /*threads=*/1));
  const KernelSetup& setup = timed.setup;
  const int64_t bytes = OneCall(setup, nullptr).bytes();
  ASSIGN_OR_RETURN(OneDevice one, OneDevice::Make(backend, bytes, kPattern));
  ASSIGN_OR_RETURN(const Kernel kernel, backend.make_kernel(one.device(), setup));
  OneCall call(setup, one.memory());
  for (size_t i = 0; i < setup.in.size(); ++i) {
    RETURN_IF_ERROR(one.Fill(setup.in[i][0].dtype, call.in(i), PortBytes(setup.in[i][0])));
  }
  for (size_t i = 0; i < setup.out.size(); ++i) {  // some update what is there
    RETURN_IF_ERROR(one.Fill(setup.out[i].dtype, call.out(i), PortBytes(setup.out[i])));
  }
  ASSIGN_OR_RETURN(GpuTime time,
                   one.Time(budget, [&] { return kernel(call.OnStream(one.stream())); }));
  time.flops = timed.flops;
  time.bytes = timed.bytes;
  return time;
}

absl::StatusOr<GpuTime> TimeHostCopy(const DeviceBackend& backend, const std::string& kind,
                                     int64_t bytes, double budget) {
  ASSIGN_OR_RETURN(OneDevice one, OneDevice::Make(backend, bytes, bytes));
  ASSIGN_OR_RETURN(const Kernel copy, OneDevice::MakeCopy(backend, one.device(), kind, bytes));
  const bool in = kind == "copy_in";
  ASSIGN_OR_RETURN(GpuTime time, one.Time(budget, [&] {
    return in ? one.Copy(copy, one.host(), one.memory()) : one.Copy(copy, one.memory(), one.host());
  }));
  time.bytes = 2 * static_cast<double>(bytes);  // read and written, as the cost model counts
  return time;
}

absl::StatusOr<double> TimeLaunch(const DeviceBackend& backend, double budget) {
  const TimedInput one_value{{1}};
  ASSIGN_OR_RETURN(const TimedKernel timed,
                   MakeTimedKernel({kSumKernel, {one_value, one_value}, {}}, proto::CUDA, 1));
  ASSIGN_OR_RETURN(OneDevice one, OneDevice::Make(backend, 4 * kAlignment, kAlignment));
  ASSIGN_OR_RETURN(const Kernel kernel, backend.make_kernel(one.device(), timed.setup));
  OneCall call(timed.setup, one.memory());
  std::vector<double> gaps;
  const auto start = std::chrono::steady_clock::now();
  do {
    ASSIGN_OR_RETURN(const std::vector<LaunchTimes> times,
                     one.Run(kQueue, [&] { return kernel(call.OnStream(one.stream())); }));
    int64_t between = times.back().end_ns - times.front().begin_ns;
    for (const LaunchTimes& t : times) between -= t.end_ns - t.begin_ns;
    gaps.push_back(static_cast<double>(std::max<int64_t>(0, between)) * 1e-9 / (kQueue - 1));
  } while (gaps.size() < kLeastCalls || SecondsSince(start) < budget);
  return std::max(kShortest, Median(std::move(gaps)));
}

absl::StatusOr<GpuTime> TimeAllGather(const DeviceBackend& backend, int ranks, int64_t bytes,
                                      double budget) {
  PlannedExchange exchange = MakeAllGather(ranks, bytes);
  std::vector<Gatherer> members;
  GroupUse use;
  for (int r = 0; r < ranks; ++r) {
    ASSIGN_OR_RETURN(Gatherer member, Gatherer::Make(backend, r, &exchange.members[r]));
    members.push_back(std::move(member));
    use.devices.push_back(exchange.members[r].device);
  }
  ASSIGN_OR_RETURN(const ExchangeWork work, backend.carrier->Bind(exchange));
  use.works = {&work};
  ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                   backend.carrier->Make({}, use));
  communicator->SetWake([](int) {});
  // All members, each on its thread; rank 0 tells the time.
  const auto run = [&](int count) -> absl::StatusOr<double> {
    std::vector<absl::StatusOr<double>> seconds(ranks, 0.0);
    {
      std::vector<std::jthread> threads;
      for (int r = 0; r < ranks; ++r) {
        threads.emplace_back([&, r] {
          seconds[r] = members[r].Run(count, work, *communicator);
          // Others would wait for it.
          if (!seconds[r].ok()) communicator->Abort(seconds[r].status());
        });
      }
    }
    for (const absl::StatusOr<double>& s : seconds) RETURN_IF_ERROR(s.status());
    return seconds[0];
  };
  RETURN_IF_ERROR(run(1).status());
  std::vector<double> seconds;
  const auto start = std::chrono::steady_clock::now();
  do {
    ASSIGN_OR_RETURN(const double of_all, run(kQueue / 4));
    seconds.push_back(of_all / (kQueue / 4));
  } while (seconds.size() < kLeastCalls || SecondsSince(start) < budget);
  GpuTime time;
  time.host_seconds = SecondsSince(start) / static_cast<double>(seconds.size() * (kQueue / 4));
  time.seconds = std::max(kShortest, Median(std::move(seconds)));
  time.bytes = static_cast<double>(std::max<int64_t>(1, bytes / 4) * 4 * (ranks - 1));
  return time;
}

}  // namespace oneflow
