#include "training/trainer/processes/processes.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor_runtime/device/host_limits.h"
#include "actor_runtime/network/devices.h"
#include "oneflow_core/base/status.h"
#include "training/trainer/processes/launch.h"

namespace oneflow {
namespace {

std::string CoresKey(int process) { return absl::StrCat("cores of ", process); }
std::string NameKey(int process) { return absl::StrCat("name of ", process); }
std::string AddressKey(int process) { return absl::StrCat("network address of ", process); }

// Attempts of a job, and jobs on one host, must not take each other's messages for their own.
uint64_t JobNumber(const std::string& token) { return std::hash<std::string>()(token); }

absl::Status Unreachable(const std::string& interface, int process) {
  return InputError("--interface, --trust_network",
                    absl::StrCat("network device ", interface, " leads to no process ", process),
                    "name a network that all processes share, and that UCX_TLS does not exclude");
}

}  // namespace

Processes::Processes(ProcessesOptions options)
    : options_(std::move(options)),
      self_(options_.member.process),
      count_(options_.member.processes),
      connected_(count_, false),
      runs_(
          self_ == 0,
          {.begins = [this](uint64_t run, std::string_view program, int64_t first_step,
                            int64_t steps) { member_->Begins(run, program, first_step, steps); },
           .report = [this](uint64_t run, int64_t step,
                            std::span<const double> values) { sender_.Report(run, step, values); },
           .fails = [this](const absl::Status& why) { member_->Fail(why); },
           .await_end = [this] { return member_->AwaitEnd(); },
           .let_go =
               [this](const absl::Status& why) {
                 if (started_) network_->LetGo(why);
               }}),
      sender_([this](uint64_t run, int64_t step, std::span<const double> values) {
        member_->Report(run, step, values);
      }) {}

Processes::~Processes() {
  if (network_ != nullptr) network_->Close();
}

absl::StatusOr<std::unique_ptr<Processes>> Processes::Join(ProcessesOptions options) {
  std::unique_ptr<Processes> made(new Processes(std::move(options)));
  Processes* self = made.get();
  MemberCallbacks callbacks;
  callbacks.on_end = [self](const absl::Status& why) { self->End(why); };
  callbacks.freeze = [self] { return self->runs_.Freeze(); };
  callbacks.stop_at = [self](const StepPosition& end) { self->runs_.StopAt(end); };
  callbacks.on_report = [self](uint64_t run, int64_t step, std::span<const double> values) {
    self->runs_.Deliver(run, step, values);
  };
  callbacks.on_note = made->options_.on_note;
  callbacks.on_listen = made->options_.on_listening;
  callbacks.while_joining = made->options_.while_joining;
  callbacks.on_waits = made->options_.on_waits;
  ASSIGN_OR_RETURN(made->member_, Member::Join(made->options_.member, std::move(callbacks)));

  ASSIGN_OR_RETURN(made->cores_, made->ShareCoresOfHost());
  UcxOptions network;
  network.process = self->self_;
  network.processes = self->count_;
  network.job = JobNumber(self->options_.member.token);
  network.attempt = static_cast<uint32_t>(self->options_.member.attempt);
  ASSIGN_OR_RETURN(network.transports, made->ChooseTransports());
  network.interface = self->options_.interface.empty() ? "lo" : self->options_.interface;
  network.spin = self->MaySpin();
  if (const absl::Status opened = made->OpenNetwork(network); !opened.ok()) {
    return made->Fail(opened);
  }
  self->member_->Post(AddressKey(self->self_), self->network_->address());
  const MemberOptions& own = self->options_.member;
  self->member_->Post(
      NameKey(own.process),
      DescribeProcess({own.host.empty() ? HostName() : own.host, own.process, own.ranks}));
  return made;
}

// If one process gets no shared memory, all go over the network device.
absl::Status Processes::OpenNetwork(UcxOptions network) {
  const auto open = [&] {
    return UcxNetwork::Open(network, [this](int, const absl::Status& why) { member_->Fail(why); });
  };
  absl::StatusOr<std::unique_ptr<UcxNetwork>> opened = open();
  if (!network.transports.empty()) {  // a user's choice stands
    const auto first_error = [](std::span<const std::string> parts) -> absl::StatusOr<std::string> {
      const auto error =
          std::find_if(parts.begin(), parts.end(), [](const auto& part) { return !part.empty(); });
      return error == parts.end() ? std::string() : *error;
    };
    const std::string own(opened.status().message());
    ASSIGN_OR_RETURN(const std::string error, member_->Round("shared memory", own, first_error));
    if (!error.empty()) {
      if (self_ == 0 && options_.notice) {
        options_.notice(
            absl::StrCat("warning: ", error, "; exchanges go over ", network.interface));
      }
      opened = absl::CancelledError();  // first its resources are released
      network.transports = kNoSharedMemory;
      opened = open();
    }
  }
  RETURN_IF_ERROR(opened.status());
  network_ = *std::move(opened);
  return absl::OkStatus();
}

// If all processes can share memory, nothing listens. A user's choice stands.
absl::StatusOr<std::string> Processes::ChooseTransports() {
  const auto compare = [](std::span<const std::string> parts) -> absl::StatusOr<std::string> {
    const bool same =
        std::adjacent_find(parts.begin(), parts.end(), std::not_equal_to<>()) == parts.end();
    return std::string(same ? kSharedMemory : kAllTransports);
  };
  ASSIGN_OR_RETURN(const std::string chosen,
                   member_->Round("transports", SharedMemoryDomain(), compare));
  return std::getenv("UCX_TLS") == nullptr ? chosen : "";
}

// Process 0 knows what all may use, and tells each its share.
absl::StatusOr<CoreShare> Processes::ShareCoresOfHost() {
  const auto tell_all = [&](std::span<const std::string> parts) -> absl::StatusOr<std::string> {
    std::vector<ProcessCores> all;
    for (const std::string& part : parts) {
      ASSIGN_OR_RETURN(all.emplace_back(), DecodeProcessCores(part));
    }
    const std::vector<CoreShare> shares = ShareCores(all);
    for (int p = 0; p < count_; ++p) member_->Post(CoresKey(p), Encode(shares[p]));
    return std::string();
  };
  const std::string& host = options_.member.host;
  const ProcessCores own{host.empty() ? HostName() : host, CoresOfThread(), CpuQuota().value_or(0)};
  RETURN_IF_ERROR(member_->Round("cores", Encode(own), tell_all).status());
  ASSIGN_OR_RETURN(const std::string text, member_->Fetch(CoresKey(self_)));
  ASSIGN_OR_RETURN(CoreShare share, DecodeCoreShare(text));
  if (share.cores != own.cores) UseCores(share.cores);
  return share;
}

// The network's thread needs a core that no kernel is on: a thread that spins takes none from it.
bool Processes::MaySpin() const { return cores_.processes == 1 && cores_.threads > 1; }

void Processes::Configure(RuntimeOptions* options) {
  options->ranks = ranks();
  const int threads = options->threads;
  options->threads = threads > 0 ? std::max(1, threads / count_) : cores_.threads;
  // Consecutive processes of a host are the usual case; what is asked of its memory is the same.
  const int begin = options->ranks.begin - index_on_host() * options->ranks.size();
  options->ranks_of_host = {begin, begin + processes_on_host() * options->ranks.size()};
  if (index_on_host() > 0) options->notice = nullptr;
  options->make_communicator = [this](const Group& group, const ExchangeBounds& bounds) {
    return MakeCommunicator(group, bounds);
  };
  options->meet = [this] {
    // By now the first communicators are made, and all peers are known. GPUs have none of ours.
    const bool starts = far_ && !std::exchange(started_, true);
    if (starts) network_->Start();
    RETURN_IF_ERROR(Meet("communicators"));
    if (starts) network_->Watch(member_->silence());
    return absl::OkStatus();
  };
  options->spin = MaySpin();
}

absl::StatusOr<std::unique_ptr<Communicator>> Processes::MakeCommunicator(
    const Group& group, const ExchangeBounds& bounds) {
  far_ = true;
  for (int m = 0; m < group.members(); ++m) {
    const int process = group.FindProcess(m);
    if (process == self_ || connected_[process]) continue;
    ASSIGN_OR_RETURN(const std::string address, member_->Fetch(AddressKey(process)));
    ASSIGN_OR_RETURN(const std::string name, member_->Fetch(NameKey(process)));
    const absl::Status connected = network_->Connect(process, address, CleanText(name));
    if (absl::IsFailedPrecondition(connected)) return Unreachable(options_.interface, process);
    RETURN_IF_ERROR(connected);
    connected_[process] = true;
  }
  return network_->MakeCommunicator(group, bounds);
}

void Processes::End(const absl::Status& why) {
  runs_.End(why);
  // Nobody's memory is touched any more, though peers may hang.
  if (network_ != nullptr) network_->Break(why);
}

absl::Status Processes::Run(std::string_view program, RunContext context, int64_t steps,
                            int64_t reports) {
  return runs_.Run(program, std::move(context), steps, reports);
}

absl::StatusOr<std::string> Processes::Round(const std::string& name, std::string part,
                                             const Merge& merge) {
  return member_->Round(name, std::move(part), [&](std::span<const std::string> parts) {
    absl::StatusOr<std::string> answer = merge(parts);
    // Before the others get it, and take it for theirs.
    if (!answer.ok()) member_->Fail(answer.status());
    return answer;
  });
}

std::string Processes::MemoryOfLinks() const {
  const TransportMemory memory = network_->memory();
  return absl::StrFormat(
      "transport: %.1f MB of memory in process %d, and %.1f MB that it shares with others",
      static_cast<double>(memory.private_bytes) * 1e-6, self_,
      static_cast<double>(memory.shared_bytes) * 1e-6);
}

// By the shortest round trip; the first one may not be complete yet.
ProcessGroup::ClockOffset Processes::AwaitClockOffset() const {
  for (;;) {
    const Member::ClockOffset offset = member_->clock_offset();
    if (offset.error_seconds >= 0 || !member_->status().ok()) {
      return {offset.seconds, offset.error_seconds};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

absl::Status Processes::Fail(const absl::Status& status) {
  member_->Fail(status);
  const absl::Status end = member_->AwaitEnd();
  return end.ok() ? status : end;
}

absl::Status Processes::Leave() {
  sender_.Flush();
  RETURN_IF_ERROR(member_->Leave());
  network_->Close();
  return absl::OkStatus();
}

}  // namespace oneflow
