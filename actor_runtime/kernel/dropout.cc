#include "actor_runtime/kernel/dropout.h"

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

absl::StatusOr<Kernel> MakeDropout(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const Port& port = s.out[0];
    return [mask = DropoutMask(s, "rate", Product(port.dims)), dims = port.dims, slice = port.slice,
            &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* x = call.input<S>(0);
      S* y = call.output<S>(0);
      const DropoutNumbers numbers = mask.Numbers(call);
      const uint64_t first = mask.First(call);
      ForPieces(call, slice.elements(), kPiece, [&](int64_t begin, int64_t end) {
        ForRuns(dims, slice, begin, end, [&](int64_t at, int64_t index, int64_t count) {
          v.dropout(numbers, first + static_cast<uint64_t>(index), x + at, y + at, count,
                    call.accumulate);
        });
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeStoredDropout(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const Port& port = s.out[0];
    return [mask = DropoutMask(s, "rate", Product(port.dims)), dims = port.dims, slice = port.slice,
            &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* x = call.input<S>(0);
      S* y = call.output<S>(0);
      uint8_t* kept = call.output<uint8_t>(1);
      const DropoutNumbers numbers = mask.Numbers(call);
      const uint64_t first = mask.First(call);
      ForPieces(call, slice.elements(), kPiece, [&](int64_t begin, int64_t end) {
        ForRuns(dims, slice, begin, end, [&](int64_t at, int64_t index, int64_t count) {
          v.dropout_mask(numbers, first + static_cast<uint64_t>(index), kept + at, count);
        });
        v.apply_mask(kept + begin, static_cast<T>(numbers.scale), x + begin, y + begin, end - begin,
                     call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeStoredDropoutGrad(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const T scale = static_cast<T>(1 / (1 - DoubleAttr(s, "rate")));
    return [n = Elements(s.out[0]), scale, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* dy = call.input<S>(0);
      const uint8_t* kept = call.input<uint8_t>(1);
      S* dx = call.output<S>(0);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        v.apply_mask(kept + begin, scale, dy + begin, dx + begin, end - begin, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable DropoutTable() {
  return {{"dropout", MakeDropout},
          {"stored_dropout", MakeStoredDropout},
          {"stored_dropout_grad", MakeStoredDropoutGrad}};
}

}  // namespace oneflow
