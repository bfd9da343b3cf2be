#include "actor_runtime/cuda/emulated/communicator.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace oneflow::emulated {
namespace {

thread_local std::string last_error;

struct Nccl {
  // Cliques and their members own each other.
  ~Nccl() {
    for (const auto& [handle, comm] : communicators) comm->clique->members.clear();
    for (const auto& [id, clique] : forming) clique->members.clear();
  }
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> communicators;
  std::map<std::string, std::shared_ptr<Clique>> forming;  // by unique id
  int made = 0;
};

Nccl& State(Locked& machine) {
  if (machine->nccl() == nullptr) machine->nccl() = std::make_shared<Nccl>();
  return *static_cast<Nccl*>(machine->nccl().get());
}

// Gives an operation of a group to its stream, as one item.
void EnqueueWork(Locked& machine, const Group::Work& work) {
  const auto ready = [&machine = *machine, comm = work.comm, sides = work.sides] {
    bool complete = true;
    for (const Side& side : sides) {
      const bool all = Arrive(machine, *comm->clique, side);
      complete &= side.meeting->done || (all && !comm->clique->broken);
    }
    return complete || comm->aborted;
  };
  const auto run = [comm = work.comm, sides = work.sides, held = work.comm->in_streams] {
    for (const Side& side : sides) {
      Meeting& meeting = *side.meeting;
      if (meeting.done || comm->aborted) continue;
      if (!meeting.wrong) Execute(meeting.operation, meeting.buffers);
      meeting.done = true;
    }
    return std::string();
  };
  const auto waits_for = [comm = work.comm, sides = work.sides] {
    std::string names;
    for (const Side& side : sides) {
      for (size_t i = 0; i < side.meeting->arrived.size(); ++i) {
        if (!side.meeting->arrived[i]) absl::StrAppend(&names, " member ", i);
      }
    }
    return absl::StrCat("others of communicator ", comm->clique->number, ":", names);
  };
  const auto needs = [sides = work.sides] {
    std::vector<CUstream_st*> streams;
    for (const Side& side : sides) {
      for (size_t i = 0; i < side.meeting->arrived.size(); ++i) {
        CUstream_st* stream = side.meeting->streams[i];
        if (!side.meeting->arrived[i] && stream != nullptr) streams.push_back(stream);
      }
    }
    return streams;
  };
  for (const Side& side : work.sides) side.meeting->streams[side.index] = work.stream;
  machine->Enqueue(
      work.stream,
      {.what = work.what, .ready = ready, .run = run, .waits_for = waits_for, .needs = needs});
}

std::string ConnectionName(const std::pair<int, int>& pair, int asker) {
  return absl::StrCat("connect ", pair.first, " ", pair.second, " ", asker);
}

void AskToConnect(Clique& clique, int rank, int peer) {
  const std::pair<int, int> pair = std::minmax(rank, peer);
  if (clique.connections[pair].asked.insert(rank).second && clique.far) {
    clique.far->Leave(ConnectionName(pair, rank), "");
  }
}

bool IsConnected(Machine& machine, Clique& clique, int rank, int peer) {
  const std::pair<int, int> pair = std::minmax(rank, peer);
  Connection& connection = clique.connections[pair];
  if (connection.made) return true;
  if (!connection.asked.contains(peer) &&
      !(clique.far && clique.far->Has(ConnectionName(pair, peer)))) {
    return false;
  }
  machine.AddConnection();
  return connection.made = true;
}

// The operation of a group until it is given to its stream.
Pending MakePending(Locked& machine, const Group::Work& work) {
  const bool waits_for_all =
      !work.comm->blocking && machine->options().nccl_waits_for_all && machine->Next() % 2 == 0;
  const auto done = [&machine = *machine, work, waits_for_all] {
    ncclComm& comm = *work.comm;
    if (comm.aborted) return true;
    for (const int peer : work.peers) {
      if (!IsConnected(machine, *comm.clique, comm.rank, peer)) return false;
    }
    return !waits_for_all ||
           std::all_of(work.sides.begin(), work.sides.end(),
                       [](const Side& side) { return side.meeting->issued == side.meeting->here; });
  };
  const auto finish = [work](Locked& then) {
    if (!work.comm->aborted) EnqueueWork(then, work);
  };
  return {work.comm, done, finish, work.stream};
}

// Goes on with what is not given to its stream yet.
void GoOn(Locked& machine, ncclComm& comm) {
  while (!comm.progress.empty() && comm.progress.front().done()) {
    const Pending pending = std::move(comm.progress.front());
    comm.progress.pop_front();
    if (pending.stream != nullptr) machine->Unreserve(pending.stream);
    pending.finish(machine);
  }
}

std::shared_ptr<Clique> NewClique(Locked& machine, int ranks) {
  auto clique = std::make_shared<Clique>();
  clique->number = ++State(machine).made;
  clique->members.resize(ranks);
  clique->here.resize(ranks);
  return clique;
}

std::shared_ptr<ncclComm> Join(Locked& machine, const std::shared_ptr<Clique>& clique, int rank,
                               int device) {
  auto comm = std::make_shared<ncclComm>();
  comm->clique = clique;
  comm->rank = rank;
  comm->device = device;
  clique->members[rank] = comm;
  clique->here[rank] = true;
  ++clique->joined;
  if (clique->far) clique->far->Leave(absl::StrCat("joined ", rank), "");
  return comm;
}

// The handle is the caller's to give back from now on.
void Hand(Locked& machine, const std::shared_ptr<ncclComm>& comm, ncclComm_t* handle) {
  State(machine).communicators[comm.get()] = comm;
  machine->add_communicators(1);
  *handle = comm.get();
}

// The end of a communicator's member. Cliques own their members: this breaks the circle.
void Release(Locked& machine, const std::shared_ptr<ncclComm>& comm) {
  comm->clique->members[comm->rank] = nullptr;
  State(machine).communicators.erase(comm.get());
  machine->add_communicators(-1);
}

ncclResult_t CheckConfig(const ncclConfig_t* config) {
  if (config == nullptr || config->magic == 0xcafebeef) return ncclSuccess;
  return Refuse(ncclInvalidUsage, "a configuration without initialiser");
}

ncclResult_t InitRank(Locked& machine, ncclComm_t* handle, int ranks, const ncclUniqueId& id,
                      int rank, int device, bool blocking) {
  std::shared_ptr<Clique>& forming =
      State(machine).forming[std::string(id.internal, sizeof(id.internal))];
  if (forming == nullptr) {
    forming = NewClique(machine, std::max(ranks, 1));
    if (const std::string folder = FolderOfFarMembers(); !folder.empty()) {
      forming->far.emplace(folder, id.internal);
      machine->Poll();
    }
  }
  const std::shared_ptr<Clique> clique = forming;
  if (rank < 0 || rank >= ranks || clique->size() != ranks || clique->members[rank] != nullptr) {
    return Refuse(ncclInvalidArgument, absl::StrCat("rank ", rank, " of ", ranks, " ranks"));
  }
  const std::shared_ptr<ncclComm> comm = Join(machine, clique, rank, device);
  comm->blocking = blocking;
  if (!blocking) Hand(machine, comm, handle);
  if (clique->joined == ranks) {
    State(machine).forming.erase(std::string(id.internal, sizeof(id.internal)));
  }
  const auto finish = [comm, handle](Locked& then) {
    if (comm->blocking) Hand(then, comm, handle);
  };
  group.pending.push_back({comm, [clique] { return clique->AllJoined(); }, finish});
  return ncclSuccess;
}

// All members have called: makes the parts.
void MakeParts(Locked& machine, const Clique& full, Split& split) {
  std::map<int, std::vector<std::pair<int, int>>> parts;  // by color, (key, rank)
  for (const auto& [rank, color_and_key] : split.colors_and_keys) {
    if (color_and_key.first == NCCL_SPLIT_NOCOLOR) continue;
    parts[color_and_key.first].emplace_back(color_and_key.second, rank);
  }
  split.parts.resize(full.size());
  for (auto& [color, members] : parts) {
    std::sort(members.begin(), members.end());
    const auto clique = NewClique(machine, static_cast<int>(members.size()));
    for (int i = 0; i < clique->size(); ++i) {
      const int rank = members[i].second;
      split.parts[rank] = Join(machine, clique, i, full.members[rank]->device);
    }
  }
}

}  // namespace

thread_local Group group;

bool Clique::AllJoined() const {
  for (int member = 0; member < size(); ++member) {
    if (here[member]) continue;
    if (!far || !far->Has(absl::StrCat("joined ", member))) return false;
  }
  return true;
}

bool Arrive(Machine& machine, Clique& clique, const Side& side) {
  Meeting& meeting = *side.meeting;
  const auto name_of = [&](size_t index) { return absl::StrCat(meeting.name, " ", index); };
  const std::string what = meeting.operation.ToString() + "\n";
  if (!meeting.arrived[side.index] && clique.far) {
    const auto* from = static_cast<const char*>(meeting.buffers[side.index].from);
    const size_t bytes = from == nullptr ? 0 : meeting.operation.bytes_from(clique.size());
    clique.far->Leave(name_of(side.index), what + std::string(from, bytes));
  }
  meeting.arrived[side.index] = true;
  for (size_t i = 0; clique.far && i < meeting.here.size(); ++i) {
    if (meeting.here[i] || meeting.arrived[i] || !clique.far->Has(name_of(i))) continue;
    std::string& input = meeting.far_inputs[i] = clique.far->Read(name_of(i));
    meeting.arrived[i] = true;
    if (input.compare(0, what.size(), what) != 0) {
      meeting.wrong = true;
      machine.diagnostics().push_back("another process calls " + input.substr(0, input.find('\n')) +
                                      " for " + what);
      clique.error = ncclInvalidUsage;
      continue;
    }
    if (input.size() > what.size()) meeting.buffers[i].from = input.data() + what.size();
  }
  return meeting.Complete();
}

ncclResult_t Refuse(ncclResult_t result, std::string why) {
  LOG(WARNING) << "NCCL: " << why;
  last_error = std::move(why);
  return result;
}

void Diagnose(Locked& machine, Clique& clique, ncclResult_t result, std::string what) {
  what = absl::StrCat("communicator ", clique.number, ": ", what);
  LOG(ERROR) << what;
  machine->diagnostics().push_back(last_error = what);
  clique.error = result;
}

std::shared_ptr<ncclComm> FindReady(Locked& machine, ncclComm_t handle) {
  std::shared_ptr<ncclComm> comm = Find(machine, handle);
  if (comm != nullptr && comm->progress.empty()) return comm;
  Refuse(ncclInvalidArgument, comm == nullptr
                                  ? "no such communicator"
                                  : "the communicator has an operation that is in progress");
  return nullptr;
}

std::shared_ptr<ncclComm> Find(Locked& machine, ncclComm_t comm) {
  const auto& known = State(machine).communicators;
  const auto found = known.find(comm);
  return found == known.end() ? nullptr : found->second;
}

ncclResult_t EndGroup(Locked& machine) {
  if (group.depth > 0 && --group.depth > 0) return ncclSuccess;
  const ncclResult_t error = std::exchange(group.error, ncclSuccess);
  auto pending = std::exchange(group.pending, {});
  const auto works = std::exchange(group.works, {});
  for (const auto& comm : std::exchange(group.aborted, {})) {
    const uint64_t last = machine->issued(comm->device);
    machine.RunUntil([&](const CUstream_st& stream) { return stream.device == comm->device; },
                     [&] { return machine->IdleUpTo(comm->device, last); });
    Release(machine, comm);
  }
  if (error != ncclSuccess) return error;
  for (const Group::Work& work : works) {
    for (const int peer : work.peers) AskToConnect(*work.comm->clique, work.comm->rank, peer);
    pending.push_back(MakePending(machine, work));
  }
  machine.NotifyAll();
  bool in_progress = false;
  for (Pending& one : pending) {
    if (one.comm->blocking) {
      machine.WaitUntil(one.done);
      one.finish(machine);
      continue;
    }
    if (one.stream != nullptr) Machine::Reserve(one.stream);
    one.comm->progress.push_back(std::move(one));
    in_progress = true;
  }
  return in_progress ? ncclInProgress : ncclSuccess;
}

void BreakCommunicator(ncclComm* handle) {
  Locked machine;
  const std::shared_ptr<ncclComm> comm = Find(machine, handle);
  CHECK(comm != nullptr);
  comm->clique->broken = true;
  comm->clique->error = ncclRemoteError;
}

}  // namespace oneflow::emulated

using namespace oneflow::emulated;  // NOLINT

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return Do("ncclGetUniqueId", [&](Locked& machine) {
    *id = {};
    std::snprintf(id->internal, sizeof(id->internal), "emulated %d %d", getpid(),
                  ++State(machine).made);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return Do("ncclCommInitRank", [&](Locked& machine) {
    const ncclResult_t result = CheckConfig(config);
    if (result != ncclSuccess) return result;
    const bool blocking = config == nullptr || config->blocking != 0;
    return InitRank(machine, comm, ranks, id, rank, CurrentDevice(), blocking);
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return result;
  return Do("ncclCommInitAll", [&](Locked& machine) {
    for (int i = 0; i < count; ++i) {
      const int device = devices == nullptr ? i : devices[i];
      if (device < 0 || device >= machine->options().devices) {
        return Refuse(ncclInvalidArgument, absl::StrCat("device ", device));
      }
      const ncclResult_t joined = InitRank(machine, &comms[i], count, id, i, device, true);
      if (joined != ncclSuccess) return joined;
    }
    return ncclSuccess;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  return Do("ncclCommSplit", [&](Locked& machine) {
    const std::shared_ptr<ncclComm> comm = FindReady(machine, handle);
    if (comm == nullptr) return ncclInvalidArgument;
    const ncclResult_t result = CheckConfig(config);
    if (result != ncclSuccess) return result;
    Clique& clique = *comm->clique;
    std::shared_ptr<Split>& shared = clique.splits[comm->splits++];
    if (shared == nullptr) shared = std::make_shared<Split>();
    const std::shared_ptr<Split> split = shared;
    split->colors_and_keys[comm->rank] = {color, key};
    if (static_cast<int>(split->colors_and_keys.size()) == clique.size()) {
      MakeParts(machine, clique, *split);
      clique.splits.erase(comm->splits - 1);
    }
    const auto finish = [split, rank = comm->rank, part](Locked& then) {
      *part = nullptr;
      if (split->parts[rank] != nullptr) Hand(then, split->parts[rank], part);
    };
    group.pending.push_back({comm, [split] { return !split->parts.empty(); }, finish});
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return Do("ncclCommDestroy", [&](Locked& machine) {
    const std::shared_ptr<ncclComm> comm = FindReady(machine, handle);
    if (comm == nullptr) return ncclInvalidArgument;
    machine.RunUntil([&](const CUstream_st& stream) { return stream.device == comm->device; },
                     [&] { return comm->in_streams.use_count() == 1; });
    Release(machine, comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  Locked machine;
  machine->Enter("ncclCommAbort", CurrentDevice());
  const std::shared_ptr<ncclComm> comm = Find(machine, handle);
  if (comm == nullptr) return Refuse(ncclInvalidArgument, "no such communicator");
  comm->aborted = true;
  // Its buffers may be freed, so pending operations never complete for others.
  comm->clique->broken = true;
  for (const Pending& pending : std::exchange(comm->progress, {})) {
    if (pending.stream != nullptr) machine->Unreserve(pending.stream);
  }
  group.aborted.push_back(comm);
  machine.NotifyAll();
  machine->RunSome();
  return group.depth == 0 ? EndGroup(machine) : ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  Locked machine;
  const std::shared_ptr<ncclComm> comm = Find(machine, handle);
  if (comm == nullptr) return Refuse(ncclInvalidArgument, "no such communicator");
  // As often as not it is still in progress, whatever the others have done.
  if (machine->Next() % 2 == 0) GoOn(machine, *comm);
  machine.NotifyAll();
  *error = comm->clique->error;
  if (*error == ncclSuccess && !comm->progress.empty()) *error = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return Refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  Locked machine;
  const cudaError_t failure = machine->Enter("ncclGroupEnd", CurrentDevice());
  if (failure != cudaSuccess) group.error = ncclSystemError;
  const ncclResult_t result = EndGroup(machine);
  machine->RunSome();
  return result;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static const char* const kNames[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote error",           "in progress"};
  return result >= 0 && result <= ncclInProgress ? kNames[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }
