// Dropout's masks: the elements that the kernels dropout and stored_dropout keep. This file alone
// defines the inputs of a mask. Internal to kernel/ and cuda/kernel/.
//
// An element is kept or dropped by a function of (seed, step, mask, element):
//   seed     of the run
//   step     of the firing: FindMicroBatch in run_context.h
//   mask     the name of the original op: the attribute `mask` of gradients and clones, else the
//           actor's name
//   element  row-major, in the tensor of the full step: the logical tensors of its micro-batches,
//           of n elements each, one after the other. Element e of the logical tensor of
//           micro-batch i is i * n + e; a device finds e from the slice it holds. Since the batch
//           comes first, this is (global sample, element of the sample).
//
// So micro-batches, shards, stages, slots, clones, threads and resumes change no bit, and no mask
// needs to be stored: the backward of dropout recomputes it, that of stored_dropout reads it.
//
//   const DropoutMask mask(setup, "rate", Product(port.dims));
//   v.dropout(mask.Numbers(call), mask.First(call) + e, x, y, count, call.accumulate);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"

namespace oneflow {

class DropoutMask {
 public:
  // `rate`: the attribute that holds the rate; without it nothing is dropped. `elements`: of the
  // logical tensor that is masked.
  DropoutMask(const KernelSetup& setup, std::string_view rate, int64_t elements);

  // The numbers of this firing. Allocates nothing.
  DropoutNumbers Numbers(const KernelCall& call) const;
  // Element 0 of the logical tensor of this firing's micro-batch.
  uint64_t First(const KernelCall& call) const;

 private:
  double rate_;
  std::string mask_;
  int64_t elements_;
};

}  // namespace oneflow
