#include "oneflow_core/model/glm.h"

#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "oneflow_core/model/decoder.h"

namespace oneflow {
namespace {

constexpr std::string_view kGlmDefaults =
    "layers: 3 hidden: 256 inner: 128 heads: 4 groups: 2 head_dim: 64 vocab: 1024 tied: false "
    "theta: 1000000 rotary_share: 0.5 qkv_bias: true experts: 4 experts_per_token: 2 "
    "shared_inner: 128 scores: 'sigmoid' bias_rate: 0.001 aux_loss_coeff: 0 "
    "blocks { classes { name: 'dense' numbers { inner: 704 experts: 0 } } "
    "classes { name: 'mixture' } run { count: 1 index: 0 } run { count: 0 index: 1 } }";

// `dense` blocks, with an MLP of width `dense_inner`, before the others.
Preset PublishedGlm(const char* name, int layers, int hidden, int inner, int experts, int dense,
                    int dense_inner, const char* own) {
  return {name,
          absl::StrFormat(
              "layers: %d hidden: %d inner: %d shared_inner: %d heads: 96 groups: 8 head_dim: 128 "
              "sequence: 131072 vocab: 151552 experts: %d experts_per_token: 8 %s "
              "blocks { classes { name: 'dense' numbers { inner: %d experts: 0 } } "
              "classes { name: 'mixture' } run { count: %d index: 0 } run { count: 0 index: 1 } }",
              layers, hidden, inner, inner, experts, own, dense_inner, dense)};
}

}  // namespace

Family GlmFamily() {
  return DecoderFamily(
      "glm", "GLM 4.5", kGlmDefaults,
      {PublishedGlm("glm4.5", 92, 5120, 1536, 160, 3, 12288, "qk_norm: true routed_scale: 2.5"),
       PublishedGlm("glm4.5-air", 46, 4096, 1408, 128, 1, 10944, "")});
}

}  // namespace oneflow
