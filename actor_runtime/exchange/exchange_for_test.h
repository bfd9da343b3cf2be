// For tests of communicators: exchanges of random tensors, and what they must give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
// Several tensors of one mesh; or, with `send`, what device 0 has and device 1 wants.
struct ExchangeCase {
  std::vector<TensorCase> tensors;
  bool accumulate = false;
  bool send = false;
  int members() const { return tensors[0].mesh.devices(); }
};
std::string Describe(const ExchangeCase& c);

// Of one kind ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "send"), between
// `members`, or a mixture of them; ragged and empty parts among them.
ExchangeCase RandomCase(const std::string& kind, int members, std::mt19937_64* random);

// By tensor, then by member: what ExchangeWork is made of.
std::vector<std::vector<KernelSetup>> SetupsOf(const ExchangeCase& c);

// The memory of the members in one firing: random inputs, what outputs held before, and what they
// must hold after it: summed in rank order in f32, what was there last, rounded once.
struct CaseMemory {
  // By member, then by tensor; empty where a member has none.
  std::vector<std::vector<std::vector<std::byte>>> in, out, wanted;
};
CaseMemory RandomMemory(const ExchangeCase& c, std::mt19937_64* random);

}  // namespace oneflow
