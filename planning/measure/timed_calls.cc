#include "planning/measure/timed_calls.h"

#include <algorithm>
#include <span>

#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// Sizes as a GPT's blocks, tables and losses have them: b, t, c, o, heads, d, vocab.
constexpr SampleSizes kOnCpu[] = {
    {1, 64, 64, 64, 1, 64, 64}, {2, 256, 256, 256, 4, 64, 256}, {4, 256, 768, 3072, 12, 64, 8192}};
constexpr SampleSizes kOnCuda[] = {{1, 64, 64, 64, 1, 64, 64},
                                   {4, 256, 768, 3072, 12, 64, 8192},
                                   {8, 1024, 768, 3072, 12, 64, 50304},
                                   {8, 1024, 1600, 6400, 25, 64, 50304}};

// Products need more: their rows, and their columns in and out.
constexpr SampleSizes ProductSizes(int64_t rows, int64_t in, int64_t out) {
  return {1, rows, in, out, out / 64, 64, out};
}
constexpr SampleSizes kProductsOnCpu[] = {
    ProductSizes(64, 64, 64),     ProductSizes(256, 128, 384),  ProductSizes(512, 256, 1024),
    ProductSizes(256, 512, 4096), ProductSizes(512, 768, 3072), ProductSizes(512, 3072, 768)};
constexpr SampleSizes kProductsOnCuda[] = {
    ProductSizes(64, 64, 64),       ProductSizes(512, 256, 1024),    ProductSizes(1024, 768, 3072),
    ProductSizes(8192, 768, 3072),  ProductSizes(8192, 1600, 6400),  ProductSizes(8192, 6400, 1600),
    ProductSizes(8192, 768, 50304), ProductSizes(16384, 4096, 16384)};

using Sizes = std::span<const SampleSizes>;

Sizes FindSizes(proto::DeviceKind device, bool product) {
  if (device == proto::CUDA) return product ? Sizes(kProductsOnCuda) : Sizes(kOnCuda);
  return product ? Sizes(kProductsOnCpu) : Sizes(kOnCpu);
}

bool IsTimed(const OpDef& def, proto::DeviceKind device) {
  if (def.inputs.most == 0) return false;
  if (IsBoxing(def.kind) && def.kind != kCopyKernel) return false;
  return device == proto::CUDA ? def.on_cuda : def.on_cpu;
}

DType FindType(const SampleTensor& tensor) {
  if (tensor.ids > 0) return DType::kI32;
  if (tensor.mask) return DType::kU8;
  if (tensor.wide) return DType::kF64;
  return tensor.narrow ? DType::kBF16 : DType::kF32;
}

// True if the call counts as one of bf16: its first floating point input is.
bool IsNarrow(const OpSample& sample) {
  const auto first = std::ranges::find_if(sample.in, [](const SampleTensor& tensor) {
    return tensor.ids == 0 && !tensor.mask && !tensor.wide;
  });
  return first != sample.in.end() && first->narrow;
}

// Of the first sample of the type; none if there is none.
Ladder MakeLadder(const OpDef& def, proto::DeviceKind device, bool narrow) {
  Ladder ladder;
  // A batch of products is one of attention, and has its sizes.
  const bool product = def.product != nullptr && !def.cpu_workspace;
  for (const SampleSizes& sizes : FindSizes(device, product)) {
    for (const OpSample& sample : MakeSamples(def, sizes)) {
      const bool any = std::ranges::any_of(sample.in, &SampleTensor::narrow);
      if (narrow ? !IsNarrow(sample) : any) continue;
      TimedOp& op = ladder.emplace_back(TimedOp{def.kind, {}, sample.attrs});
      for (const SampleTensor& tensor : sample.in) {
        op.inputs.push_back({tensor.dims, FindType(tensor)});
      }
      break;
    }
  }
  return ladder;
}

}  // namespace

std::vector<Ladder> CallsToTime(proto::DeviceKind device) {
  std::vector<Ladder> ladders;
  for (const OpDef& def : OpDefs()) {
    if (!IsTimed(def, device)) continue;
    for (const bool narrow : {false, true}) {
      Ladder ladder = MakeLadder(def, device, narrow);
      if (!ladder.empty()) ladders.push_back(std::move(ladder));
    }
  }
  return ladders;
}

}  // namespace oneflow
