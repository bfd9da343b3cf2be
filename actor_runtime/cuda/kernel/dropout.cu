// Dropout. A thread makes one block of random bits, four words, and drops the four elements whose
// words they are: 2j, 2j + 1, 2j + 16 and 2j + 17 of a group of 32 (RandomStream::Word).
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/map.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/dropout.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow::cuda {
namespace {

constexpr int64_t kGroup = 32, kGroupBlocks = 8;

struct Words {
  uint32_t at[4];
};

// Philox4x32-10, as actor_runtime/random/random.cc has it.
__device__ inline Words Philox(uint64_t key, uint64_t stream, uint64_t index) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  Words c{{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
           static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * c.at[0], p1 = kMultiplier1 * c.at[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.at[1] ^ key0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.at[3] ^ key1, static_cast<uint32_t>(p0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

// The positions of a slice's elements in the tensor of a step: rows that are runs of it.
struct MaskedSlice {
  int64_t rows = 1, run = 1;
  int64_t row_threads = 0;  // that a row needs wherever it begins
  int64_t begin = 0;        // of the first row in the logical tensor
  RowStrides strides;
};

absl::StatusOr<MaskedSlice> MakeMaskedSlice(const KernelSetup& s, const Port& port) {
  const int rank = static_cast<int>(port.dims.size());
  if (rank > RowStrides::kMost) {
    return absl::UnimplementedError(s.name + ": dropout of a tensor of " + std::to_string(rank) +
                                    " dimensions");
  }
  MaskedSlice m;
  int outer = rank;
  for (bool dense = true; outer > 0 && dense;) {
    --outer;
    m.run *= port.slice.size[outer];
    dense = port.slice.size[outer] == port.dims[outer];
  }
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    m.begin += port.slice.begin[i] * stride;
    if (i < outer) {
      m.rows *= port.slice.size[i];
      m.strides.count[i] = port.slice.size[i];
      m.strides.from[i] = stride;
      m.strides.to[i] = 0;
    }
    stride *= port.dims[i];
  }
  m.strides.dims = outer;
  m.row_threads = (DivideUp(m.run - 1, kGroup) + 1) * kGroupBlocks;
  return m;
}

// `kept` may be null: nothing is stored.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(uint64_t key, uint64_t stream, uint32_t drop_below, float scale, uint64_t first,
                  MaskedSlice slice, bool accumulate, S* y, uint8_t* kept, const S* x) {
  const int64_t row = GlobalThread() / slice.row_threads;
  if (row >= slice.rows) return;
  const int64_t thread = GlobalThread() % slice.row_threads;
  const uint64_t begin = first + static_cast<uint64_t>(FindOffsets(slice.strides, row).from);
  const uint64_t block = begin / kGroup * kGroupBlocks + static_cast<uint64_t>(thread);
  const uint64_t element = block / kGroupBlocks * kGroup + block % kGroupBlocks * 2;
  const Words words = Philox(key, stream, block);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t at = static_cast<int64_t>(element + i / 2 * (kGroup / 2) + i % 2 - begin);
    if (at < 0 || at >= slice.run) continue;
    const int64_t local = row * slice.run + at;
    const bool keep = words.at[i] >= drop_below;
    Put(y + local, keep ? Wide(x[local]) * scale : 0.0f, accumulate);
    if (kept != nullptr) kept[local] = keep;
  }
}

// For the logical elements of a micro-batch from slice.begin on.
template <typename S>
absl::Status Drop(const KernelCall& call, const DropoutMask& mask, const MaskedSlice& slice,
                  uint8_t* kept) {
  if (slice.rows * slice.run == 0) return absl::OkStatus();
  const DropoutNumbers numbers = mask.Numbers(call);
  const uint64_t first = mask.First(call) + static_cast<uint64_t>(slice.begin);
  return Launch("dropout", &DropoutKernel<S>, ElementsShape(slice.rows * slice.row_threads),
                FindStream(call), numbers.key, numbers.stream, numbers.drop_below,
                static_cast<float>(numbers.scale), first, slice, call.accumulate, call.output<S>(0),
                kept, call.input<S>(0));
}

struct Keep {
  float scale;
  __device__ float operator()(float x, uint8_t kept) const { return kept != 0 ? x * scale : 0.0f; }
};

absl::StatusOr<Kernel> MakeMaskKernel(const KernelSetup& s, bool store) {
  const Port& port = s.out[0];
  ASSIGN_OR_RETURN(const MaskedSlice slice, MakeMaskedSlice(s, port));
  return ForStoredAs(s, port.dtype, [&]<typename S>(S) {
    return Kernel(
        [slice, store, mask = DropoutMask(s, "rate", Product(port.dims))](const KernelCall& call) {
          return Drop<S>(call, mask, slice, store ? call.output<uint8_t>(1) : nullptr);
        });
  });
}

absl::StatusOr<Kernel> MakeDropout(const KernelSetup& s) {
  return MakeMaskKernel(s, /*store=*/false);
}
absl::StatusOr<Kernel> MakeStoredDropout(const KernelSetup& s) {
  return MakeMaskKernel(s, /*store=*/true);
}

absl::StatusOr<Kernel> MakeStoredDropoutGrad(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  const Keep keep{static_cast<float>(1 / (1 - DoubleAttr(s, "rate")))};
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([n, keep](const KernelCall& call) {
      return Map(call, "stored_dropout_grad", keep, n, call.output<S>(0), call.input<S>(0),
                 call.input<uint8_t>(1));
    });
  });
}

}  // namespace

KernelTable DropoutTable() {
  return {{"dropout", MakeDropout},
          {"stored_dropout", MakeStoredDropout},
          {"stored_dropout_grad", MakeStoredDropoutGrad}};
}

}  // namespace oneflow::cuda
