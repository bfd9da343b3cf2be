#include "planning/measure/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/cores.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/measure/actor_plans.h"
#include "planning/measure/actor_time.h"
#include "planning/measure/far_pair.h"
#include "planning/measure/kernel_time.h"
#include "planning/measure/memory_rate.h"
#include "planning/measure/timed_calls.h"

namespace oneflow {
namespace {

constexpr int kChain = 64;
// Entered, asked for, sent, done: one after the other.
constexpr int kMessagesOfEntry = 4;
constexpr int64_t kTransferElements = int64_t{1} << 22;

std::string Processor() {
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "this machine";
}

// The measurements, one after the other.
class Calibration {
 public:
  explicit Calibration(const CalibrateOptions& options)
      : options_(options),
        ladders_(CallsToTime(proto::CPU)),
        // Memory, a transfer, copies to the host's arena, a firing, two kinds of message; two kinds
        // of message over two links.
        total_(CountCalls() + 6 + (options.processes > 1 ? 4 : 0)),
        budget_(options.seconds / total_) {}

  absl::StatusOr<proto::Cluster> Measure() {
    cluster_.set_name(Processor());
    device_.set_kernel_threads(options_.threads);
    device_.set_memory_bytes(static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                             sysconf(_SC_PAGE_SIZE) / options_.devices);
    cluster_.set_cores(Cores());
    level_.set_name("process");
    level_.set_size(options_.devices / options_.processes);
    if (options_.processes > 1) {
      RETURN_IF_ERROR(MeasureLink("host", options_.processes, ""));
      RETURN_IF_ERROR(MeasureLink("network", 0, "tcp,self"));
    }
    for (const Ladder& ladder : ladders_) {
      for (const TimedOp& op : ladder) RETURN_IF_ERROR(MeasureKernel(op));
    }
    RETURN_IF_ERROR(MeasureBandwidth());
    RETURN_IF_ERROR(MeasureActors());
    return std::move(cluster_);
  }

 private:
  int CountCalls() const {
    return std::accumulate(ladders_.begin(), ladders_.end(), 0, [](int calls, const Ladder& l) {
      return calls + static_cast<int>(l.size());
    });
  }

  void Next(const std::string& what) {
    if (options_.progress) options_.progress(done_, total_, what);
    ++done_;
  }

  absl::Status MeasureKernel(const TimedOp& op) {
    const DType dtype = op.inputs[0].dtype;
    Next(absl::StrCat(FormName(op), " ", ToAbsl(Name(dtype)), " ", FormatShapes(op)));
    const absl::StatusOr<KernelTime> time =
        TimeKernel(op, options_.threads, budget_, options_.devices);
    // Kernels that know no bf16 are left out.
    if (!time.ok() && dtype == DType::kBF16) return absl::OkStatus();
    RETURN_IF_ERROR(Annotate(time.status(), op.kind));
    proto::KernelTime* entry = device_.add_kernel_time();
    entry->set_kernel(FormName(op));
    entry->set_dtype(ToProto(dtype));
    entry->set_inputs(FormatShapes(op));
    entry->set_flops(time->flops);
    entry->set_bytes(time->bytes);
    entry->set_seconds(time->seconds);
    if (FindOpDef(op.kind, op.attrs)->product) {
      const double rate = time->flops / time->seconds;
      dtype == DType::kBF16 ? device_.set_peak_flops_bf16(std::max(rate, device_.peak_flops_bf16()))
                            : device_.set_peak_flops(std::max(rate, device_.peak_flops()));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureBandwidth() {
    Next("memory");
    ASSIGN_OR_RETURN(const MemoryRate memory,
                     MeasureMemory(options_.threads, kBeyondCaches, budget_));
    device_.set_memory_bandwidth(memory.copy);
    device_.set_read_bandwidth(memory.read);
    Next("a transfer between devices");
    ASSIGN_OR_RETURN(const KernelTime transfer,
                     TimeKernel({kCopyKernel, {{{kTransferElements}}}, {}}, options_.threads,
                                budget_, options_.devices));
    level_.set_bandwidth(transfer.bytes / 2 / transfer.seconds);
    return MeasureHostLink();
  }

  // A CPU device's arena in host memory is memory like its own: both directions are the same copy,
  // by one thread of each device, all at the same time.
  absl::Status MeasureHostLink() {
    Next("copies to the host's arena");
    ASSIGN_OR_RETURN(const MemoryRate memory,
                     MeasureMemory(options_.devices, kBeyondCaches, budget_));
    const double copied = memory.copy / 2 / options_.devices;
    cluster_.mutable_host_link()->set_to_host(copied);
    cluster_.mutable_host_link()->set_from_host(copied);
    return absl::OkStatus();
  }

  // Links between processes, or hosts.
  absl::Status MeasureLink(const std::string& name, int size, const std::string& transports) {
    FarPairOptions pair{.transports = transports, .interface = options_.interface};
    pair.seconds = budget_;
    Next(absl::StrCat("between processes, over ", transports.empty() ? "any transport" : "TCP"));
    ASSIGN_OR_RETURN(const LinkRate spinning, MeasureFarPair(pair));
    Next("the same, asleep");
    pair.spin = false;
    ASSIGN_OR_RETURN(const LinkRate sleeping, MeasureFarPair(pair));
    proto::Level* level = cluster_.add_level();
    level->set_name(name);
    level->set_size(size);
    level->set_bandwidth(spinning.bandwidth);
    level->set_latency(spinning.entry_seconds / kMessagesOfEntry);
    level->set_sleeping_latency(sleeping.entry_seconds / kMessagesOfEntry);
    return absl::OkStatus();
  }

  absl::Status MeasureActors() {
    Next("a firing");
    ASSIGN_OR_RETURN(const double chain, TimeStep(ChainOfActors(kChain), budget_));
    device_.set_firing_seconds(chain / kChain);
    Next("a message");
    ASSIGN_OR_RETURN(const double spinning, TimeStep(PingPong(), budget_));
    level_.set_latency(spinning / 2);
    Next("a message to a sleeping worker");
    ASSIGN_OR_RETURN(const double sleeping, TimeStep(PingPong(), budget_, /*spin=*/false));
    level_.set_sleeping_latency(sleeping / 2);
    return absl::OkStatus();
  }

  const CalibrateOptions& options_;
  const std::vector<Ladder> ladders_;
  const int total_;
  const double budget_;  // seconds of a measurement
  int done_ = 0;
  proto::Cluster cluster_;
  proto::Device& device_ = *cluster_.mutable_device();
  proto::Level& level_ = *cluster_.add_level();
};

}  // namespace

absl::StatusOr<proto::Cluster> Calibrate(const CalibrateOptions& options) {
  return Calibration(options).Measure();
}

}  // namespace oneflow
