// MXFP4, the format in which gpt-oss's experts are published: numbers of 4 bits, 32 of which share
// a scale, a power of two (Open Compute Project, Microscaling Formats 1.0). A tensor `w` [experts,
// in, out] is in a file as two tensors of bytes:
//
//   w_blocks  U8 [experts, out, in / 32, 16]  two numbers in a byte, the first in its low bits
//   w_scales  U8 [experts, out, in / 32]      2^(byte - 127)
//
// It is read as the numbers [experts, out, in] that these are, in this order. Values are those of
// transformers' convert_moe_packed_tensors: exact in bf16, infinite where they exceed its range.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "oneflow_core/tensor/shape.h"
#include "training/hugging_face/safetensors.h"

namespace oneflow {

inline constexpr std::string_view kMxfp4Blocks = "_blocks", kMxfp4Scales = "_scales";
inline constexpr int64_t kMxfp4Block = 32;  // numbers that share a scale

struct Mxfp4Tensor {
  const SafetensorsFile *blocks_file = nullptr, *scales_file = nullptr;
  const FileTensor *blocks = nullptr, *scales = nullptr;
};

// An input error unless both tensors have bytes in the shapes of `dims`, [experts, out, in].
absl::Status CheckMxfp4(const Mxfp4Tensor& tensor, const Dims& dims);

// Numbers [first, first + values.size()). Requires that the tensor has them. Thread-safe.
absl::Status ReadMxfp4(const Mxfp4Tensor& tensor, int64_t first, std::span<float> values);

}  // namespace oneflow
