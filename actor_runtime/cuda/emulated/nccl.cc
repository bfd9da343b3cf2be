#include <nccl.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/emulated/communicator.h"

namespace oneflow::emulated {
namespace {

// The member's next side of meetings (from, to); -1, -1: of collectives.
Side Meet(Locked& machine, ncclComm& comm, int from, int to, int index, int sides,
          const Operation& operation, const Buffers& buffers) {
  Clique& clique = *comm.clique;
  const MeetingKey key = {from, to, comm.issued[{from, to, index}]++};
  std::shared_ptr<Meeting>& known = clique.meetings[key];
  if (known == nullptr) {
    known = std::make_shared<Meeting>(Meeting{
        .operation = operation,
        .name = absl::StrCat(from, " ", to, " ", std::get<2>(key)),
        .buffers = std::vector<Buffers>(sides),
        .here = from < 0 ? clique.here : std::vector<bool>{clique.here[from], clique.here[to]},
        .issued = std::vector<bool>(sides),
        .arrived = std::vector<bool>(sides),
        .streams = std::vector<CUstream_st*>(sides),
        .far_inputs = std::vector<std::string>(sides)});
  }
  const std::shared_ptr<Meeting> meeting = known;
  if (!(meeting->operation == operation)) {
    meeting->wrong = true;
    Diagnose(machine, clique, ncclInvalidUsage,
             absl::StrCat("rank ", comm.rank, " calls ", operation.ToString(),
                          " where others call ", meeting->operation.ToString()));
  }
  meeting->buffers[index] = buffers;
  meeting->issued[index] = true;
  if (meeting->issued == meeting->here) clique.meetings.erase(key);
  return {meeting, index};
}

// Adds a side to the group's work of this communicator.
ncclResult_t AddWork(const std::shared_ptr<ncclComm>& comm, CUstream_st* stream,
                     const std::string& what, const Side& side, const std::set<int>& peers) {
  for (Group::Work& work : group.works) {
    if (work.comm != comm) continue;
    if (work.stream != stream) {
      return Refuse(ncclInvalidUsage, "one communicator on two streams in one group");
    }
    work.what += " and " + what;
    work.sides.push_back(side);
    work.peers.insert(peers.begin(), peers.end());
    return ncclSuccess;
  }
  group.works.push_back({comm, stream, what, {side}, peers});
  return ncclSuccess;
}

bool CanReduce(const Operation& operation) {
  if (operation.kind != Operation::kAllReduce && operation.kind != Operation::kReduceScatter) {
    return true;
  }
  const bool op = operation.op == ncclSum || operation.op == ncclMax || operation.op == ncclMin;
  return op && (operation.type == ncclFloat32 || operation.type == ncclFloat64 ||
                operation.type == ncclBfloat16 || operation.type == ncclInt32 ||
                operation.type == ncclInt64);
}

// Issues an operation. `peer`: the other side of a send or receive.
ncclResult_t Issue(const char* entry, const Operation& operation, Buffers buffers, int peer,
                   ncclComm_t handle, cudaStream_t stream_handle) {
  return Do(entry, [&](Locked& machine) {
    const std::shared_ptr<ncclComm> comm = FindReady(machine, handle);
    if (comm == nullptr) return ncclInvalidArgument;
    const int size = comm->clique->size();
    CUstream_st* stream = machine->Find(stream_handle, comm->device);
    if (stream == nullptr || stream->device != comm->device) {
      return Refuse(ncclInvalidArgument, "the stream is not of the communicator's device");
    }
    const bool pair = operation.kind == Operation::kSendAndReceive;
    if (NcclElementBytes(operation.type) == 0 || !CanReduce(operation) || operation.root < 0 ||
        operation.root >= size || (pair && (peer < 0 || peer >= size))) {
      return Refuse(ncclInvalidArgument, operation.ToString());
    }
    if (operation.count == 0) return ncclSuccess;
    const Memory& memory = machine->memory();
    const bool no_input = operation.kind == Operation::kBroadcast && comm->rank != operation.root;
    if (no_input) buffers.from = nullptr;
    const bool reads = pair ? buffers.from != nullptr : !no_input;
    const bool writes = pair ? !reads : true;
    if ((reads && !memory.OnDevice(buffers.from, operation.bytes_from(size), comm->device)) ||
        (writes && !memory.OnDevice(buffers.to, operation.bytes_to(size), comm->device))) {
      return Refuse(ncclInvalidArgument, operation.ToString() + ": not memory of its device");
    }
    const bool sends = pair && reads;
    const Side side = !pair ? Meet(machine, *comm, -1, -1, comm->rank, size, operation, buffers)
                            : Meet(machine, *comm, sends ? comm->rank : peer,
                                   sends ? peer : comm->rank, sends ? 0 : 1, 2, operation, buffers);
    const bool connects = pair && peer != comm->rank;
    return AddWork(comm, stream, absl::StrCat(entry, " by rank ", comm->rank), side,
                   connects ? std::set<int>{peer} : std::set<int>{});
  });
}

}  // namespace
}  // namespace oneflow::emulated

using namespace oneflow::emulated;  // NOLINT

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Issue("ncclAllReduce", {Operation::kAllReduce, count, type, op}, {from, to}, 0, comm,
               stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Issue("ncclAllGather", {Operation::kAllGather, count, type}, {from, to}, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Issue("ncclReduceScatter", {Operation::kReduceScatter, count, type, op}, {from, to}, 0,
               comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Issue("ncclBroadcast", {Operation::kBroadcast, count, type, ncclSum, root}, {from, to}, 0,
               comm, stream);
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Issue("ncclSend", {Operation::kSendAndReceive, count, type}, {from, nullptr}, peer, comm,
               stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Issue("ncclRecv", {Operation::kSendAndReceive, count, type}, {nullptr, to}, peer, comm,
               stream);
}
