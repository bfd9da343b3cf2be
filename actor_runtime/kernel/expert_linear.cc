// Products of each expert's tokens with its weight, and the gradients of weight and bias. A task is
// an expert's part of one queue (of one weight's gradient: an expert), multiplied by one thread.
#include <algorithm>
#include <cstring>

#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/queue_map.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

template <typename T>
Strided<T> Matrix(const T* data, int64_t columns, bool transposed, int64_t rows) {
  return transposed ? Strided<T>{data, 1, rows} : Strided<T>{data, columns, 1};
}

absl::StatusOr<Kernel> MakeExpertLinear(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const ExpertQueues q, FindQueues(s, In(s, 0), In(s, 2), In(s, 1)));
  const int64_t width = LastDim(In(s, 0)), columns = LastDim(s.out[0]);
  const int64_t bytes =
      Elements(In(s, 0)) == 0 || columns == 0 ? 0 : ProductWorkspace(q.slots, columns, width);
  RETURN_IF_ERROR(NeedWorkspace(s, bytes * s.threads));
  return ForStored(s, s.out[0].dtype, [&]<typename T>(auto, T) -> Kernel {
    return [=, transposed = BoolAttr(s, "transpose_w"), biased = s.in.size() > 3,
            &kernels = *ProductKernelsFor<T>(s.isa)](const KernelCall& call) {
      const T *y = call.input<T>(0), *w = call.input<T>(1);
      const int32_t* offsets = call.input<int32_t>(2);
      const SumType<T>* bias = biased ? call.input<SumType<T>>(3) : nullptr;
      T* out = call.output<T>(0);
      const auto tasks = static_cast<int>(q.experts() * q.runs);
      call.pool->ParallelFor(tasks, [&](int task, int thread) {
        const int64_t e = task / q.runs, run = task % q.runs;
        const ExpertQueues::Rows rows = q.Find(offsets, e, run);
        const GemmArgs<T, T> g{.m = rows.size(),
                               .n = columns,
                               .k = width,
                               .a = {y + rows.begin * width, width, 1},
                               .b = Matrix(w + e * width * columns, columns, transposed, width),
                               .c = out + rows.begin * columns,
                               .c_row = columns,
                               .bias = bias == nullptr ? nullptr : bias + e * columns};
        GemmSerial(kernels, g, call.workspace.data() + thread * bytes);
        if ((e + 1) % q.of_group != 0) return;
        const int64_t end = (e / q.of_group * q.runs + run + 1) * q.slots;
        std::memset(out + rows.end * columns, 0, (end - rows.end) * columns * sizeof(T));
      });
      return absl::OkStatus();
    };
  });
}

template <typename T, typename C>
Kernel GradWeight(const KernelSetup& s, const ExpertQueues& q, int64_t bytes) {
  const int64_t width = LastDim(In(s, 0)), columns = LastDim(In(s, 1));
  return [=, &kernels = *ProductKernelsFor<T>(s.isa)](const KernelCall& call) {
    const T *y = call.input<T>(0), *dout = call.input<T>(1);
    const int32_t* offsets = call.input<int32_t>(2);
    call.pool->ParallelFor(static_cast<int>(q.experts()), [&](int e, int thread) {
      C* dw = call.output<C>(0) + e * width * columns;
      bool adds = call.accumulate;
      for (int64_t run = 0; run < q.runs; ++run) {
        const ExpertQueues::Rows rows = q.Find(offsets, e, run);
        if (rows.size() == 0 || width == 0 || columns == 0) continue;
        const GemmArgs<T, C> g{.m = width,
                               .n = columns,
                               .k = rows.size(),
                               .a = {y + rows.begin * width, 1, width},
                               .b = {dout + rows.begin * columns, columns, 1},
                               .c = dw,
                               .c_row = columns,
                               .accumulate = adds};
        GemmSerial(kernels, g, call.workspace.data() + thread * bytes);
        adds = true;
      }
      if (!adds) std::fill_n(dw, width * columns, C(0));
    });
    return absl::OkStatus();
  };
}

absl::StatusOr<Kernel> MakeExpertLinearGradWeight(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const ExpertQueues q, FindQueues(s, In(s, 0), In(s, 2), s.out[0]));
  const int64_t width = LastDim(In(s, 0)), columns = LastDim(In(s, 1));
  const int64_t bytes =
      Elements(In(s, 0)) == 0 || columns == 0 ? 0 : ProductWorkspace(width, columns, q.slots);
  RETURN_IF_ERROR(NeedWorkspace(s, bytes * s.threads));
  if (In(s, 0).dtype == DType::kBF16) return GradWeight<Bf16, float>(s, q, bytes);
  return ForFloats(s, In(s, 0).dtype, [&](auto zero) -> Kernel {
    return GradWeight<decltype(zero), decltype(zero)>(s, q, bytes);
  });
}

absl::StatusOr<Kernel> MakeExpertLinearGradBias(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const ExpertQueues q, FindQueues(s, In(s, 0), In(s, 1), s.out[0]));
  const int64_t columns = LastDim(In(s, 0));
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [=, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* dout = call.input<S>(0);
      const int32_t* offsets = call.input<int32_t>(1);
      call.pool->ParallelFor(static_cast<int>(q.experts()), [&](int e, int) {
        T* dbias = call.output<T>(0) + e * columns;
        if (!call.accumulate) std::fill_n(dbias, columns, T(0));
        for (int64_t run = 0; run < q.runs; ++run) {
          const ExpertQueues::Rows rows = q.Find(offsets, e, run);
          v.column_sums(dout + rows.begin * columns, dbias, rows.size(), columns, 0, columns,
                        /*accumulate=*/true);
        }
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable ExpertLinearTable() {
  return {{"expert_linear", MakeExpertLinear},
          {"expert_linear_grad_bias", MakeExpertLinearGradBias},
          {"expert_linear_grad_weight", MakeExpertLinearGradWeight}};
}

}  // namespace oneflow
