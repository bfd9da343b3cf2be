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
      connected_(count_, false),
      runs_(
          self_ == 0,
          {.begins = [this](uint64_t run, std::string_view program, int64_t first_step,
                            int64_t steps) { member_->Begins(run, program, first_step, steps); },
           .report = [this](uint64_t run, int64_t step,
                            std::span<const double> values) { sender_.Report(run, step, values); },
           .fail = [this](const absl::Status& why) { return Fail(why); },
           .let_go = [this](const absl::Status& why) { network_->LetGo(why); }}),
      sender_([this](uint64_t run, int64_t step, std::span<const double> values) {
        member_->Report(run, step, values);
      }) {}

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
  callbacks.freeze = [self] { return self->runs_.Freeze(); };
  callbacks.stop_at = [self](const StepPosition& end) { self->runs_.StopAt(end); };
  callbacks.on_report = [self](uint64_t run, int64_t step, std::span<const double> values) {
    self->runs_.Deliver(run, step, values);
  };
  callbacks.on_note = made->options_.on_note;
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
  group.packets = across.packets;
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

void Processes::Attach(Runtime* runtime) { runs_.Attach(runtime); }

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
  return member_->Round(name, std::move(part), merge);
}

absl::Status Processes::Fail(const absl::Status& status) {
  member_->Fail(status);
  const absl::Status cause = member_->status();
  return cause.ok() ? status : cause;
}

absl::Status Processes::Leave() {
  sender_.Flush();
  RETURN_IF_ERROR(member_->Leave());
  network_->Close();
  return absl::OkStatus();
}

}  // namespace oneflow
