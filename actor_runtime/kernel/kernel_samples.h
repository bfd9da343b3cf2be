// For tests: a sample of every kind of kernel that computes, with the shapes of its op inferred.
#pragma once

#include <string>
#include <vector>

#include "actor_runtime/kernel/kernel_test_util.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct SampleTensor {
  Dims dims;
  int64_t ids = 0;  // > 0: i32 ids below this; else floating point
  double low = -1, high = 1;
  bool wide = false;    // f64 whatever the sample's type
  bool narrow = false;  // bf16 in a sample of f32
  bool mask = false;    // u8, 0 or 1
};

struct KernelSample {
  std::string kind;
  std::vector<SampleTensor> in;
  AttrMap attrs;
};

const std::vector<KernelSample>& SmallSamples();  // a few elements a dimension, some odd
const std::vector<KernelSample>& LargeSamples();  // several tasks and blocks a kernel

std::string ToString(const KernelSample& sample);
// A graph of sources "in0", ... and the op "op", with shapes; floating point tensors are `dtype`,
// except inputs that set another type.
Graph MakeSampleGraph(const KernelSample& sample, DType dtype);
// Values of the inputs; input i is a function of its dims and i.
std::vector<Values> InputValues(const KernelSample& sample);
// The number of the kind's first inputs that are update registers: the kernel does not get them as
// inputs but finds their values in the outputs of the same index.
int UpdateInputs(const std::string& kind);
// Sets the op's input i at the address from which its kernel reads it.
void SetOpInput(KernelHarness& harness, int i, const Values& values);
// The kernel of the sample on full tensors, with inputs set.
KernelHarness MakeHarness(const KernelSample& sample, DType dtype, int threads = 1);
// The largest Distance of an output of type `dtype` of a kernel of this kind from its f64
// reference.
double FindTolerance(const std::string& kind, DType dtype);
// Optimizer numbers for adamw.
StepNumbers TestStepNumbers(int64_t step);

}  // namespace oneflow
