#include "actor_runtime/exec/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/host_limits.h"

namespace oneflow {
namespace {

// Arenas of fewer bytes have pages of the usual size: a large one may be more than they touch.
constexpr int64_t kLarge = int64_t{64} << 20;

}  // namespace

absl::StatusOr<Arena> Arena::Create(int64_t bytes) {
  CHECK_GE(bytes, 0);
  Arena arena;
  if (bytes == 0) return arena;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the arena of ", bytes, " bytes that the plan asks for is not to be had: ",
                     std::strerror(errno), DescribeAddressSpace()));
  }
  // Weights are read faster where a page table has fewer entries. Without them it works as well.
  if (bytes >= kLarge) madvise(data, bytes, MADV_HUGEPAGE);
  arena.data_ = static_cast<std::byte*>(data);
  arena.bytes_ = bytes;
  return arena;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace oneflow
