// Rotary position embeddings. The cosines and sines of a position are computed once for all of its
// heads. The gradient turns by the negative angles. What is not turned is copied.
#include <algorithm>
#include <vector>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/rotary_frequencies.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// Pairs of a head whose cosines and sines are kept at a time.
constexpr int64_t kPairs = 256;

// The position of a token.
struct TokenPositions {
  const int32_t* given;  // null: 0, 1, ... in each sequence
  bool each;             // one for each token; else that of the first token of all sequences
  int64_t length;
  int64_t operator()(int64_t token) const {
    if (given == nullptr) return token % length;
    return each ? given[token] : given[0] + token % length;
  }
};

absl::StatusOr<Kernel> MakeRotary(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const Dims& x_dims = In(s, 0).local();
    const int64_t tokens = x_dims[0] * x_dims[1], length = x_dims[1];
    const int64_t heads = DimsProduct(x_dims, 2, static_cast<int>(x_dims.size()) - 1);
    const std::vector<float> frequencies = RotaryFrequencies(s);
    const auto half = static_cast<int64_t>(frequencies.size());
    const int64_t d = x_dims.back(), row = heads * d;
    const bool has_positions = s.in.size() > 1;
    const bool each = has_positions && In(s, 1).dims.size() == 2;
    const float direction = BoolAttr(s, "inverse") ? -1 : 1;
    const auto factor = static_cast<float>(DoubleAttr(s, "attention_factor", 1));
    return [=, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* x = call.input<S>(0);
      S* y = call.output<S>(0);
      const TokenPositions positions{has_positions ? call.input<int32_t>(1) : nullptr, each,
                                     length};
      ForPieces(call, tokens, RowPiece(row), [&](int64_t begin, int64_t end) {
        T cosines[kPairs], sines[kPairs];
        for (int64_t token = begin; token < end; ++token) {
          const float position = direction * static_cast<float>(positions(token));
          for (int64_t j = 0; j < half; j += kPairs) {
            const int64_t n = std::min(kPairs, half - j), at = token * row + j;
            v.rotary_angles(position, factor, frequencies.data() + j, cosines, sines, n);
            v.rotate(x + at, cosines, sines, y + at, heads, d, half, n, call.accumulate);
          }
          for (int64_t head = 0; head < heads; ++head) {
            const int64_t at = token * row + head * d + 2 * half;
            PutRow<T>(x + at, d - 2 * half, call.accumulate, y + at);
          }
        }
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable RotaryTable() { return {{"rotary", MakeRotary}}; }

}  // namespace oneflow
