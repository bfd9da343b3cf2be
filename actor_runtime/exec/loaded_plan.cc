#include "actor_runtime/exec/loaded_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/host_limits.h"
#include "actor_runtime/exec/instantiate.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// The host is not asked about plans of fewer bytes, which is less than the program itself takes.
constexpr int64_t kSmall = int64_t{16} << 20;

std::shared_ptr<Carrier> ChooseCarrier(const LoadOptions& options) {
  const DeviceBackend* backend = options.make_kernel ? options.backend : nullptr;
  if (backend == nullptr) return MakeHostCarrier(options.make_communicator);
  return backend->carrier ? backend->carrier : MakeSharedGpuCarrier(backend->make_kernel);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedPlan>> LoadedPlan::Load(proto::Plan plan,
                                                             const LoadOptions& options) {
  RETURN_IF_ERROR(options.prove ? VerifyPlan(plan, {.kernels = options.own_kernels})
                                : VerifyTypes(plan));
  std::unique_ptr<LoadedPlan> loaded(new LoadedPlan);
  loaded->plan_ = std::move(plan);
  RETURN_IF_ERROR(loaded->CheckKind(options));
  const proto::Plan& p = loaded->plan_;
  ASSIGN_OR_RETURN(loaded->mesh_, MakeStageMesh(p));
  loaded->ranks_ = options.ranks.size() > 0 ? options.ranks : RankRange{0, loaded->mesh_.ranks()};
  const RankRange& own = loaded->ranks_;
  if (own.begin < 0 || own.end > loaded->mesh_.ranks()) {
    return InputError(absl::StrCat("ranks ", own.begin, " to ", own.end - 1),
                      absl::StrCat("are not all of the plan, which has ", loaded->mesh_.ranks()),
                      "give a process a block of the plan's ranks");
  }
  for (int i = 0; i < p.program_size(); ++i) {
    ASSIGN_OR_RETURN(ActorNet net, Instantiate(p, i, loaded->mesh_, own));
    LoadedProgram& program = loaded->programs_.emplace_back();
    program.works.resize(net.exchanges.size());
    program.net = std::move(net);
  }
  loaded->carrier_ = ChooseCarrier(options);
  loaded->timed_ = options.timed;
  RETURN_IF_ERROR(loaded->AddGroups());
  if (!options.make_kernel) return loaded;

  // The planner sized the workspaces for this many threads.
  loaded->kernel_threads_ =
      std::clamp(options.threads / own.size(), 1, std::max(1, p.kernel_threads()));
  RETURN_IF_ERROR(loaded->CheckHost(options));
  RETURN_IF_ERROR(loaded->MakeDevices(options));
  for (int i = 0; i < p.program_size(); ++i) RETURN_IF_ERROR(loaded->BindProgram(i, options));
  return loaded;
}

absl::Status LoadedPlan::CheckKind(const LoadOptions& options) const {
  const proto::DeviceKind has = options.backend == nullptr ? proto::CPU : options.backend->kind;
  if (!options.make_kernel || plan_.device_kind() == has) return absl::OkStatus();
  return InputError(
      "plan",
      absl::StrCat("is for devices of kind ", proto::DeviceKind_Name(plan_.device_kind()),
                   ", this runtime has ", proto::DeviceKind_Name(has)),
      "compile it with the --device that it is to run on");
}

// Memory and threads are asked for before they are taken: later the kernel kills, or a library ends
// the process.
absl::Status LoadedPlan::CheckHost(const LoadOptions& options) const {
  if (!options.has_workers) return absl::OkStatus();
  const auto bytes_of = [&](const RankRange& ranks) {
    int64_t bytes = 0;
    for (const proto::StageMemory& memory : plan_.memory()) {
      if (options.backend != nullptr && memory.kind() == proto::DEVICE) continue;
      for (int rank = ranks.begin; rank < ranks.end; ++rank) {
        if (mesh_.RankToStage(rank) == memory.stage()) bytes += memory.arena_bytes();
      }
    }
    return bytes;
  };
  const RankRange& of_host = options.ranks_of_host.size() > 0 ? options.ranks_of_host : ranks_;
  const PlannedMemory planned{.of_process = bytes_of(ranks_), .of_host = bytes_of(of_host)};
  if (planned.of_host >= kSmall) RETURN_IF_ERROR(CheckMemory(planned, options.notice));
  // The worker of a device is one of its kernel threads.
  const int of_rank = options.backend == nullptr ? kernel_threads_ : 1;
  int most_alone = 0;
  for (const LoadedProgram& program : programs_) {
    int alone = 0;
    for (const StreamOrder& stream : program.net.streams) {
      if (!stream.alone) continue;
      alone += stream.kind == proto::Stream::HOST_COMPUTE ? kernel_threads_ : 1;
    }
    most_alone = std::max(most_alone, alone);
  }
  return CheckThreads(ranks_.size() * of_rank + most_alone + 1);
}

absl::Status LoadedPlan::MakeDevices(const LoadOptions& options) {
  for (int rank = ranks_.begin; rank < ranks_.end; ++rank) {
    if (options.backend != nullptr) {
      ASSIGN_OR_RETURN(std::unique_ptr<Device> device, options.backend->make_device(rank));
      devices_.push_back(std::move(device));
      streams_.emplace_back();
    }
    ASSIGN_OR_RETURN(DeviceMemory memory,
                     DeviceMemory::Create(plan_, mesh_.RankToStage(rank), FindDevice(rank)));
    memories_.push_back(std::move(memory));
    pools_.push_back(std::make_unique<ThreadPool>(devices_.empty() ? kernel_threads_ : 1));
  }
  pools_.push_back(std::make_unique<ThreadPool>(1));
  return absl::OkStatus();
}

// Programs run one at a time, so they share the streams of a device.
absl::StatusOr<DeviceStream*> LoadedPlan::FindStream(int rank, size_t index) {
  auto& streams = streams_[rank - ranks_.begin];
  while (streams.size() <= index) {
    ASSIGN_OR_RETURN(std::unique_ptr<DeviceStream> stream,
                     FindDevice(rank)->MakeStream(plan_.launch_queue(), timed_));
    streams.push_back(std::move(stream));
  }
  return streams[index].get();
}

// Programs run one at a time, so they share pools, too. A copy has one thread, and kernels that the
// host computes for a device have as many as the device's, for which workspaces are sized.
ThreadPool* LoadedPlan::FindLonePool(int rank, proto::Stream::Kind kind, int index) {
  std::unique_ptr<ThreadPool>& pool = lone_pools_[{rank, kind, index}];
  if (pool == nullptr) {
    pool = std::make_unique<ThreadPool>(kind == proto::Stream::HOST_COMPUTE ? kernel_threads_ : 1);
  }
  return pool.get();
}

absl::Status LoadedPlan::BindProgram(int program, const LoadOptions& options) {
  ASSIGN_OR_RETURN(const PlanNet plan_net, MakePlanNet(plan_, plan_.program(program)));
  const BindContext context{plan_net, mesh_, ranks_, memories_};
  LoadedProgram& loaded = programs_[program];
  const ActorNet& net = loaded.net;
  std::map<uint32_t, size_t> streams;  // streams of a device so far, by rank
  std::map<std::pair<uint32_t, proto::Stream::Kind>, int> lone;  // with a worker of their own
  for (const StreamOrder& stream : net.streams) {
    const int rank = static_cast<int>(stream.rank);
    Device* device = stream.host || stream.alone ? nullptr : FindDevice(rank);
    DeviceStream* own = nullptr;
    KernelFactory make_kernel = options.make_kernel;
    if (device != nullptr) {
      RETURN_IF_ERROR(device->Attach());
      ASSIGN_OR_RETURN(own, FindStream(rank, streams[stream.rank]++));
      make_kernel = [&](const KernelSetup& s) { return options.backend->make_kernel(*device, s); };
    }
    loaded.device_streams.push_back(own);
    ThreadPool* pool = stream.host ? pools_.back().get() : pools_[rank - ranks_.begin].get();
    if (stream.alone) {
      pool = FindLonePool(rank, stream.kind, lone[{stream.rank, stream.kind}]++);
    }
    std::vector<BoundActor>& actors = loaded.actors.emplace_back();
    for (const int32_t a : stream.actors) {
      absl::StatusOr<BoundActor> actor =
          Bind(context, static_cast<int>(net.specs[a].actor), rank, {make_kernel, pool, own});
      if (!actor.ok())
        return Annotate(actor.status(), absl::StrCat("program ", net.program, ", rank ", rank));
      actors.push_back(*std::move(actor));
    }
  }
  for (size_t x = 0; x < loaded.works.size(); ++x) {
    absl::StatusOr<ExchangeWork> work = BindExchange(context, FindMembers(net, x), *carrier_);
    if (!work.ok()) return Annotate(work.status(), absl::StrCat("program ", net.program));
    loaded.works[x] = *std::move(work);
  }
  return absl::OkStatus();
}

// Programs run one at a time, so groups of the same ranks share a communicator.
absl::Status LoadedPlan::AddGroups() {
  std::map<Group, int32_t> index;
  for (LoadedProgram& program : programs_) {
    for (const Group& group : program.net.groups) {
      const int far = group.FindFar();
      if (far >= 0 && !carrier_->ReachesProcesses()) {
        return InputError(absl::StrCat("plan, program ", program.net.program),
                          absl::StrCat("rank ", group.ranks[far],
                                       ", which another process owns, exchanges tensors with ours"),
                          "give all ranks to one process");
      }
      const auto [communicator, fresh] = index.try_emplace(group, std::ssize(groups_));
      if (fresh) groups_.push_back(group);
      program.communicator_of.push_back(communicator->second);
    }
  }
  return absl::OkStatus();
}

// All processes use one order, though each knows its own groups only, so processes that wait for
// each other while making a communicator never form a ring.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> LoadedPlan::MakeCommunicators(
    uint32_t run) const {
  std::vector<size_t> order(groups_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return groups_[a] < groups_[b]; });
  std::vector<std::unique_ptr<Communicator>> communicators(groups_.size());
  for (const size_t g : order) {
    ASSIGN_OR_RETURN(communicators[g], carrier_->Make(groups_[g], FindUse(g, run)));
  }
  return communicators;
}

GroupUse LoadedPlan::FindUse(size_t group, uint32_t run) const {
  GroupUse use{.run = run};
  for (const LoadedProgram& program : programs_) {
    for (size_t x = 0; x < program.works.size(); ++x) {
      const int32_t of = program.communicator_of[program.net.exchanges[x].group];
      if (of == static_cast<int32_t>(group)) use.works.push_back(&program.works[x]);
    }
  }
  if (devices_.empty()) return use;
  for (const int32_t rank : groups_[group].ranks) {
    use.devices.push_back(ranks_.Contains(rank) ? FindDevice(rank) : nullptr);
  }
  for (int rank = ranks_.begin; rank < ranks_.end; ++rank) {
    const auto in = std::count_if(groups_.begin(), groups_.end(), [&](const Group& g) {
      return std::find(g.ranks.begin(), g.ranks.end(), rank) != g.ranks.end();
    });
    use.communicators = std::max(use.communicators, static_cast<int>(in));
  }
  return use;
}

absl::StatusOr<int> LoadedPlan::FindProgram(std::string_view name) const {
  std::string known;
  for (size_t i = 0; i < programs_.size(); ++i) {
    if (programs_[i].net.program == name) return static_cast<int>(i);
    absl::StrAppend(&known, known.empty() ? "" : ", ", programs_[i].net.program);
  }
  return absl::NotFoundError(absl::StrCat("the plan has no program \"", ToAbsl(name), "\"; it has ",
                                          known.empty() ? "none" : known));
}

std::span<std::byte> LoadedPlan::PersistentBytes(int rank, int register_id, int slot) const {
  CHECK(register_id >= 0 && register_id < plan_.persistent_size()) << "register " << register_id;
  const proto::Register& reg = plan_.persistent(register_id);
  CHECK(!memories_.empty() && ranks_.Contains(rank) && mesh_.RankToStage(rank) == reg.stage())
      << "register " << reg.name() << " is not on rank " << rank;
  CHECK(slot >= 0 && slot < reg.slots()) << "slot " << slot << " of " << reg.name();
  const absl::StatusOr<std::byte*> base = memories_[rank - ranks_.begin].Find(reg);
  CHECK(base.ok()) << base.status();
  return {*base + slot * reg.slot_bytes(), static_cast<size_t>(reg.slot_bytes())};
}

}  // namespace oneflow
