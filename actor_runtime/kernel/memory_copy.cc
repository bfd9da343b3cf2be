// Copies between the memory of a CPU device and its host's: a register, from one arena to the
// other. To measure a plan for a slower link than memory is, a copy takes at least as long as over
// that link; its thread sleeps meanwhile, so that other kernels have the core.
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// Copied at once: so few bytes that the sleeps between them spread over the whole copy.
constexpr int64_t kChunk = 1 << 20;

constexpr double kMostSeconds = 1e9;  // fits in any clock

// One direction of a link.
struct Speed {
  double bandwidth = 0, latency = 0;
  bool limits() const { return bandwidth > 0 || latency > 0; }
  // From the begin of a copy until so many bytes have arrived.
  std::chrono::nanoseconds Time(int64_t bytes) const {
    const double wire = bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0;
    const double seconds = std::min(latency + wire, kMostSeconds);
    return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9) + 1);
  }
};

// Time points are absolute, so a sleep that is too long makes the next one shorter.
void WaitUntil(std::chrono::steady_clock::time_point moment) {
  const std::chrono::nanoseconds since = moment.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const timespec at{seconds.count(), (since - seconds).count()};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

void CopyOver(const Speed& speed, const std::byte* from, std::byte* to, int64_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t done = 0; done < bytes;) {
    const int64_t chunk = std::min(kChunk, bytes - done);
    std::memcpy(to + done, from + done, chunk);
    done += chunk;
    if (speed.limits()) WaitUntil(begin + speed.Time(done));
  }
}

absl::StatusOr<Kernel> MakeMemoryCopy(const KernelSetup& s) {
  const int64_t bytes = Elements(In(s, 0)) * static_cast<int64_t>(ElementBytes(In(s, 0).dtype));
  const bool in = s.kind == "copy_in";
  const Speed speed{in ? s.host_link.from_host : s.host_link.to_host, s.host_link.latency};
  return Kernel([bytes, speed](const KernelCall& call) {
    CopyOver(speed, call.in[0][0], call.out[0], bytes);
    return absl::OkStatus();
  });
}

}  // namespace

KernelTable MemoryCopyTable() {
  return {{"copy_in", MakeMemoryCopy}, {"copy_out", MakeMemoryCopy}};
}

}  // namespace oneflow
