// For tests of communicators: exchanges of random tensors, and their expected results.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/tensor/sbp.h"

namespace oneflow {

// One tensor of an exchange between the devices of a mesh.
struct TensorCase {
  Mesh mesh;
  Dims dims;
  NdSbp from, to;
  DType dtype = DType::kF32;
  int reduce = 0;  // as in KernelSetup
};
// Several tensors of one mesh; or, with `send`, tensors that device 0 has and device 1 wants.
struct ExchangeCase {
  std::vector<TensorCase> tensors;
  bool accumulate = false;
  bool send = false;
  int members() const { return tensors[0].mesh.devices(); }
};
std::string Describe(const ExchangeCase& c);

// An exchange of one kind ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "send"), or
// a mixture of them, between `members`; some parts are ragged or empty.
ExchangeCase RandomCase(const std::string& kind, int members, std::mt19937_64* random);

// The setups from which ExchangeWork is made, by tensor, then by member.
std::vector<std::vector<KernelSetup>> MakeSetups(const ExchangeCase& c);

// The memory of the members in one firing: random inputs, the outputs before the firing, and the
// outputs expected after it: summed in rank order in f32, the old output added last, rounded once.
struct CaseMemory {
  // By member, then by tensor; empty if a member has none.
  std::vector<std::vector<std::vector<std::byte>>> in, out, wanted;
};
CaseMemory RandomMemory(const ExchangeCase& c, std::mt19937_64* random);

}  // namespace oneflow
