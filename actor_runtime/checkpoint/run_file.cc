#include "actor_runtime/checkpoint/run_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<RunFile> RunFile::Open(const std::string& path, int64_t size) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const auto has = static_cast<int64_t>(file.bytes().size());
  if (has == size) return RunFile(std::move(file));
  return absl::DataLossError(absl::StrCat(path, has < size ? ": is cut short" : ": is too long",
                                          ": it has ", has, " bytes, and had ", size,
                                          " when it was written", kUseAnother));
}

absl::Status RunFile::Verify(const StoredRun& run, int64_t first, int64_t count, int64_t block,
                             std::string_view what) const {
  if (count == 0) return absl::OkStatus();
  const std::span<const std::byte> bytes = Bytes(run);
  for (int64_t b = first / block; b <= (first + count - 1) / block; ++b) {
    const int64_t begin = b * block, size = std::min(block, run.bytes - begin);
    bool intact = Checksum(bytes.subspan(begin, size)) == run.checksums[b];
    if (begin + size == run.bytes) {
      const auto end = static_cast<int64_t>(file_.bytes().size());
      const int64_t behind = run.offset + run.bytes;
      const auto zeros = file_.bytes().subspan(behind, std::min(NextRun(behind), end) - behind);
      intact = intact && std::all_of(zeros.begin(), zeros.end(),
                                     [](std::byte byte) { return byte == std::byte{0}; });
    }
    if (intact) continue;
    return absl::DataLossError(absl::StrCat(
        file_.path(), ": is damaged: bytes ", run.offset + begin, " to ", run.offset + begin + size,
        ", block ", b, " of ", ToAbsl(what), ", do not match their checksum", kUseAnother));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
