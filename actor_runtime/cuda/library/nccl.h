// Nccl: NCCL, opened at run time: exactly the functions that exchanges between GPUs call.
//
//   ASSIGN_OR_RETURN(const Nccl nccl, OpenNccl(FindLibraryPaths(FLAGS_cuda_libs)));
//   RETURN_IF_ERROR(nccl.ToStatus(nccl.GetUniqueId(&id), "ncclGetUniqueId"));
//
// The functions are those of <nccl.h>. In the emulated flavour they are the emulated ones, for any
// paths.
#pragma once

#include <nccl.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/open_library.h"

namespace oneflow::cuda {

struct Nccl {
  std::string path;     // of the opened file
  std::string version;  // "2.28.9"

  decltype(&ncclGetVersion) GetVersion = nullptr;
  decltype(&ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  decltype(&ncclGetLastError) GetLastError = nullptr;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&ncclCommSplit) CommSplit = nullptr;
  decltype(&ncclCommDestroy) CommDestroy = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclAllGather) AllGather = nullptr;
  decltype(&ncclReduceScatter) ReduceScatter = nullptr;
  decltype(&ncclBroadcast) Broadcast = nullptr;
  decltype(&ncclSend) Send = nullptr;
  decltype(&ncclRecv) Recv = nullptr;

  // OK for success, and for a call of a non-blocking communicator that is in progress; else
  // INTERNAL, "NCCL: WHAT: reason: NCCL's text of its last error".
  absl::Status ToStatus(ncclResult_t result, const char* what) const;
};

// NOT_FOUND or FAILED_PRECONDITION, as OpenLibrary and Bind; FAILED_PRECONDITION for a version
// before 2.19, whose ncclCommSplit is unreliable without blocking.
absl::StatusOr<Nccl> OpenNccl(const LibraryPaths& paths);

}  // namespace oneflow::cuda
