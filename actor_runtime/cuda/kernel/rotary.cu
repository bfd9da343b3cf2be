// Rotary position embeddings. A block takes as many tokens as its threads have pairs of a head's
// elements: a thread computes the cosine and sine of a pair, and all heads of the tokens use them.
#include <algorithm>
#include <vector>

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/rotary_frequencies.h"

namespace oneflow::cuda {
namespace {

constexpr int kMostPairs = kThreads;  // of a head

struct RotarySizes {
  int64_t tokens, length;  // of all sequences, of each
  int64_t heads;
  int d, half;  // elements of a head, and pairs of it that are turned
  int block_tokens;
  bool each;        // positions are those of all tokens, else that of the first
  float direction;  // -1 for the gradient
  float factor;     // of cosines and sines
};

struct Frequencies {
  float at[kMostPairs];
};

struct SineCosine {
  float sine, cosine;
};

// Of an angle in f32, as good as f32 can show: by Taylor's polynomials in f64 of what is left below
// pi / 4 of up to 2^31.
__device__ inline SineCosine SinCos(float angle) {
  const double x = static_cast<double>(angle);
  const double n = rint(x * 0.63661977236758134308);
  // pi / 2 in two parts; n times the first, of 21 bits, is exact.
  const double r = (x - n * 0x1.921fbp+0) - n * 0x1.5110b4611a626p-22, r2 = r * r;
  double s = r2 * (1.0 / 6227020800) - 1.0 / 39916800;
  s = s * r2 + 1.0 / 362880;
  s = s * r2 - 1.0 / 5040;
  s = s * r2 + 1.0 / 120;
  s = s * r2 - 1.0 / 6;
  s = s * r2 * r + r;
  double c = r2 * (-1.0 / 87178291200) + 1.0 / 479001600;
  c = c * r2 - 1.0 / 3628800;
  c = c * r2 + 1.0 / 40320;
  c = c * r2 - 1.0 / 720;
  c = c * r2 + 1.0 / 24;
  c = c * r2 - 0.5;
  c = c * r2 + 1.0;
  const auto quadrant = static_cast<int64_t>(n);
  const double sine = quadrant % 2 == 0 ? s : c, cosine = quadrant % 2 == 0 ? c : s;
  return {static_cast<float>((quadrant & 2) == 0 ? sine : -sine),
          static_cast<float>(((quadrant + 1) & 2) == 0 ? cosine : -cosine)};
}

template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    RotaryKernel(RotarySizes s, Frequencies frequencies, bool accumulate, S* y, const S* x,
                 const int32_t* positions) {
  __shared__ float cosines[kThreads], sines[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * s.block_tokens;
  const int64_t rest = s.tokens - first;
  const int tokens = rest < s.block_tokens ? static_cast<int>(rest) : s.block_tokens;
  if (thread < tokens * s.half) {
    const int64_t token = first + thread / s.half;
    int64_t position = s.each ? positions[token] : token % s.length;
    if (!s.each && positions != nullptr) position += *positions;
    const float angle = static_cast<float>(position) * frequencies.at[thread % s.half];
    const SineCosine turned = SinCos(angle);
    cosines[thread] = turned.cosine * s.factor;
    sines[thread] = turned.sine * s.factor * s.direction;
  }
  __syncthreads();
  const int packs = s.half / kSize;
  const int64_t all = tokens * s.heads * packs;
  for (int64_t i = thread; i < all; i += kThreads) {
    const int pair = static_cast<int>(i % packs) * kSize;
    const int64_t head = i / packs;  // of all tokens of the block
    const int64_t at = (first * s.heads + head) * s.d + pair;
    const Floats<kSize> a = LoadPack<kSize>(x + at), b = LoadPack<kSize>(x + at + s.half);
    const int turn = static_cast<int>(head / s.heads) * s.half + pair;
    Floats<kSize> left, right;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float c = cosines[turn + j], sine = sines[turn + j];
      left.at[j] = a.at[j] * c - b.at[j] * sine;
      right.at[j] = b.at[j] * c + a.at[j] * sine;
    }
    PutPack<kSize>(y + at, left, accumulate);
    PutPack<kSize>(y + at + s.half, right, accumulate);
  }
  // What is not turned.
  const int kept = s.d / kSize - 2 * packs;
  for (int64_t i = thread; i < tokens * s.heads * kept; i += kThreads) {
    const int64_t at =
        (first * s.heads + i / kept) * s.d + 2 * s.half + static_cast<int>(i % kept) * kSize;
    PutPack<kSize>(y + at, LoadPack<kSize>(x + at), accumulate);
  }
}

absl::StatusOr<Kernel> MakeRotary(const KernelSetup& s) {
  const Dims& x = In(s, 0).local();
  const std::vector<float> values = RotaryFrequencies(s);
  const auto half = static_cast<int64_t>(values.size());
  if (half > kMostPairs) {
    return absl::UnimplementedError(s.name + ": no CUDA kernel \"rotary\" that turns more than " +
                                    std::to_string(2 * kMostPairs) + " elements of a head");
  }
  const bool has_positions = s.in.size() > 1;
  const RotarySizes sizes{
      .tokens = x[0] * x[1],
      .length = x[1],
      .heads = DimsProduct(x, 2, static_cast<int>(x.size()) - 1),
      .d = static_cast<int>(x.back()),
      .half = static_cast<int>(half),
      .block_tokens = static_cast<int>(kThreads / std::max<int64_t>(1, half)),
      .each = has_positions && In(s, 1).dims.size() == 2,
      .direction = BoolAttr(s, "inverse") ? -1.0f : 1.0f,
      .factor = static_cast<float>(DoubleAttr(s, "attention_factor", 1)),
  };
  Frequencies frequencies{};
  std::copy(values.begin(), values.end(), frequencies.at);
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(half | x.back(), [&]<int kSize>(Size<kSize>) {
      return Kernel([sizes, frequencies, has_positions](const KernelCall& call) {
        if (sizes.tokens * sizes.heads * sizes.d == 0) return absl::OkStatus();
        return Launch("rotary", &RotaryKernel<kSize, S>,
                      {MakeGrid(DivideUp(sizes.tokens, sizes.block_tokens)), dim3(kThreads)},
                      FindStream(call), sizes, frequencies, call.accumulate, call.output<S>(0),
                      call.input<S>(0), has_positions ? call.input<int32_t>(1) : nullptr);
      });
    });
  });
}

}  // namespace

KernelTable RotaryTable() { return {{"rotary", MakeRotary}}; }

}  // namespace oneflow::cuda
