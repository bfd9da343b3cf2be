// Tokens into the queues of experts, and back.
#include <algorithm>
#include <cstring>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/queue_map.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// Slots have one token at most, so tasks may share the tokens.
absl::StatusOr<Kernel> MakeDispatch(const KernelSetup& s) {
  const QueueMap m = MapQueues(s, s.out[0], In(s, 1));
  const int64_t width = LastDim(s.out[0]), size = Elements(s.out[0]);
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [m, width, size, weighted = s.in.size() > 3](const KernelCall& call) {
      const S* x = call.input<S>(0);
      const int32_t *ids = call.input<int32_t>(1), *slots = call.input<int32_t>(2);
      const T* w = weighted ? call.input<T>(3) : nullptr;
      S* y = call.output<S>(0);
      if (!m.full) {
        ForPieces(call, size, 8 * kPiece, [&](int64_t begin, int64_t end) {
          std::memset(y + begin, 0, (end - begin) * sizeof(S));
        });
      }
      ForPieces(call, m.tokens, RowPiece(width * m.choices), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin * m.choices; i < end * m.choices; ++i) {
          const int64_t row = m.Row(m.Run(i / m.choices), ids[i], slots[i]);
          if (row < 0) continue;
          const S* from = x + i / m.choices * width;
          S* to = y + row * width;
          if (w == nullptr) {
            std::copy_n(from, width, to);
          } else {
            for (int64_t c = 0; c < width; ++c) to[c] = Rounded<S>(w[i] * Widen(from[c]));
          }
        }
      });
      return absl::OkStatus();
    };
  });
}

// Sums are made in the type of computation, and rounded once.
absl::StatusOr<Kernel> MakeCombine(const KernelSetup& s) {
  const QueueMap m = MapQueues(s, In(s, 0), In(s, 1));
  const int64_t width = LastDim(s.out[0]);
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [m, width, weighted = s.in.size() > 3](const KernelCall& call) {
      constexpr int64_t kColumns = 256;
      const S* y = call.input<S>(0);
      const int32_t *ids = call.input<int32_t>(1), *slots = call.input<int32_t>(2);
      const T* w = weighted ? call.input<T>(3) : nullptr;
      S* out = call.output<S>(0);
      ForPieces(call, m.tokens, RowPiece(width * m.choices), [&](int64_t begin, int64_t end) {
        T sums[kColumns];
        for (int64_t token = begin; token < end; ++token) {
          for (int64_t first = 0; first < width; first += kColumns) {
            const int64_t columns = std::min(kColumns, width - first);
            std::fill_n(sums, columns, T(0));
            for (int64_t i = token * m.choices; i < (token + 1) * m.choices; ++i) {
              const int64_t row = m.Row(m.Run(token), ids[i], slots[i]);
              if (row < 0) continue;
              const S* from = y + row * width + first;
              const T factor = w == nullptr ? T(1) : w[i];
              for (int64_t c = 0; c < columns; ++c) sums[c] += factor * Widen(from[c]);
            }
            S* to = out + token * width + first;
            for (int64_t c = 0; c < columns; ++c) to[c] = Rounded<S>(sums[c]);
          }
        }
      });
      return absl::OkStatus();
    };
  });
}

// Σ a b in an order that depends on n alone.
template <typename T, typename S>
T Dot(const S* a, const S* b, int64_t n) {
  constexpr int kLanes = 16;
  T lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += Widen(a[i + l]) * Widen(b[i + l]);
  }
  for (const T lane : lanes) sum += lane;
  for (; i < n; ++i) sum += Widen(a[i]) * Widen(b[i]);
  return sum;
}

absl::StatusOr<Kernel> MakeCombineGrad(const KernelSetup& s) {
  const QueueMap m = MapQueues(s, In(s, 1), In(s, 2));
  const int64_t width = LastDim(In(s, 0));
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [m, width](const KernelCall& call) {
      const S *dout = call.input<S>(0), *y = call.input<S>(1);
      const int32_t *ids = call.input<int32_t>(2), *slots = call.input<int32_t>(3);
      T* dw = call.output<T>(0);
      ForPieces(call, m.tokens, RowPiece(width * m.choices), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin * m.choices; i < end * m.choices; ++i) {
          const int64_t row = m.Row(m.Run(i / m.choices), ids[i], slots[i]);
          dw[i] = row < 0 ? T(0) : Dot<T>(dout + i / m.choices * width, y + row * width, width);
        }
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable DispatchTable() {
  return {{"combine", MakeCombine}, {"combine_grad", MakeCombineGrad}, {"dispatch", MakeDispatch}};
}

}  // namespace oneflow
