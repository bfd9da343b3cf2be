// What attention costs each device of an axis that splits a sequence, forward and backward, on one
// thread: each device's queries with the keys of all, one device at a time.
//
//   context_attention TOKENS HEADS D ROUNDS DEVICES ...
//
// A line for each share: its name, a colon, then for each device the seconds of its shortest round
// (CPU seconds of the thread, which other processes hardly change). `causal` is the whole sequence
// without positions. For each number of devices, of p: `zigzag p` gives device i pieces i and
// 2p - 1 - i of 2p, and keys lie device after device; `contiguous p` gives it piece i of p.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "actor_runtime/kernel/simd/attention_kernels.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

using Positions = std::vector<int32_t>;

// Seconds that this thread has run.
double Now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Sizes {
  int64_t tokens, heads, d;
};

std::vector<float> SomeValues(int64_t n, int64_t period) {
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % period) / 16 - 1;
  return values;
}

// Attention of the heads of a sequence, one after the other, with keys and values of their own.
class Sequence {
 public:
  explicit Sequence(const Sizes& n)
      : n_(n),
        q_(SomeValues(n.tokens * n.d, 31)),
        k_(SomeValues(n.tokens * n.d, 29)),
        v_(SomeValues(n.tokens * n.d, 23)),
        dout_(SomeValues(n.tokens * n.d, 19)),
        out_(q_.size()),
        lse_(n.tokens),
        dq_(q_.size()),
        dk_(q_.size()),
        dv_(q_.size()),
        memory_(AttentionWorkspacePerThread(n.tokens, n.d) + 64) {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    scratch_ = reinterpret_cast<float*>((at + 63) / 64 * 64);
  }

  // Seconds, forward and backward, of queries at these positions; null: of all, without positions.
  double Time(const Positions* queries, const Positions& keys) {
    const int64_t n = queries == nullptr ? n_.tokens : static_cast<int64_t>(queries->size());
    AttentionGroup<float> group{q_.data(), k_.data(), v_.data(), n_.d, n_.d, 1, n, n_.tokens, n_.d};
    if (queries != nullptr) {
      group.visibility.q_positions = queries->data();
      group.visibility.k_positions = keys.data();
    }
    const AttentionKernels<float>& kernels = *AttentionKernelsFor<float>(BestIsa());
    const double start = Now();
    for (int64_t head = 0; head < n_.heads; ++head) {
      kernels.forward(group, out_.data(), n_.d, lse_.data(), /*accumulate=*/false, scratch_);
      kernels.backward(group, dout_.data(), out_.data(), n_.d, lse_.data(), dq_.data(), dk_.data(),
                       dv_.data(), scratch_);
    }
    return Now() - start;
  }

 private:
  Sizes n_;
  std::vector<float> q_, k_, v_, dout_, out_, lse_, dq_, dk_, dv_;
  std::vector<std::byte> memory_;
  float* scratch_;
};

// The positions of each device's tokens, and the best seconds that it took.
struct Share {
  std::string name;
  std::vector<Positions> devices;
  std::vector<double> seconds;
};

// Device i has pieces pick(i) of `pieces`.
template <typename Pick>
Share MakeShare(std::string name, int64_t tokens, int devices, int pieces, Pick pick) {
  Share share{std::move(name), {}, std::vector<double>(devices, 1e30)};
  for (int i = 0; i < devices; ++i) {
    Positions& own = share.devices.emplace_back();
    for (const int piece : pick(i)) {
      for (int64_t at = tokens * piece / pieces; at < tokens * (piece + 1) / pieces; ++at) {
        own.push_back(static_cast<int32_t>(at));
      }
    }
  }
  return share;
}

void Measure(Sequence& sequence, Share& share) {
  Positions keys;
  for (const Positions& own : share.devices) keys.insert(keys.end(), own.begin(), own.end());
  if (share.devices.empty()) {
    share.seconds[0] = std::min(share.seconds[0], sequence.Time(nullptr, keys));
  }
  for (size_t i = 0; i < share.devices.size(); ++i) {
    share.seconds[i] = std::min(share.seconds[i], sequence.Time(&share.devices[i], keys));
  }
}

int Main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: context_attention TOKENS HEADS D ROUNDS DEVICES ...\n");
    return 2;
  }
  const Sizes n{std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3])};
  std::vector<Share> shares = {{"causal", {}, {1e30}}};
  for (int i = 5; i < argc; ++i) {
    const int p = std::atoi(argv[i]);
    const std::string devices = std::to_string(p);
    shares.push_back(MakeShare("zigzag " + devices, n.tokens, p, 2 * p, [p](int device) {
      return std::vector<int>{device, 2 * p - 1 - device};
    }));
    shares.push_back(MakeShare("contiguous " + devices, n.tokens, p, p,
                               [](int device) { return std::vector<int>{device}; }));
  }
  Sequence sequence(n);
  for (int round = 0; round < std::atoi(argv[4]); ++round) {
    for (Share& share : shares) Measure(sequence, share);
  }
  for (const Share& share : shares) {
    std::printf("%s:", share.name.c_str());
    for (const double seconds : share.seconds) std::printf(" %.6f", seconds);
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) { return oneflow::Main(argc, argv); }
