#include "training/hugging_face/mxfp4.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/hugging_face/model_folder.h"

namespace oneflow {
namespace {

std::string LittleEndianText(uint64_t value) {
  std::string text(8, '\0');
  for (int i = 0; i < 8; ++i) text[i] = static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

struct NamedBytes {
  std::string name, type;
  Dims dims;
  std::string bytes;
};

std::string MakeSafetensors(const std::vector<NamedBytes>& tensors) {
  std::vector<std::string> fields;
  std::string data;
  for (const NamedBytes& t : tensors) {
    fields.push_back(absl::StrCat("\"", t.name, "\":{\"dtype\":\"", t.type, "\",\"shape\":[",
                                  absl::StrJoin(t.dims, ","), "],\"data_offsets\":[", data.size(),
                                  ",", data.size() + t.bytes.size(), "]}"));
    data += t.bytes;
  }
  const std::string header = absl::StrCat("{", absl::StrJoin(fields, ","), "}");
  return LittleEndianText(header.size()) + header + data;
}

// By the definition of E2M1 and E8M0: sign, exponent with bias 1, mantissa; 2^(scale - 127).
double NumberByDefinition(unsigned bits, unsigned scale) {
  const unsigned exponent = bits >> 1 & 3, mantissa = bits & 1;
  const double size = exponent == 0
                          ? 0.5 * mantissa
                          : (1 + 0.5 * mantissa) * std::ldexp(1, static_cast<int>(exponent) - 1);
  return std::ldexp((bits & 8) != 0 ? -size : size, static_cast<int>(scale) - 127);
}

constexpr char kGateUp[] = "model.layers.0.mlp.experts.gate_up_proj";
const Dims kGateDims = {2, 64, 3};  // experts, in, out of one of two

// Bytes that differ from each other: of block b, number i.
unsigned BitsAt(int64_t number) { return static_cast<unsigned>(number * 7 + number / 32) & 15; }
unsigned ScaleAt(int64_t block) { return static_cast<unsigned>(100 + block * 3); }

std::vector<NamedBytes> GateUpTensors() {
  const int64_t numbers = 2 * 6 * 64;
  std::string blocks, scales;
  for (int64_t n = 0; n < numbers; n += 2) {
    blocks.push_back(static_cast<char>(BitsAt(n) | BitsAt(n + 1) << 4));
  }
  for (int64_t b = 0; b < numbers / 32; ++b) scales.push_back(static_cast<char>(ScaleAt(b)));
  return {{absl::StrCat(kGateUp, "_blocks"), "U8", {2, 6, 2, 16}, blocks},
          {absl::StrCat(kGateUp, "_scales"), "U8", {2, 6, 2}, scales}};
}

absl::StatusOr<std::vector<MappedVariable>> MapGateUp(const ModelFolder& folder, const Dims& dims) {
  const std::vector<WantedVariable> wanted = {{"h.0.mlp.experts.gate.weight", dims},
                                              {"h.0.mlp.experts.up.weight", dims}};
  return MapVariables(folder, GptOssFiles(), wanted, /*vocab=*/0, /*tied=*/false);
}

std::string MapError(const std::vector<NamedBytes>& tensors, const Dims& dims) {
  const TemporaryDirectory dir;
  dir.Write("model.safetensors", MakeSafetensors(tensors));
  const auto folder = ModelFolder::Open(dir.path()).value();
  const auto mapped = MapGateUp(folder, dims);
  REQUIRE(absl::IsInvalidArgument(mapped.status()));
  std::string text(mapped.status().message());
  return text.substr(dir.path().size());
}

TEST_CASE("Mxfp4: all numbers with all scales, from any number on") {
  std::string blocks, scales;
  for (int scale = 0; scale < 256; ++scale) {
    for (int pair = 0; pair < 16; ++pair) {
      blocks.push_back(static_cast<char>((2 * pair & 15) | ((2 * pair + 1) & 15) << 4));
    }
    scales.push_back(static_cast<char>(scale));
  }
  const TemporaryDirectory dir;
  const std::string path = dir.Write(
      "m.safetensors",
      MakeSafetensors({{"b", "U8", {1, 256, 1, 16}, blocks}, {"s", "U8", {1, 256, 1}, scales}}));
  const auto file = SafetensorsFile::Open(path).value();
  const Mxfp4Tensor tensor = {.blocks_file = &file,
                              .scales_file = &file,
                              .blocks = *file.Find("b"),
                              .scales = *file.Find("s")};
  REQUIRE(CheckMxfp4(tensor, {1, 256, 32}).ok());
  std::vector<float> all(256 * 32);
  REQUIRE(ReadMxfp4(tensor, 0, all).ok());
  for (unsigned n = 0; n < all.size(); ++n) {
    const unsigned bits = n & 15, scale = n / 32;
    INFO("number " << bits << ", scale " << scale);
    const double exact = NumberByDefinition(bits, scale);
    REQUIRE(all[n] == (std::abs(exact) < 0x1p128
                           ? static_cast<float>(exact)
                           : std::copysign(INFINITY, static_cast<float>(bits < 8 ? 1 : -1))));
    REQUIRE(std::signbit(all[n]) == (bits >= 8));
  }
  CHECK(all[1] == 0x1p-128F);                 // a denormal number
  CHECK(all[252 * 32 + 7] == 6 * 0x1p+125F);  // finite; with the next scale it is not
  CHECK(std::isinf(all[253 * 32 + 7]));
  CHECK(all[255 * 32 + 1] == 0x1p+127F);
  CHECK(all[255 * 32] == 0);
  for (const auto& [first, count] : {std::pair(0, 1), {1, 1}, {31, 2}, {33, 70}, {8191, 1}}) {
    std::vector<float> some(count);
    REQUIRE(ReadMxfp4(tensor, first, some).ok());
    CHECK(std::equal(some.begin(), some.end(), all.begin() + first));
  }
}

TEST_CASE("Mxfp4: experts of a folder are slices of two variables") {
  const TemporaryDirectory dir;
  dir.Write("model.safetensors", MakeSafetensors(GateUpTensors()));
  const auto folder = ModelFolder::Open(dir.path()).value();
  const auto mapped = MapGateUp(folder, kGateDims);
  INFO(mapped.status());
  REQUIRE(mapped.ok());
  CHECK(ReadType((*mapped)[0].parts[0]) == FileType::kBF16);
  CHECK(CountElements((*mapped)[0].parts[0]) == 2 * 6 * 64);
  for (const int64_t v : {0, 1}) {
    for (const int64_t most : {5, 64, 1000}) {
      for (const Slice& slice : SplitTensor(kGateDims, most)) {
        std::vector<float> values(slice.elements());
        REQUIRE(ReadSlice((*mapped)[v], slice, values).ok());
        for (int64_t e = 0; e < slice.elements(); ++e) {
          const int64_t flat = IndexInTensor(kGateDims, slice, e);
          const int64_t expert = flat / (64 * 3), in = flat / 3 % 64, out = 2 * (flat % 3) + v;
          const int64_t number = (expert * 6 + out) * 64 + in;
          REQUIRE(values[e] ==
                  static_cast<float>(NumberByDefinition(BitsAt(number), ScaleAt(number / 32))));
        }
      }
    }
  }
}

TEST_CASE("Mxfp4: tensors that do not fit are refused by name") {
  std::vector<NamedBytes> tensors = GateUpTensors();
  CHECK(MapError(tensors, {2, 64, 4}) ==
        "/model.safetensors: tensor \"model.layers.0.mlp.experts.gate_up_proj_blocks\": is U8 "
        "[2,6,2,16], and MXFP4 of the model of config.json has U8 [2,8,2,16]; use the "
        "config.json of these weights");
  CHECK(MapError(tensors, {2, 40, 3})
            .find("is in MXFP4, whose blocks have 32 numbers, and the "
                  "model of config.json has 40 in a row") != std::string::npos);
  tensors[1].dims = {2, 3, 4};
  CHECK(MapError(tensors, kGateDims).find("_scales\": is U8 [2,3,4]") != std::string::npos);
  tensors.pop_back();
  CHECK(MapError(tensors, kGateDims) ==
        ": has no tensor \"model.layers.0.mlp.experts.gate_up_proj\", for variable "
        "h.0.mlp.experts.gate.weight, but \"model.layers.0.mlp.experts.gate_up_proj_blocks\" of "
        "U8; its weights are quantized: use the model with those before that, or save it as F32, "
        "BF16 or F16");
}

}  // namespace
}  // namespace oneflow
