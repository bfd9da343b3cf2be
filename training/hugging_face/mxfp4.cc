#include "training/hugging_face/mxfp4.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

// E2M1: a sign, two bits of exponent, one of mantissa.
constexpr float kNumbers[16] = {0,     0.5F,  1,     1.5F,  2,     3,     4,     6,
                                -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
constexpr int64_t kChunkNumbers = int64_t{1} << 16;

absl::Status CheckBytes(const SafetensorsFile& file, const FileTensor& tensor,
                        const Dims& expected) {
  if (tensor.type_name == "U8" && tensor.dims == expected) return absl::OkStatus();
  return InputError(
      file.path() + ": tensor " + Quoted(tensor.name),
      absl::StrCat("is ", tensor.type_name, " ", ToString(tensor.dims),
                   ", and MXFP4 of the model of config.json has U8 ", ToString(expected)),
      "use the config.json of these weights");
}

}  // namespace

absl::Status CheckMxfp4(const Mxfp4Tensor& tensor, const Dims& dims) {
  const int64_t in = dims[2];
  if (in % kMxfp4Block != 0) {
    return InputError(tensor.blocks_file->path() + ": tensor " + Quoted(tensor.blocks->name),
                      absl::StrCat("is in MXFP4, whose blocks have ", kMxfp4Block,
                                   " numbers, and the model of config.json has ", in, " in a row"),
                      "use the config.json of these weights");
  }
  Dims scales = {dims[0], dims[1], in / kMxfp4Block}, blocks = scales;
  blocks.push_back(kMxfp4Block / 2);
  RETURN_IF_ERROR(CheckBytes(*tensor.blocks_file, *tensor.blocks, blocks));
  return CheckBytes(*tensor.scales_file, *tensor.scales, scales);
}

absl::Status ReadMxfp4(const Mxfp4Tensor& tensor, int64_t first, std::span<float> values) {
  std::vector<std::byte> numbers, scales;
  while (!values.empty()) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(values.size()), kChunkNumbers);
    const int64_t byte = first / 2, block = first / kMxfp4Block, last = first + count - 1;
    numbers.resize(last / 2 - byte + 1);
    scales.resize(last / kMxfp4Block - block + 1);
    RETURN_IF_ERROR(tensor.blocks_file->ReadBytes(*tensor.blocks, byte, numbers));
    RETURN_IF_ERROR(tensor.scales_file->ReadBytes(*tensor.scales, block, scales));
    for (int64_t i = first; i <= last;) {
      // In two factors, for 2^128 is no number of f32 though half of it is.
      const int exponent = static_cast<int>(scales[i / kMxfp4Block - block]) - 127;
      const float factor = std::ldexp(1.0F, exponent / 2);
      const float other = std::ldexp(1.0F, exponent - exponent / 2);
      const int64_t end = std::min((i / kMxfp4Block + 1) * kMxfp4Block, last + 1);
      for (; i < end; ++i) {
        const auto pair = static_cast<unsigned>(numbers[i / 2 - byte]);
        values[i - first] = kNumbers[i % 2 == 0 ? pair & 15 : pair >> 4] * factor * other;
      }
    }
    first += count;
    values = values.subspan(count);
  }
  return absl::OkStatus();
}

}  // namespace oneflow
