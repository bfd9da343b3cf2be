#include "tools/oneflow/processes/processes.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "actor_runtime/device/cores.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/processes/launch.h"

namespace oneflow {
namespace {

std::string AddressKey(int process) { return absl::StrCat("network address of ", process); }

// Attempts of a job, and jobs on one host, must not take each other's messages for their own.
uint64_t JobNumber(const std::string& token) { return std::hash<std::string>()(token); }

}  // namespace

Processes::Processes(ProcessesOptions options)
    : options_(std::move(options)),
      self_(options_.member.process),
      count_(options_.member.processes),
      connected_(count_, false) {}

Processes::~Processes() {
  if (network_ != nullptr) network_->Close();
}

absl::StatusOr<std::unique_ptr<Processes>> Processes::Join(ProcessesOptions options) {
  if (options.ranks % options.member.processes != 0) {
    return InputError(absl::StrCat("--processes=", options.member.processes),
                      absl::StrCat("the plan's ", options.ranks,
                                   " devices cannot be divided evenly among so many processes"),
                      "use a number that divides them");
  }
  std::unique_ptr<Processes> made(new Processes(std::move(options)));
  Processes* self = made.get();
  MemberCallbacks callbacks;
  callbacks.on_end = [self](const absl::Status& why) { self->End(why); };
  callbacks.freeze = [self] { return self->stop_.Hold(); };
  callbacks.stop_at = [self](const StepPosition& end) {
    self->stop_.EndAt(end, [self] {
      const std::lock_guard lock(self->mutex_);
      if (self->runtime_ != nullptr) self->runtime_->Wake();
    });
  };
  callbacks.on_report = [self](uint64_t run, int64_t step, std::span<const double> values) {
    self->reports_.Deliver(run, step, values);
  };
  callbacks.on_listen = made->options_.on_listening;
  ASSIGN_OR_RETURN(made->member_, Member::Join(made->options_.member, std::move(callbacks)));

  // Where a launcher leaves all cores to all processes of a host, each takes a share.
  const int here = made->member_->processes_on_host();
  const std::vector<int> cores = CoresOfThread();
  if (here > 1 && std::ssize(cores) == sysconf(_SC_NPROCESSORS_ONLN)) {
    UseCores(ShareOfCores(cores, made->member_->index_on_host(), here));
  }
  UcxOptions network;
  network.process = self->self_;
  network.processes = self->count_;
  network.job = JobNumber(self->options_.member.token);
  network.attempt = static_cast<uint32_t>(self->options_.member.attempt);
  network.interface = self->options_.interface.empty() ? "lo" : self->options_.interface;
  network.spin = here <= Cores();
  ASSIGN_OR_RETURN(
      made->network_, UcxNetwork::Open(network, [self](int process, const absl::Status& why) {
        self->member_->Fail(process < 0 ? why : Annotate(why, absl::StrCat("process ", process)));
      }));
  self->member_->Post(AddressKey(self->self_), self->network_->address());
  return made;
}

RankRange Processes::ranks() const {
  const int each = options_.ranks / count_;
  return {self_ * each, (self_ + 1) * each};
}

void Processes::Configure(RuntimeOptions* options) {
  options->ranks = ranks();
  options->make_communicator = [this](const GroupAcross& across) {
    return MakeCommunicator(across);
  };
  options->meet = [this] {
    // By now the first communicators are made, and all peers are known.
    if (!std::exchange(started_, true)) network_->Start();
    return Meet("communicators");
  };
  options->spin = member_->processes_on_host() <= Cores();
}

absl::StatusOr<std::unique_ptr<Communicator>> Processes::MakeCommunicator(
    const GroupAcross& across) {
  FarGroup group{across.communicator, {}, self_, across.tensors, across.first};
  for (const int32_t rank : across.ranks) {
    const int process = rank / ranks().size();
    group.process.push_back(process);
    if (process == self_ || connected_[process]) continue;
    ASSIGN_OR_RETURN(const std::string address, member_->Fetch(AddressKey(process)));
    RETURN_IF_ERROR(network_->Connect(process, address));
    connected_[process] = true;
  }
  return network_->MakeCommunicator(group);
}

absl::Status Processes::Meet(const std::string& name) {
  return Round(name, "", [](std::span<const std::string>) { return std::string(); }).status();
}

void Processes::Attach(Runtime* runtime) {
  const std::lock_guard lock(mutex_);
  runtime_ = runtime;
  if (runtime != nullptr && !ended_.ok()) runtime->End(ended_);
}

void Processes::End(const absl::Status& why) {
  stop_.Abandon();
  {
    const std::lock_guard lock(mutex_);
    ended_ = why;
    if (runtime_ != nullptr) runtime_->End(why);
  }
  reports_.End(why);
  // Nobody's memory is touched any more, though peers may hang.
  if (network_ != nullptr) network_->Break(why);
}

absl::Status Processes::Run(std::string_view program, RunContext context, int64_t steps,
                            int64_t reports) {
  StepGate* const gate = stop_.StartRun();
  const uint64_t run = stop_.number();
  member_->Begins(run, program, context.first_step, steps);
  {
    // A run that has not begun cannot be ended.
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(ended_);
  }
  if (context.report) {
    if (IsFirst()) {
      reports_.Take(run, std::move(context.report));
      context.report = [this, run](int64_t step, std::span<const double> values) {
        reports_.Deliver(run, step, values);
      };
    } else {
      context.report = [this, run](int64_t step, std::span<const double> values) {
        member_->Report(run, step, values);
      };
    }
  }
  const absl::Status status =
      runtime_->Run(program, context, steps, {.gate = reports > 0 ? gate : nullptr});
  // The last step that began may not be done.
  if (program == "train") {
    const int64_t begun = stop_.begun();
    steps_done_ =
        context.first_step + reports * (status.ok() ? begun : std::max<int64_t>(0, begun - 1));
  }
  if (!status.ok()) return Fail(status);
  stopped_ = stop_.StopHere();
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(ended_);
  }
  if (IsFirst()) RETURN_IF_ERROR(reports_.Await(runtime_->steps_done() * reports));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Processes::Round(const std::string& name, std::string part,
                                             const Merge& merge) {
  return member_->Round(name, std::move(part), merge);
}

absl::Status Processes::Fail(const absl::Status& status) {
  member_->Fail(status);
  const absl::Status cause = member_->status();
  return cause.ok() ? status : cause;
}

absl::Status Processes::Leave() {
  RETURN_IF_ERROR(member_->Leave());
  network_->Close();
  return absl::OkStatus();
}

}  // namespace oneflow
