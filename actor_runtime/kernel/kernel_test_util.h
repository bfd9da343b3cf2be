// KernelHarness, for tests: one kernel on one device, by kind, with values as doubles. It owns the
// resources that a plan would give: slots, workspace (exactly the bytes of the op's definition),
// threads.
//
//   KernelHarness h("gelu", {}, {{FullPort({4, 6})}}, {FullPort({4, 6})});
//   h.SetInput(0, x);
//   REQUIRE(h.Make().ok());
//   REQUIRE(h.Call().ok());
//   std::vector<double> y = h.Output(0);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/run_context.h"

namespace oneflow {

using Values = std::vector<double>;

// Values as elements of a type, rounded; and back.
void WriteValues(const Values& values, DType dtype, std::byte* to);
Values ReadValues(const std::byte* from, DType dtype, int64_t n);

// A port that holds a full tensor.
Port FullPort(const Dims& dims, DType dtype = DType::kF64);
// A port that holds `slice` of a tensor.
Port SlicePort(const Dims& dims, const Slice& slice, DType dtype = DType::kF64);

class KernelHarness {
 public:
  KernelHarness(std::string kind, AttrMap attrs, std::vector<std::vector<Port>> in,
                std::vector<Port> out, int threads = 1);

  KernelSetup& setup() { return setup_; }  // to change before Make
  RunContext& run() { return run_; }
  // Sets the values of input i, from its source `source`; or of output i before the call.
  void SetInput(int i, const Values& values, int source = 0);
  void SetOutput(int i, const Values& values);
  absl::Status Make();
  absl::Status Call(bool accumulate = false, int64_t firing = 0);
  absl::Status MakeAndCall(bool accumulate = false) {
    const absl::Status made = Make();
    return made.ok() ? Call(accumulate) : made;
  }
  Values Output(int i) const;
  std::vector<std::byte> OutputBytes(int i) const;

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    std::byte* data = nullptr;  // 64-byte aligned
    int64_t bytes = 0;
    explicit Buffer(int64_t size);
  };

  KernelSetup setup_;
  RunContext run_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<std::vector<Buffer>> in_;
  std::vector<Buffer> out_;
  Buffer workspace_;
  std::vector<std::vector<const std::byte*>> in_bases_;
  std::vector<std::span<const std::byte* const>> in_spans_;
  std::vector<std::byte*> out_bases_;
  Kernel kernel_;
};

// Pseudo-random values in [low, high), a function of the seed; integers in [0, n).
Values RandomValues(int64_t n, uint64_t seed, double low = -1, double high = 1);
Values RandomIds(int64_t n, uint64_t seed, int64_t vocabulary);

// The elements of `slice` of a full tensor; and the inverse.
Values ExtractSlice(const Values& full, const Dims& dims, const Slice& slice);
void Paste(const Values& piece, const Dims& dims, const Slice& slice, Values* full);

// Largest |a - b| / (1 + |b|).
double Distance(const Values& a, const Values& b);

}  // namespace oneflow
