// For tests: samples of every kind of kernel that computes, as the ops' rows make them, with the
// shapes of their ops inferred.
#pragma once

#include <string>
#include <vector>

#include "actor_runtime/kernel/kernel_test_util.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

struct KernelSample {
  std::string kind;
  std::vector<SampleTensor> in;
  AttrMap attrs;
};

const std::vector<KernelSample>& SmallSamples();  // a few elements a dimension, some odd
const std::vector<KernelSample>& LargeSamples();  // several tasks and blocks a kernel
// Several blocks a kernel of a GPU, small enough for one that is emulated.
const std::vector<KernelSample>& MediumSamples();

// The definition of the sample's op.
inline const OpDef& FindDef(const KernelSample& sample) {
  return *FindOpDef(sample.kind, sample.attrs);
}

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
// The largest Distance of an output of type `dtype` of the sample's kernel from its f64 reference.
double FindTolerance(const KernelSample& sample, DType dtype);
// Optimizer numbers for adamw.
StepNumbers TestStepNumbers(int64_t step);

}  // namespace oneflow
