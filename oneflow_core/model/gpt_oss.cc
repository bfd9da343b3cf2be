#include "oneflow_core/model/gpt_oss.h"

#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "oneflow_core/model/decoder.h"

namespace oneflow {
namespace {

constexpr std::string_view kGptOssDefaults =
    "layers: 2 hidden: 256 inner: 256 heads: 8 groups: 2 head_dim: 32 vocab: 1024 tied: false "
    "theta: 150000 qkv_bias: true proj_bias: true sinks: true activation: 'clamped_silu' "
    "experts: 4 experts_per_token: 2 router_bias: true expert_bias: true "
    "rope_scaling { kind: YARN factor: 32 positions: 4096 high: 32 low: 1 exact: true } "
    "blocks { classes { name: 'local' numbers { window: 128 } } classes { name: 'full' } "
    "run { count: 1 index: 0 } run { count: 1 index: 1 } }";

Preset PublishedGptOss(const char* name, int layers, int experts) {
  return {name, absl::StrFormat("layers: %d hidden: 2880 inner: 2880 heads: 64 groups: 8 "
                                "head_dim: 64 sequence: 131072 vocab: 201088 experts: %d "
                                "experts_per_token: 4",
                                layers, experts)};
}

}  // namespace

Family GptOssFamily() {
  return DecoderFamily(
      "gpt_oss", "gpt-oss", kGptOssDefaults,
      {PublishedGptOss("gpt-oss-20b", 24, 32), PublishedGptOss("gpt-oss-120b", 36, 128)});
}

}  // namespace oneflow
