#include "actor_runtime/cuda/library/nccl.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

#ifdef ONEFLOW_EMULATED_GPU
#define ONEFLOW_BIND(function) nccl.function = &nccl##function

absl::Status BindAll(const LibraryPaths&, Nccl& nccl) {
  nccl.path = "the twin of NCCL";
#else
constexpr LibraryName kName{"NCCL", "libnccl.so.2",
                            "install libnccl2 or `pip install nvidia-nccl-cu13`"};

// By name only: a mention of the function itself would link the library.
#define ONEFLOW_BIND(function) RETURN_IF_ERROR(Bind(library, "nccl" #function, &nccl.function))

absl::Status BindAll(const LibraryPaths& paths, Nccl& nccl) {
  ASSIGN_OR_RETURN(const OpenedLibrary library, OpenLibrary(kName, paths));
  nccl.path = library.path;
#endif
  ONEFLOW_BIND(GetVersion);
  ONEFLOW_BIND(GetUniqueId);
  ONEFLOW_BIND(GetErrorString);
  ONEFLOW_BIND(GetLastError);
  ONEFLOW_BIND(CommInitRankConfig);
  ONEFLOW_BIND(CommSplit);
  ONEFLOW_BIND(CommDestroy);
  ONEFLOW_BIND(CommAbort);
  ONEFLOW_BIND(CommGetAsyncError);
  ONEFLOW_BIND(GroupStart);
  ONEFLOW_BIND(GroupEnd);
  ONEFLOW_BIND(AllReduce);
  ONEFLOW_BIND(AllGather);
  ONEFLOW_BIND(ReduceScatter);
  ONEFLOW_BIND(Broadcast);
  ONEFLOW_BIND(Send);
  ONEFLOW_BIND(Recv);
  return absl::OkStatus();
}
#undef ONEFLOW_BIND

constexpr int kOldest = 21900;

}  // namespace

absl::Status Nccl::ToStatus(ncclResult_t result, const char* what) const {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const char* last = GetLastError(nullptr);
  return absl::InternalError(absl::StrCat("NCCL: ", what, ": ", GetErrorString(result),
                                          last != nullptr && last[0] != '\0' ? ": " : "",
                                          last == nullptr ? "" : last));
}

absl::StatusOr<Nccl> OpenNccl(const LibraryPaths& paths) {
  Nccl nccl;
  RETURN_IF_ERROR(BindAll(paths, nccl));
  int number = 0;
  RETURN_IF_ERROR(nccl.ToStatus(nccl.GetVersion(&number), "ncclGetVersion"));
  nccl.version = absl::StrCat(number / 10000, ".", number / 100 % 100, ".", number % 100);
  if (number < kOldest) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL: ", nccl.path, " is version ", nccl.version, ", 2.19 is needed"));
  }
  return nccl;
}

}  // namespace oneflow::cuda
