// Communicators of the emulated NCCL. Operations of a communicator are items of streams that meet:
// the k-th collective of each member with those of all others, a send with a receive. One is done
// when all of its sides are the next items of their streams; until then each blocks its stream, as
// a kernel of NCCL does.
//
// A communicator that is made with blocking = 0 is in progress after each group: its operations are
// given to their streams by calls of ncclCommGetAsyncError, sometimes only after all members have
// called them. Other calls refuse it meanwhile. A blocking one waits in the call until all members
// have come, and until two that exchange their first message are connected. An abort waits for all
// that has been issued to the device, whose it may be, as freeing memory does.
//
// nccl.cc issues operations, communicator.cc does the rest.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actor_runtime/cuda/emulated/far_members.h"
#include "actor_runtime/cuda/emulated/machine.h"
#include "actor_runtime/cuda/emulated/meeting.h"

namespace oneflow::emulated {

struct Meeting {
  Operation operation;
  std::string name;              // unique within its clique
  std::vector<Buffers> buffers;  // by side; for other processes: from far_inputs
  std::vector<bool> here;        // by side: in this process
  std::vector<bool> issued, arrived;
  std::vector<CUstream_st*> streams;    // by side; null: not issued here, or over
  std::vector<std::string> far_inputs;  // by side, once it has arrived
  bool wrong = false, done = false;

  bool Complete() const {
    return std::all_of(arrived.begin(), arrived.end(), [](bool x) { return x; });
  }
};

// One of the two or more sides of a meeting.
struct Side {
  std::shared_ptr<Meeting> meeting;
  int index;
};

// Kind of sides (collective: -1, -1; else sender and receiver) and their number.
using MeetingKey = std::tuple<int, int, uint64_t>;

struct Split {
  std::map<int, std::pair<int, int>> colors_and_keys;  // by rank
  std::vector<std::shared_ptr<ncclComm>> parts;        // by rank, when all are there
};

// A pair of members that exchange messages.
struct Connection {
  std::set<int> asked;  // those of the two that are in this process and have called
  bool made = false;
};

// An operation that is not given to its stream yet, or a communicator that is being made.
struct Pending {
  std::shared_ptr<ncclComm> comm;
  std::function<bool()> done;
  std::function<void(Locked&)> finish;
  CUstream_st* stream = nullptr;  // that the operation will be given to
};

// The state that all members share.
struct Clique {
  int number = 0;
  std::vector<std::shared_ptr<ncclComm>> members;
  std::vector<bool> here;         // by member: it has joined, in this process
  std::optional<FarMembers> far;  // set if other processes may have members
  int joined = 0;                 // in this process
  std::map<MeetingKey, std::shared_ptr<Meeting>>
      meetings;  // that not all sides have been issued of
  std::map<int, std::shared_ptr<Split>> splits;
  std::map<std::pair<int, int>, Connection> connections;
  ncclResult_t error = ncclSuccess;
  bool broken = false;  // no operation ends

  int size() const { return static_cast<int>(members.size()); }
  bool AllJoined() const;
};

}  // namespace oneflow::emulated

struct ncclComm {
  std::shared_ptr<oneflow::emulated::Clique> clique;
  int rank = 0, device = 0;
  bool blocking = true;
  bool aborted = false;
  std::deque<oneflow::emulated::Pending> progress;
  std::shared_ptr<int> in_streams = std::make_shared<int>();  // each item holds it, too
  int splits = 0;
  std::map<std::array<int, 3>, uint64_t> issued;  // sides of meetings, by their kind
};

namespace oneflow::emulated {

// A side of this process has arrived: others get its input. Returns true if all sides have arrived.
bool Arrive(Machine& machine, Clique& clique, const Side& side);

// The calls of a thread since ncclGroupStart.
struct Group {
  struct Work {
    std::shared_ptr<ncclComm> comm;
    CUstream_st* stream;
    std::string what;
    std::vector<Side> sides;
    std::set<int> peers;  // of messages
  };
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Work> works;
  std::vector<Pending> pending;
  std::vector<std::shared_ptr<ncclComm>> aborted;
};
extern thread_local Group group;

// Records the reason of a refusal, for ncclGetLastError.
ncclResult_t Refuse(ncclResult_t result, std::string why);
// Records a later failure: the communicator's error, and a diagnostic.
void Diagnose(Locked& machine, Clique& clique, ncclResult_t result, std::string what);

// nullptr for a handle that is not valid, and, with a reason recorded, for one in progress.
std::shared_ptr<ncclComm> FindReady(Locked& machine, ncclComm_t comm);
// nullptr for a handle that is not valid.
std::shared_ptr<ncclComm> Find(Locked& machine, ncclComm_t comm);

// Ends a group, or an inner one. Returns the first error of its calls; else waits for communicators
// that are being made and gives the group's work to its streams, or returns ncclInProgress where
// communicators do not block. Ends those that were aborted.
ncclResult_t EndGroup(Locked& machine);

// An entry point: runs the body, and ends the group if none is open.
template <typename F>
ncclResult_t Do(const char* entry, const F& body) {
  Locked machine;
  ncclResult_t result = ncclSystemError;
  if (machine->Enter(entry, CurrentDevice()) == cudaSuccess) result = body(machine);
  if (result != ncclSuccess) group.error = result;
  if (group.depth == 0) result = EndGroup(machine);
  machine->RunSome();
  return result;
}

}  // namespace oneflow::emulated
