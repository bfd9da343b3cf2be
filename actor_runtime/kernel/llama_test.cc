// Rotary position embeddings and rms_norm against Hugging Face's transformers: values stored here
// were computed by transformers 4.44.2 with PyTorch 1.13.1 on CPU (modeling_rope_utils: default and
// llama3; apply_rotary_pos_emb and LlamaRMSNorm of models/llama), in f32.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_test_util.h"
#include "actor_runtime/kernel/rotary_frequencies.h"

namespace oneflow {
namespace {

constexpr int64_t kHead = 128;
// The positions and the elements whose results are stored.
constexpr int kPositions[] = {0, 1, 777, 8191, 100000};
constexpr int kElements[] = {0, 1, 20, 40, 63, 64, 84, 127};

// Values that f32 holds, for x.
Values XValues(int64_t n) {
  Values values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(i * 37 % 101 - 50) / 64;
  return values;
}

struct Reference {
  std::string name;
  AttrMap attrs;
  std::vector<uint32_t> frequencies;  // the bits of all
  std::vector<std::vector<float>> y;  // of positions 1, ..., at kElements
};

AttrMap ScaledAttrs() {
  return {{"theta", 500000.0},
          {"scale_factor", 8.0},
          {"low_frequency_factor", 1.0},
          {"high_frequency_factor", 4.0},
          {"original_positions", int64_t{8192}}};
}

Reference Theta10000() {
  return {"theta 10000",
          {{"theta", 10000.0}},
          {0x3f800000, 0x3f5dafd7, 0x3f3ff911, 0x3f263de0, 0x3f0ff59a, 0x3ef953cf, 0x3ed7e89b,
           0x3ebaf81b, 0x3ea1e89b, 0x3e8c3504, 0x3e72d423, 0x3e5247ed, 0x3e361887, 0x3e1db040,
           0x3e088d77, 0x3dec7fd6, 0x3dcccccd, 0x3db15978, 0x3d99940d, 0x3d84fe4d, 0x3d6655c2,
           0x3d47763f, 0x3d2cba15, 0x3d159348, 0x3d0186e3, 0x3ce054d2, 0x3cc2434f, 0x3ca8398b,
           0x3c91ad39, 0x3c7c4d33, 0x3c5a7bf2, 0x3c3d3311, 0x3c23d70a, 0x3c0de12d, 0x3bf5b9b0,
           0x3bd4ca15, 0x3bb8449c, 0x3b9f91cc, 0x3b8a2e77, 0x3b6f520e, 0x3b4f3e38, 0x3b33770f,
           0x3b1b690d, 0x3b06946f, 0x3ae91528, 0x3ac9d75c, 0x3aaec98e, 0x3a975c0e, 0x3a83126f,
           0x3a6301e2, 0x3a44948c, 0x3a2a3b44, 0x3a136a16, 0x39ff4fac, 0x39dd1725, 0x39bf74d7,
           0x39a5cb60, 0x398f9272, 0x3978a815, 0x395753e4, 0x393a7753, 0x39217916, 0x390bd472,
           0x38f22ce2},
          {{0.548056722f, -0.492904186f, -0.451737761f, 0.0756540895f, 0.750014424f, 0.390843749f,
            0.240615651f, -0.124913394f},
           {-0.595526695f, -0.547359526f, -0.557548702f, -0.312669158f, 0.602401197f, -0.16925925f,
            0.263185084f, -0.243877172f},
           {-0.634832621f, -0.601263523f, 0.355640829f, -0.495186508f, 0.617829978f, 0.169198707f,
            -0.699981928f, 0.0552422702f},
           {-0.081934914f, 0.182820618f, 0.615115643f, -0.0245240927f, -0.422442377f, 0.769045591f,
            -0.273418635f, -0.535606623f}}};
}

Reference Theta500000() {
  return {"theta 500000",
          {{"theta", 500000.0}},
          {0x3f800000, 0x3f508ac1, 0x3f29e1c6, 0x3f0a6384, 0x3ee177bc, 0x3eb7ab7d, 0x3e959ee3,
           0x3e73c461, 0x3e4693b0, 0x3e21c3a0, 0x3e03c6a0, 0x3dd6b19c, 0x3daee4ad, 0x3d8e7898,
           0x3d681e67, 0x3d3d1684, 0x3d1a08c8, 0x3cfaf53f, 0x3ccc6f49, 0x3ca68939, 0x3c87a9c3,
           0x3c5d06ec, 0x3c340d6d, 0x3c12ac7f, 0x3beef74f, 0x3bc2aa76, 0x3b9e9402, 0x3b812e35,
           0x3b527720, 0x3b2b72dc, 0x3b0baa41, 0x3ae38c10, 0x3ab95d21, 0x3a970023, 0x3a7603ea,
           0x3a486886, 0x3a23418d, 0x3a04fdbf, 0x39d8ac81, 0x39b08199, 0x398fc8f8, 0x396a426f,
           0x393ed4f4, 0x391b7475, 0x38fd45c3, 0x38ce51f5, 0x38a8126b, 0x3888ea0f, 0x385f10c4,
           0x3835b687, 0x381406cb, 0x37f12b80, 0x37c47610, 0x37a00a69, 0x37825f34, 0x37546808,
           0x372d07a7, 0x370cf400, 0x36e5a54d, 0x36bb12c7, 0x369864a7, 0x367848c2, 0x364a41b0,
           0x3624c2ff},
          {{0.548056722f, -0.496003866f, -0.441838712f, 0.0779107437f, 0.750000298f, 0.390843749f,
            0.258343726f, -0.12499816f},
           {-0.595526695f, 0.195901379f, -0.60976404f, -0.220501304f, 0.57869029f, -0.16925925f,
            -0.0911854729f, -0.295771599f},
           {-0.634832621f, -0.70580858f, 0.621336162f, -0.17529656f, 0.415593833f, 0.169198707f,
            0.479996264f, -0.460486054f},
           {-0.081934914f, 0.711887956f, -0.672487199f, 0.0894277692f, 0.38305378f, 0.769045591f,
            -0.0297652632f, -0.564448237f}}};
}

Reference Llama31() {
  return {"Llama 3.1",
          ScaledAttrs(),
          {0x3f800000, 0x3f508ac1, 0x3f29e1c6, 0x3f0a6384, 0x3ee177bc, 0x3eb7ab7d, 0x3e959ee3,
           0x3e73c461, 0x3e4693b0, 0x3e21c3a0, 0x3e03c6a0, 0x3dd6b19c, 0x3daee4ad, 0x3d8e7898,
           0x3d681e67, 0x3d3d1684, 0x3d1a08c8, 0x3cfaf53f, 0x3ccc6f49, 0x3ca68939, 0x3c87a9c3,
           0x3c5d06ec, 0x3c340d6d, 0x3c12ac7f, 0x3beef74f, 0x3bc2aa76, 0x3b9e9402, 0x3b812e35,
           0x3b527720, 0x3b0dfd06, 0x3ab3d11d, 0x3a60979e, 0x3a0995d2, 0x39a3f108, 0x393b2dd2,
           0x38c86886, 0x38a3418d, 0x3884fdbf, 0x3858ac81, 0x38308199, 0x380fc8f8, 0x37ea426f,
           0x37bed4f4, 0x379b7475, 0x377d45c3, 0x374e51f5, 0x3728126b, 0x3708ea0f, 0x36df10c4,
           0x36b5b687, 0x369406cb, 0x36712b80, 0x36447610, 0x36200a69, 0x36025f34, 0x35d46808,
           0x35ad07a7, 0x358cf400, 0x3565a54d, 0x353b12c7, 0x351864a7, 0x34f848c2, 0x34ca41b0,
           0x34a4c2ff},
          {{0.548056722f, -0.496003866f, -0.441838712f, 0.0780982152f, 0.75000006f, 0.390843749f,
            0.258343726f, -0.124999769f},
           {-0.595526695f, 0.195901379f, -0.60976404f, -0.109946355f, 0.57819581f, -0.16925925f,
            -0.0911854729f, -0.296737134f},
           {-0.634832621f, -0.70580858f, 0.621336162f, -0.376462042f, 0.407427043f, 0.169198707f,
            0.479996264f, -0.467727304f},
           {-0.081934914f, 0.711887956f, -0.672487199f, 0.494732976f, 0.253921866f, 0.769045591f,
            -0.0297652632f, -0.633131683f}}};
}

// Of transformers 5.24 with PyTorch 2.15, whose powers are within one unit in the last place.
struct ScaledReference {
  std::string name;
  int64_t head;
  AttrMap attrs;
  std::vector<uint32_t> frequencies;
};

AttrMap YarnAttrs(double theta, double factor, double slow, double fast, int64_t positions) {
  return {{"theta", theta},
          {"scaling", std::string("yarn")},
          {"scale_factor", factor},
          {"low_frequency_factor", slow},
          {"high_frequency_factor", fast},
          {"original_positions", positions}};
}

std::vector<ScaledReference> ScaledReferences() {
  AttrMap exact = YarnAttrs(150000, 32, 1, 32, 4096), part = YarnAttrs(500000, 8, 1, 32, 8192);
  exact["exact"] = true;
  part["rotated"] = int64_t{32};
  return {{"gpt-oss: YaRN, exact",
           64,
           exact,
           {0x3f800000, 0x3f306535, 0x3ef316a2, 0x3ea77faa, 0x3e66d3fa, 0x3e1f0cfd, 0x3ddb2f9f,
            0x3d970764, 0x3d502194, 0x3d01ddd5, 0x3c9e646f, 0x3c3dec94, 0x3bdea840, 0x3b7cfe14,
            0x3b093803, 0x3a89f778, 0x39ef543c, 0x390799b9, 0x3820adc6, 0x37dd6dfc, 0x37989328,
            0x375242fa, 0x3710e12c, 0x36c7a82b, 0x3689928c, 0x363d9647, 0x3602a245, 0x35b40668,
            0x35781728, 0x352af200, 0x34eb93eb, 0x34a252d3}},
          {"YaRN of a quarter of a head",
           128,
           part,
           {0x3f800000, 0x3ee177bc, 0x3e4693b0, 0x3daee4ad, 0x3d1a08c8, 0x3c5fd81c, 0x3b9b53f4,
            0x3ac7f12a, 0x39de6fc0, 0x38a3418d, 0x380fc8f8, 0x377d45c3, 0x36df10c4, 0x36447610,
            0x35ad07a7, 0x351864a7}},
          {"YaRN with a step",
           32,
           YarnAttrs(50000, 32, 1, 1, 4096),
           {0x3f800000, 0x3f022edb, 0x3e84673d, 0x3e06a951, 0x3d88f541, 0x3d0b4b37, 0x3c8dab61,
            0x3c1015e9, 0x3b928aff, 0x3b150acf, 0x38179588, 0x379a2b5b, 0x371ccc77, 0x369f790d,
            0x36223151, 0x35a4f575}},
          {"an odd number of elements",
           10,
           {{"theta", 10000.0}, {"rotated", int64_t{5}}},
           {0x3f800000, 0x3ccdc613, 0x3a2566d4}},
          {"linear, half a head",
           64,
           {{"theta", 1000000.0},
            {"scaling", std::string("linear")},
            {"scale_factor", 8.0},
            {"rotated", int64_t{32}}},
           {0x3e000000, 0x3d57e89b, 0x3cb61887, 0x3c19940d, 0x3b8186e3, 0x3ada7bf2, 0x3a38449c,
            0x399b690d, 0x3903126f, 0x385d1725, 0x37ba7753, 0x371d43a4, 0x3684a2b2, 0x35dfba4f,
            0x353cb0c1, 0x349f23e4}}};
}

TEST_CASE("scaled frequencies of a part of a head are those of transformers") {
  for (const ScaledReference& reference : ScaledReferences()) {
    INFO(reference.name);
    const Port x = FullPort({1, 1, 1, reference.head});
    KernelHarness h("rotary", reference.attrs, {{x}}, {x});
    const std::vector<float> f = RotaryFrequencies(h.setup());
    REQUIRE(f.size() == reference.frequencies.size());
    for (size_t j = 0; j < f.size(); ++j) {
      INFO("pair " << j);
      const auto bits = static_cast<int64_t>(std::bit_cast<uint32_t>(f[j]));
      CHECK(std::abs(bits - static_cast<int64_t>(reference.frequencies[j])) <= 1);
    }
  }
}

TEST_CASE("rotary turns a part of a head, by a factor, and keeps the rest") {
  constexpr int64_t kD = 10, kRotated = 4;
  const Port x = FullPort({1, 3, 2, kD}, DType::kF64);
  AttrMap attrs = YarnAttrs(10000, 4, 1, 8, 16);
  attrs["rotated"] = kRotated, attrs["attention_factor"] = 1.5;
  KernelHarness h("rotary", attrs, {{x}}, {x});
  const Values values = XValues(3 * 2 * kD);
  h.SetInput(0, values);
  REQUIRE(h.MakeAndCall() == absl::OkStatus());
  const std::vector<float> f = RotaryFrequencies(h.setup());
  const Values y = h.Output(0);
  for (int64_t i = 0; i < 3 * 2 * kD; ++i) {
    const int64_t token = i / (2 * kD), e = i % kD, j = e % 2;
    const double angle = static_cast<double>(token) * f[j];
    const double c = 1.5 * std::cos(angle), s = 1.5 * std::sin(angle);
    const double expected = e >= kRotated ? values[i]
                            : e < 2       ? values[i] * c - values[i + 2] * s
                                          : values[i] * c + values[i - 2] * s;
    INFO("token " << token << ", element " << e);
    CHECK(y[i] == Approx(expected).margin(e >= kRotated ? 0 : 2e-7));
  }
}

KernelHarness Rotary(const AttrMap& attrs, DType dtype) {
  constexpr int64_t kTokens = std::size(kPositions);
  const Port x = FullPort({1, kTokens, 1, kHead}, dtype);
  KernelHarness h("rotary", attrs, {{x}, {FullPort({1, kTokens}, DType::kI32)}}, {x});
  h.SetInput(0, XValues(kTokens * kHead));
  h.SetInput(1, Values(std::begin(kPositions), std::end(kPositions)));
  return h;
}

TEST_CASE("rotary's frequencies have the bits of transformers") {
  for (const Reference& reference : {Theta10000(), Theta500000(), Llama31()}) {
    INFO(reference.name);
    KernelHarness h = Rotary(reference.attrs, DType::kF32);
    std::vector<uint32_t> bits;
    for (const float f : RotaryFrequencies(h.setup())) bits.push_back(std::bit_cast<uint32_t>(f));
    CHECK(bits == reference.frequencies);
  }
}

TEST_CASE("rotary turns as transformers does, up to position 100000, whatever the type of x is") {
  for (const Reference& reference : {Theta10000(), Theta500000(), Llama31()}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      INFO(reference.name << ", " << std::string(Name(dtype)));
      KernelHarness h = Rotary(reference.attrs, dtype);
      REQUIRE(h.MakeAndCall() == absl::OkStatus());
      const Values y = h.Output(0);
      // x is exact in bf16, too, so the results are rounded once.
      const double allowed = dtype == DType::kBF16 ? 0x1p-8 : 2e-7;
      const Values x = XValues(static_cast<int64_t>(y.size()));
      CHECK(std::equal(x.begin(), x.begin() + kHead, y.begin()));  // position 0
      for (size_t p = 0; p < reference.y.size(); ++p) {
        for (size_t e = 0; e < std::size(kElements); ++e) {
          INFO("position " << kPositions[p + 1] << ", element " << kElements[e]);
          const double expected = reference.y[p][e];
          CHECK(y[(p + 1) * kHead + kElements[e]] == Approx(expected).margin(allowed).epsilon(0));
        }
      }
    }
  }
}

TEST_CASE(
    "rotary: positions of tokens, that of the first, and none are the same where they say so") {
  constexpr int64_t kLength = 7;
  const Dims dims = {2, kLength, 3, 8};
  const auto run = [&](const Dims& of_positions, const Values& positions) {
    std::vector<std::vector<Port>> in = {{FullPort(dims, DType::kF32)}};
    if (!positions.empty()) in.push_back({FullPort(of_positions, DType::kI32)});
    KernelHarness h("rotary", {{"theta", 10000.0}}, in, {FullPort(dims, DType::kF32)});
    h.SetInput(0, XValues(Product(dims)));
    if (!positions.empty()) h.SetInput(1, positions);
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    return h.OutputBytes(0);
  };
  const auto each = [&](int first) {
    Values positions;
    for (int64_t i = 0; i < 2 * kLength; ++i) {
      positions.push_back(static_cast<double>(first + i % kLength));
    }
    return positions;
  };
  CHECK(run({}, {}) == run({1}, {0}));
  CHECK(run({}, {}) == run({2, kLength}, each(0)));
  CHECK(run({1}, {5}) == run({2, kLength}, each(5)));
  CHECK(run({1}, {5}) != run({1}, {6}));
}

TEST_CASE("rotary's inverse turns back") {
  for (const int64_t d : {2, 6, 40, 1030}) {
    INFO("d " << d);
    const Dims dims = {1, 9, 2, d};
    const Port x = FullPort(dims, DType::kF64), positions = FullPort({1}, DType::kI32);
    const Values values = XValues(Product(dims));
    KernelHarness there("rotary", {{"theta", 10000.0}}, {{x}, {positions}}, {x});
    KernelHarness back("rotary", {{"theta", 10000.0}, {"inverse", true}}, {{x}, {positions}}, {x});
    there.SetInput(0, values);
    for (KernelHarness* h : {&there, &back}) {
      h->SetInput(1, {1234});
      REQUIRE(h->Make() == absl::OkStatus());
    }
    REQUIRE(there.Call() == absl::OkStatus());
    CHECK(Distance(there.Output(0), values) > 0.1);
    back.SetInput(0, there.Output(0));
    REQUIRE(back.Call() == absl::OkStatus());
    CHECK(Distance(back.Output(0), values) < 2e-7);  // cosines and sines are of f32
  }
}

TEST_CASE("rms_norm normalises as transformers does") {
  constexpr int64_t kWidth = 16;
  const std::vector<std::vector<float>> expected[] = {
      {{-1.36060715f, -0.417296857f, 0.887697041f, -1.14132476f, -0.10026221f, 1.30248415f,
        -0.895622849f, 0.243192017f, 1.74369073f, -0.62350148f, 0.613065779f, -1.29759645f,
        -0.3249605f, 1.00935912f, -1.07038832f, 0.0f},
       {0.498231888f, -0.428876847f, 0.183029294f, 0.663611948f, -0.281146049f, 0.379132122f,
        -0.650015473f, -0.120341755f, 0.588308454f, -0.524509609f, 0.0535360649f, 0.546473205f,
        -0.38593033f, 0.240487412f, 0.715775251f, -0.234277487f}},
      {{-1.3606075f, -0.417297006f, 0.887697399f, -1.14132512f, -0.100262247f, 1.30248451f,
        -0.895623207f, 0.243192092f, 1.74369121f, -0.623501718f, 0.613066018f, -1.29759693f,
        -0.324960619f, 1.00935948f, -1.07038867f, 0.0f},
       {0.876021802f, -0.754077494f, 0.321813285f, 1.16680312f, -0.494328171f, 0.666613281f,
        -1.14289701f, -0.211592242f, 1.03439987f, -0.922224879f, 0.0941303894f, 0.96084255f,
        -0.678566277f, 0.422839671f, 1.25851977f, -0.411921024f}}};
  Values x = XValues(2 * kWidth), gamma = XValues(kWidth);
  // A row of small numbers shows the epsilon.
  for (int64_t i = 0; i < kWidth; ++i) x[i] *= 8, x[kWidth + i] /= 256, gamma[i] = 1 + gamma[i] / 4;
  for (const int i : {0, 1}) {
    const Port port = FullPort({2, kWidth}, DType::kF32);
    KernelHarness h("rms_norm", {{"epsilon", i == 0 ? 1e-5 : 1e-6}},
                    {{port}, {FullPort({kWidth}, DType::kF32)}},
                    {port, FullPort({2}, DType::kF32)});
    h.SetInput(0, x);
    h.SetInput(1, gamma);
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    const Values y = h.Output(0);
    for (int64_t e = 0; e < 2 * kWidth; ++e) {
      CHECK(y[e] == Approx(expected[i][e / kWidth][e % kWidth]).epsilon(3e-7));
    }
  }
}

}  // namespace
}  // namespace oneflow
